/* A checkpoint that was asked for (exchange/save_vote.h): all nodes save after the same step, which no worker
 * has passed, and none goes on before all have saved; lost workers hold up nothing; messages that no node
 * sends are refused. */
#include "tests/unit/unit.h"

#include "runner/exchange/exchange_private.h"
#include "runner/exchange/exchange_step.h"
#include "tests/lib/cluster.h"

enum { WORKERS = 3, STEPS = 200 };

/* A job that the test drives by hand. */
struct bench {
    struct cluster c;
    struct err e;
    int n_nodes;
};

static void open_job(struct bench *b, struct cluster_config cfg)
{
    cfg.n_workers = WORKERS;
    cfg.n_params = 26;
    cfg.n_steps = STEPS;
    cfg.saves = true;
    b->e = (struct err){0};
    b->n_nodes = WORKERS + cfg.n_servers;
    cluster_open(&b->c, &cfg);
}

/* One that continues without a lost node. */
static void open_bench(struct bench *b, struct cluster_config cfg)
{
    cfg.goes_on = 1;
    open_job(b, cfg);
}

static struct exchange *node(const struct bench *b, int slot)
{
    return b->c.nodes[slot].x;
}

static void set_step(struct bench *b, int worker, uint64_t step)
{
    for (int i = 0; i < node(b, worker)->n_channels; i++)
        node(b, worker)->channels[i].run.step = step;
}

static void receive(struct bench *b, int slot)
{
    struct mesh_event ev;

    while (mesh_poll(b->c.nodes[slot].mesh, &ev, 0, &b->e) == 0 && ev.kind != MESH_NOTHING)
        assert_true(exchange_on_event(node(b, slot), &ev, &b->e) >= 0);
}

static void settle(struct bench *b)
{
    for (int i = 0; i < 6 * b->n_nodes; i++)
        receive(b, i % b->n_nodes);
}

static void ask(struct bench *b, int slot)
{
    assert_int_equal(save_vote_ask(node(b, slot), &b->e), CODEC_GO);
}

static void assert_point(const struct bench *b, uint64_t step)
{
    for (int i = 0; i < b->n_nodes; i++)
        assert_int_equal(save_vote_point(node(b, i)), step);
}

/* All nodes come to the step and save; none goes on before the last worker has. */
static void save(struct bench *b, uint64_t step)
{
    for (int i = b->n_nodes - 1; i >= 0; i--) {
        int rc;

        if (i < WORKERS) {
            set_step(b, i, step);
            assert_int_equal(save_vote_hold(node(b, i)), CODEC_GO);
        }
        rc = save_vote_saved(node(b, i), &b->e);
        assert_int_equal(rc, i < WORKERS && !(i == 0 && b->n_nodes == WORKERS) ? CODEC_WAIT : CODEC_GO);
        if (i > 0) {
            assert_int_equal(save_vote_kept(node(b, i)), 0);
            settle(b);
            assert_int_equal(save_vote_kept(node(b, i)), 0);
        }
    }
    settle(b);
    for (int i = 0; i < b->n_nodes; i++) {
        assert_int_equal(save_vote_kept(node(b, i)), step);
        assert_false(exchange_waits(node(b, i)));
    }
}

static const struct {
    struct cluster_config cfg;
    uint64_t point; /* if worker 2 is within step 18 */
} jobs[] = {
    {{.codec = "allreduce"}, 18},
    {{.codec = "fedavg", .local_steps = 5}, 20},
    {{.codec = "ps", .n_servers = 1}, 18},
    {{.codec = "ps", .n_servers = 3}, 18},
    {{.codec = "fedavg", .local_steps = 5, .n_servers = 2}, 20},
    {{.codec = "ps", .n_servers = 2, .is_asgd = true}, 18},
};

TEST(all_nodes_save_after_the_same_step_whoever_is_asked)
{
    for (size_t k = 0; k < N_OF(jobs); k++)
        for (int asked = 0; asked < WORKERS + jobs[k].cfg.n_servers; asked++) {
            struct bench b;

            open_bench(&b, jobs[k].cfg);
            for (int w = 0; w < WORKERS; w++)
                set_step(&b, w, (uint64_t)(15 + w));
            ask(&b, asked);
            ask(&b, asked); /* no effect */
            settle(&b);
            assert_point(&b, jobs[k].point);
            save(&b, jobs[k].point);
            cluster_close(&b.c);
        }
}

TEST(a_worker_begins_no_step_after_the_one_that_it_has_promised)
{
    char what[128];
    struct bench b;

    open_bench(&b, jobs[0].cfg);
    ask(&b, 2);
    assert_int_equal(save_vote_hold(node(&b, 2)), CODEC_GO);
    set_step(&b, 2, 1);
    assert_int_equal(save_vote_hold(node(&b, 2)), CODEC_WAIT);
    exchange_waits_for(node(&b, 2), what, sizeof what);
    assert_string_equal(what, "node 0's message about the step of a checkpoint");
    set_step(&b, 0, 3);
    settle(&b);
    assert_point(&b, 4);
    assert_int_equal(save_vote_hold(node(&b, 2)), CODEC_GO);
    cluster_close(&b.c);
}

/* A peer got the request only after it had sent chunks of the next step: its message comes behind them. */
TEST(a_worker_goes_on_if_a_peer_has_begun_the_next_collective)
{
    for (int is_early = 0; is_early <= 1; is_early++) {
        const struct mesh_head chunk = {.kind = FRAME_CHUNK, .peer = 1, .round = 1};
        struct mesh_event nothing = {.kind = MESH_NOTHING};
        struct bench b;
        struct mesh *m;
        void *at;

        open_job(&b, (struct cluster_config){.codec = "allreduce", .path = COMBINE_PATH_ALLREDUCE});
        m = b.c.nodes[0].mesh;
        ask(&b, 0);
        set_step(&b, 0, 1);
        if (!is_early)
            assert_int_equal(save_vote_hold(node(&b, 0)), CODEC_WAIT);
        assert_int_equal(m->sink(m->owner, &chunk, 4, &at), MESH_SINK_LATER);
        if (is_early)
            assert_int_equal(save_vote_hold(node(&b, 0)), CODEC_GO);
        else
            assert_int_equal(exchange_on_event(node(&b, 0), &nothing, &b.e), CODEC_GO);
        assert_false(exchange_waits(node(&b, 0)));
        set_step(&b, 1, 1);
        settle(&b);
        assert_point(&b, 2);
        cluster_close(&b.c);
    }
}

TEST(several_checkpoints_may_be_asked_for_one_after_the_other)
{
    struct bench b;

    open_bench(&b, jobs[3].cfg);
    ask(&b, 1);
    settle(&b);
    for (int i = 0; i < b.n_nodes; i++)
        ask(&b, i); /* the vote is under way */
    assert_point(&b, 1);
    save(&b, 1);
    for (int i = 0; i < b.n_nodes; i++)
        node(&b, i)->save_vote.kept = 0;
    ask(&b, 0);
    settle(&b);
    assert_point(&b, 2);
    save(&b, 2);
    cluster_close(&b.c);
}

TEST(a_server_that_has_saved_ignores_the_point_that_a_late_worker_forwards)
{
    const int first = WORKERS, second = WORKERS + 1;
    struct bench b;

    open_bench(&b, jobs[4].cfg);
    ask(&b, first);
    for (int w = 0; w < WORKERS; w++)
        receive(&b, w);
    receive(&b, first);
    receive(&b, 0);
    receive(&b, second);
    assert_int_equal(save_vote_point(node(&b, second)), 5);
    assert_int_equal(save_vote_saved(node(&b, second), &b.e), CODEC_GO);
    settle(&b);
    assert_int_equal(save_vote_point(node(&b, 1)), 5);
    assert_int_equal(save_vote_point(node(&b, second)), 0);
    assert_true(save_vote_has_saved(node(&b, second)));
    cluster_close(&b.c);
}

TEST(nothing_is_saved_at_the_end_of_the_job)
{
    struct bench b;

    open_bench(&b, jobs[0].cfg);
    set_step(&b, 1, STEPS);
    ask(&b, 0);
    settle(&b);
    assert_point(&b, 0);
    set_step(&b, 0, 1);
    assert_int_equal(save_vote_hold(node(&b, 0)), CODEC_GO);
    cluster_close(&b.c);
}

static void lose(struct bench *b, int lost)
{
    const struct mesh_event ev = {.kind = MESH_LOST, .head.peer = lost, .why = "a test"};

    for (int i = 0; i < b->n_nodes; i++)
        if (i != lost) {
            struct mesh_event of_node = ev;

            assert_true(exchange_on_event(node(b, i), &of_node, &b->e) >= 0);
        }
}

/* Whichever node was asked. */
TEST(a_vote_that_a_loss_has_ended_is_held_again_by_the_workers_that_remain)
{
    for (size_t k = 0; k < N_OF(jobs); k++)
        for (int asked = 0; asked < WORKERS + jobs[k].cfg.n_servers; asked++) {
            const int lost = asked == 2 ? 1 : 2;
            struct bench b;

            open_bench(&b, jobs[k].cfg);
            ask(&b, asked);
            lose(&b, lost);
            settle(&b);
            for (int i = 0; i < b.n_nodes; i++)
                assert_true(i == lost || save_vote_point(node(&b, i)) == (jobs[k].cfg.local_steps ? 5 : 1));
            cluster_close(&b.c);
        }
}

TEST(a_server_names_the_worker_for_which_it_waits)
{
    char what[128];
    struct bench b;

    open_bench(&b, jobs[3].cfg);
    ask(&b, WORKERS);
    receive(&b, 0);
    receive(&b, 1);
    receive(&b, WORKERS);
    assert_int_equal(stall_awaits(node(&b, WORKERS)), 2);
    exchange_waits_for(node(&b, WORKERS), what, sizeof what);
    assert_string_equal(what, "node 2's message about the step of a checkpoint");
    settle(&b);
    for (int i = b.n_nodes - 1; i >= 0; i--)
        if (i != 1)
            assert_true(save_vote_saved(node(&b, i), &b.e) >= 0);
    settle(&b);
    for (int i = WORKERS; i < b.n_nodes; i++) {
        assert_int_equal(stall_awaits(node(&b, i)), 1);
        exchange_waits_for(node(&b, i), what, sizeof what);
        assert_string_equal(what, "node 1's message that the checkpoint after step 1 is written");
    }
    assert_int_equal(stall_awaits(node(&b, 0)), -2);
    cluster_close(&b.c);
}

/* At each point of a vote. */
TEST(a_lost_worker_holds_up_nobody)
{
    for (int n_rounds = 0; n_rounds <= 6; n_rounds++)
        for (int lost = 0; lost < WORKERS; lost++) {
            struct bench b;

            open_bench(&b, jobs[0].cfg);
            ask(&b, 1);
            for (int i = 0; i < n_rounds; i++)
                receive(&b, i % WORKERS);
            lose(&b, lost);
            settle(&b);
            for (int w = 0; w < WORKERS; w++) {
                if (w == lost)
                    continue;
                set_step(&b, w, 1);
                assert_int_equal(save_vote_hold(node(&b, w)), CODEC_GO);
                if (save_vote_point(node(&b, w)) == 1)
                    save_vote_saved(node(&b, w), &b.e);
            }
            settle(&b);
            for (int w = 0; w < WORKERS; w++)
                assert_true(w == lost || !exchange_waits(node(&b, w)));
            cluster_close(&b.c);
        }
}

static void refuse(struct cluster_config cfg, int slot, int from, enum stop_vote_kind kind, uint64_t step,
                   size_t len)
{
    struct mesh_event ev = {.kind = MESH_MESSAGE,
                            .head = {.kind = FRAME_STOP_VOTE, .peer = from, .index = kind, .round = step}};
    struct bench b;

    open_bench(&b, cfg);
    ev.buf = mesh_buf_take(b.c.nodes[slot].mesh);
    ev.buf->len = len;
    memset(ev.buf->bytes, 0, len);
    if (exchange_on_event(node(&b, slot), &ev, &b.e) >= 0) {
        receive(&b, slot);
        assert_true(node(&b, slot)->peer_stats.has_left[exchange_slot(node(&b, slot), from)]);
    }
    cluster_close(&b.c);
}

TEST(messages_about_a_checkpoint_that_no_node_sends_are_refused)
{
    refuse(jobs[0].cfg, 0, 1, STOP_VOTE_POINT, 0, 0);         /* a worker asks by its step */
    refuse(jobs[0].cfg, 0, 1, STOP_VOTE_POINT, STEPS + 1, 0); /* the job has no such step */
    refuse(jobs[0].cfg, 0, 1, STOP_VOTE_POINT, 1, 1);
    refuse(jobs[0].cfg, 0, 1, STOP_VOTE_SAVED, 0, 0);
    refuse(jobs[2].cfg, WORKERS, 1, STOP_VOTE_POINT, 0, 0);
    refuse(jobs[2].cfg, WORKERS, 1, STOP_VOTE_SAVED, 0, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_nodes_save_after_the_same_step_whoever_is_asked),
        cmocka_unit_test(a_worker_begins_no_step_after_the_one_that_it_has_promised),
        cmocka_unit_test(a_worker_goes_on_if_a_peer_has_begun_the_next_collective),
        cmocka_unit_test(several_checkpoints_may_be_asked_for_one_after_the_other),
        cmocka_unit_test(a_server_that_has_saved_ignores_the_point_that_a_late_worker_forwards),
        cmocka_unit_test(nothing_is_saved_at_the_end_of_the_job),
        cmocka_unit_test(a_vote_that_a_loss_has_ended_is_held_again_by_the_workers_that_remain),
        cmocka_unit_test(a_server_names_the_worker_for_which_it_waits),
        cmocka_unit_test(a_lost_worker_holds_up_nobody),
        cmocka_unit_test(messages_about_a_checkpoint_that_no_node_sends_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
