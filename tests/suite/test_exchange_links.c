/* Which links a large job that combines by all-reduces has: its messages go over them, and a node that holds
 * up the job is named although not every node is linked to it. */
#include "tests/unit/unit.h"

#include "runner/exchange/exchange_private.h"
#include "runner/exchange/exchange_step.h"
#include "tests/lib/cluster.h"

enum { MANY = 70, MOST_LINKS = 14 /* 2 log2 MANY, and one to worker 0 */ };

static const struct cluster_config large_job = {.codec = "fedavg",
                                                .path = COMBINE_PATH_ALLREDUCE,
                                                .allreduce = COLLECTIVE_TREE,
                                                .n_workers = MANY,
                                                .n_steps = 3,
                                                .n_params = 90,
                                                .eval_every = 1,
                                                .shares_evaluations = true};

static void open_linked(struct cluster *c, const struct cluster_config *cfg, bool is_crowded)
{
    struct err e = {0};

    cluster_open(c, cfg);
    for (int i = 0; i < c->n_nodes; i++)
        assert_ok(exchange_choose_links(c->nodes[i].x, NULL, is_crowded, &e));
}

static int n_links(const struct cluster *c, int node)
{
    int n = 0;

    for (int k = 0; k < c->n_nodes; k++)
        n += exchange_needs_link(c->nodes[node].x, k);
    return n;
}

static bool has_sent(const struct exchange *x, int to)
{
    return peer_stats_read(&x->peer_stats, exchange_slot(x, to))->sent.messages > 0;
}

TEST(a_large_job_has_the_links_of_its_all_reduces_and_those_to_worker_0)
{
    static const enum collective_algorithm of[] = {COLLECTIVE_HALVING_DOUBLING, COLLECTIVE_CIRCULANT,
                                                   COLLECTIVE_TREE};

    for (size_t k = 0; k < N_OF(of); k++) {
        struct cluster_config cfg = large_job;
        struct cluster c;

        cfg.allreduce = of[k];
        open_linked(&c, &cfg, false);
        assert_true(cluster_run(&c));
        for (int i = 0; i < MANY; i++) {
            assert_int_equal(c.nodes[i].phase, NODE_DONE);
            assert_true(i == 0 ? n_links(&c, i) == MANY - 1 : n_links(&c, i) <= MOST_LINKS);
            for (int to = 0; to < MANY; to++) {
                assert_int_equal(exchange_needs_link(c.nodes[i].x, to),
                                 exchange_needs_link(c.nodes[to].x, i));
                assert_true(!has_sent(c.nodes[i].x, to) || exchange_needs_link(c.nodes[i].x, to));
            }
        }
        cluster_close(&c);
    }
}

/* Without votes worker 0 has no more links than the others. */
TEST(a_large_job_without_votes_has_the_links_of_its_all_reduces_only)
{
    struct cluster_config cfg = large_job;
    struct cluster c;

    cfg.eval_every = 0;
    cfg.shares_evaluations = false;
    open_linked(&c, &cfg, false);
    assert_true(cluster_run(&c));
    for (int i = 0; i < MANY; i++)
        assert_true(n_links(&c, i) < MOST_LINKS);
    cluster_close(&c);
}

TEST(workers_on_a_ring_are_linked_to_their_neighbors_and_to_worker_0_for_votes_only)
{
    for (int k = 0; k < 2; k++) {
        bool has_votes = k > 0;
        const struct cluster_config ring = {.codec = "gossip",
                                            .n_workers = MANY,
                                            .n_steps = 3,
                                            .n_params = 9,
                                            .eval_every = has_votes ? 1 : 0,
                                            .shares_evaluations = has_votes};
        struct cluster c;

        open_linked(&c, &ring, false);
        assert_true(cluster_run(&c));
        for (int i = 0; i < MANY; i++) {
            bool is_beside_0 = i == 1 || i == MANY - 1;

            assert_int_equal(c.nodes[i].phase, NODE_DONE);
            assert_int_equal(n_links(&c, i), !has_votes ? 2 : i == 0 ? MANY - 1 : is_beside_0 ? 2 : 3);
            for (int to = 0; to < MANY; to++)
                assert_true(!has_sent(c.nodes[i].x, to) || exchange_needs_link(c.nodes[i].x, to));
        }
        cluster_close(&c);
    }
}

TEST(other_jobs_have_all_links)
{
    struct cluster_config few = large_job, goes_on = large_job, gathers = large_job, direct = large_job;
    const struct cluster_config *const of[] = {&few, &goes_on, &gathers, &direct};

    few.n_workers = 64;
    goes_on.path = gathers.path = COMBINE_PATH_GATHER;
    goes_on.goes_on = 2;
    direct.allreduce = COLLECTIVE_DIRECT;
    for (size_t k = 0; k < N_OF(of); k++) {
        struct cluster c;

        open_linked(&c, of[k], k > 0);
        for (int i = 0; i < of[k]->n_workers; i++)
            assert_int_equal(n_links(&c, i), of[k]->n_workers - 1);
        cluster_close(&c);
    }
}

TEST(a_job_with_few_processors_for_its_workers_has_few_links)
{
    struct cluster_config cfg = large_job;
    struct cluster c;

    cfg.n_workers = 20;
    open_linked(&c, &cfg, true);
    assert_true(exchange_has_few_links(c.nodes[1].x));
    assert_int_equal(n_links(&c, 1), 1);
    assert_true(cluster_run(&c));
    cluster_close(&c);
}

/* The next report for node k from node `from`; what has arrived before it is dropped. */
static struct mesh_head next_word(const struct cluster *c, int k, int from)
{
    struct mesh_event ev = {0};
    struct err e = {0};

    while (ev.head.kind != FRAME_WAIT || ev.head.peer != from) {
        assert_ok(mesh_poll(c->nodes[k].mesh, &ev, 0, &e));
        if (ev.kind == MESH_MESSAGE)
            mesh_buf_put(ev.buf);
    }
    return ev.head;
}

static int hear(struct exchange *x, int from, int slot, uint64_t what, struct err *e)
{
    struct mesh_event ev = {
        .kind = MESH_MESSAGE,
        .head = {.kind = FRAME_WAIT, .peer = from, .index = (uint32_t)slot, .round = what},
        .buf = mesh_buf_take(x->mesh)};

    ev.buf->len = 0;
    return exchange_on_event(x, &ev, e);
}

/* In the tree worker 4 waits first for worker 5, and is linked to 0, 5 and 6. */
TEST(a_report_names_the_end_of_the_chain_and_a_peers_decision_is_passed_on)
{
    struct cluster c;
    struct exchange *x;
    struct err e = {0};

    open_linked(&c, &large_job, false);
    x = c.nodes[4].x;
    assert_int_equal(exchange_on_grad(x, 1, &e), CODEC_GO);
    assert_int_equal(exchange_on_step(x, &e), CODEC_WAIT);
    assert_int_equal(stall_awaits(x), 5);
    assert_int_equal(hear(x, 5, 69, 0, &e), CODEC_WAIT); /* to which node 4 has no link */
    assert_int_equal(stall_blocking_node(x, 8), 69);
    assert_int_equal(stall_send_wait(x, &e), CODEC_GO);
    assert_int_equal(next_word(&c, 6, 4).index, 69);
    assert_int_equal(next_word(&c, 0, 4).round, 0);
    assert_int_equal(hear(x, 5, 69, 1, &e), ERR_TIMEOUT);
    assert_error_has("node 69 holds up the job: node 5");
    assert_int_equal(next_word(&c, 0, 4).round, 1);
    cluster_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_large_job_has_the_links_of_its_all_reduces_and_those_to_worker_0),
        cmocka_unit_test(a_large_job_without_votes_has_the_links_of_its_all_reduces_only),
        cmocka_unit_test(workers_on_a_ring_are_linked_to_their_neighbors_and_to_worker_0_for_votes_only),
        cmocka_unit_test(other_jobs_have_all_links),
        cmocka_unit_test(a_job_with_few_processors_for_its_workers_has_few_links),
        cmocka_unit_test(a_report_names_the_end_of_the_chain_and_a_peers_decision_is_passed_on),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
