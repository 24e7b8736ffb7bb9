/* Which node is named when a wait has lasted too long: it follows from the reports of the peers, which
 * arrive here in a given order. */
#include "tests/unit/unit.h"

#include "runner/exchange/exchange_private.h"
#include "runner/exchange/exchange_step.h"
#include "tests/lib/cluster.h"

enum { N_PARAMS = 8, WORKERS = 4, WAITS = 0, GIVES_UP = 1, COMPUTES = 2 };
static const double TIMEOUT_S = 8;

/* Worker 0 of four has sent its weights and waits for those of the others. */
struct bench {
    struct cluster c;
    struct exchange *x;
    double now;
};

static void open_bench(struct bench *b, int goes_on)
{
    struct err e = {0};

    *b = (struct bench){.now = 100};
    cluster_open(&b->c, &(struct cluster_config){.codec = "fedavg",
                                                 .path = COMBINE_PATH_GATHER,
                                                 .n_workers = WORKERS,
                                                 .goes_on = goes_on,
                                                 .n_steps = 10,
                                                 .n_params = N_PARAMS});
    b->x = b->c.nodes[0].x;
    b->x->watch->time = &b->now;
    assert_int_equal(exchange_on_grad(b->x, 1, &e), CODEC_GO);
    assert_int_equal(exchange_on_step(b->x, &e), CODEC_WAIT);
    assert_int_equal(stall_awaits(b->x), 1);
}

/* A word of node `from` about the node in that slot, as it arrives. */
static int say(struct bench *b, int from, uint32_t slot, uint64_t what, struct err *e)
{
    struct mesh_event ev = {.kind = MESH_MESSAGE,
                            .head = {.kind = FRAME_WAIT, .peer = from, .index = slot, .round = what},
                            .buf = mesh_buf_take(b->x->mesh)};

    ev.buf->len = 0;
    return exchange_on_event(b->x, &ev, e);
}

static void waits(struct bench *b, int from, uint32_t slot)
{
    struct err e = {0};

    assert_int_equal(say(b, from, slot, WAITS, &e), CODEC_WAIT);
}

TEST(the_node_at_the_end_of_the_chain_is_named)
{
    struct bench b;

    open_bench(&b, 0);
    assert_int_equal(stall_blocking_node(b.x, TIMEOUT_S), 1);
    waits(&b, 1, 2);
    assert_int_equal(stall_blocking_node(b.x, TIMEOUT_S), 2);
    waits(&b, 2, 3);
    assert_int_equal(stall_blocking_node(b.x, TIMEOUT_S), 3);
    waits(&b, 3, 0); /* for this node, which has sent its contribution: 3 has not read it */
    assert_int_equal(stall_blocking_node(b.x, TIMEOUT_S), 3);
    waits(&b, 3, 1); /* a circle names nobody */
    assert_int_equal(stall_blocking_node(b.x, TIMEOUT_S), STALL_NO_NODE);
    cluster_close(&b.c);
}

TEST(an_old_report_of_a_node_does_not_count)
{
    struct bench b;

    open_bench(&b, 0);
    waits(&b, 1, 2);
    b.now += 3.5 * stall_period(TIMEOUT_S);
    assert_int_equal(stall_blocking_node(b.x, TIMEOUT_S), 1);
    cluster_close(&b.c);
}

TEST(where_nodes_wait_for_any_message_the_only_silent_node_is_named)
{
    struct bench b;

    open_bench(&b, 0);
    waits(&b, 1, UINT32_MAX);
    assert_int_equal(stall_blocking_node(b.x, TIMEOUT_S), STALL_NO_NODE);
    waits(&b, 3, UINT32_MAX);
    assert_int_equal(stall_blocking_node(b.x, TIMEOUT_S), 2);
    cluster_close(&b.c);
}

TEST(a_node_ends_for_the_reason_of_the_first_that_gives_up)
{
    struct bench b;
    struct err e = {0};

    open_bench(&b, 0);
    assert_int_equal(say(&b, 2, 3, GIVES_UP, &e), ERR_TIMEOUT);
    assert_string_equal(e.text, "node 3 holds up the job: node 2 has waited for it too long");
    assert_int_equal(say(&b, 2, 0, GIVES_UP, &e), ERR_TIMEOUT);
    assert_error_has("this node, node 0, holds up the job: node 2");
    /* The sender will end; the node that it waits for is not known. */
    assert_int_equal(say(&b, 2, UINT32_MAX, GIVES_UP, &e), CODEC_WAIT);
    cluster_close(&b.c);
}

TEST(a_job_that_continues_without_lost_nodes_does_not_end_by_the_word_of_one)
{
    struct bench b;
    struct err e = {0};

    open_bench(&b, 2);
    assert_int_equal(say(&b, 2, 3, GIVES_UP, &e), CODEC_WAIT);
    cluster_close(&b.c);
}

TEST(a_node_whose_program_computes_holds_up_the_job_and_says_so)
{
    struct bench b;
    struct err e = {0};

    open_bench(&b, 0);
    assert_false(stall_computes(b.x, 1, TIMEOUT_S));
    assert_int_equal(say(&b, 1, UINT32_MAX, COMPUTES, &e), CODEC_WAIT);
    assert_int_equal(stall_blocking_node(b.x, TIMEOUT_S), 1);
    assert_true(stall_computes(b.x, 1, TIMEOUT_S));
    assert_false(stall_computes(b.x, 2, TIMEOUT_S));
    assert_false(stall_computes(b.x, STALL_NO_NODE, TIMEOUT_S));
    assert_int_equal(say(&b, 2, 1, GIVES_UP, &e), ERR_TIMEOUT);
    assert_string_equal(e.text,
                        "node 1 holds up the job: node 2 has waited for it too long; its training program "
                        "computes, and has not called psgd");
    b.now += 3.5 * stall_period(TIMEOUT_S);
    assert_false(stall_computes(b.x, 1, TIMEOUT_S));
    cluster_close(&b.c);
}

TEST(a_word_about_a_node_that_the_job_does_not_have_is_refused)
{
    struct bench b;
    struct err e = {0};

    open_bench(&b, 0);
    assert_int_equal(say(&b, 1, WORKERS, WAITS, &e), ERR_PROTOCOL);
    assert_int_equal(say(&b, 1, UINT32_MAX - 1, WAITS, &e), ERR_PROTOCOL);
    assert_int_equal(say(&b, 1, 2, COMPUTES + 1, &e), ERR_PROTOCOL);
    cluster_close(&b.c);
}

/* Reads all that worker 0 has sent to worker w. Returns whether worker 0 has reported that it waits for
 * worker 1. */
static bool reads_word(struct bench *b, int w)
{
    bool is_told = false;
    struct err e = {0};

    while (mesh_queued_for(b->x->mesh, w) > 0) {
        struct mesh_event ev;

        assert_int_equal(mesh_poll(b->c.nodes[w].mesh, &ev, 0, &e), 0);
        if (ev.kind != MESH_MESSAGE)
            continue;
        is_told |= ev.head.kind == FRAME_WAIT && ev.head.index == 1 && ev.head.round == WAITS &&
                   ev.buf->len == 0;
        mesh_buf_put(ev.buf);
    }
    return is_told;
}

TEST(a_node_reports_what_it_waits_for_to_every_peer_that_reads)
{
    struct bench b;
    struct err e = {0};

    open_bench(&b, 0);
    reads_word(&b, 1);
    reads_word(&b, 2);
    assert_int_equal(stall_send_wait(b.x, &e), CODEC_GO);
    assert_true(reads_word(&b, 1));
    assert_true(reads_word(&b, 2));
    assert_false(reads_word(&b, 3)); /* which has not read the contribution */
    cluster_close(&b.c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_node_at_the_end_of_the_chain_is_named),
        cmocka_unit_test(an_old_report_of_a_node_does_not_count),
        cmocka_unit_test(where_nodes_wait_for_any_message_the_only_silent_node_is_named),
        cmocka_unit_test(a_node_ends_for_the_reason_of_the_first_that_gives_up),
        cmocka_unit_test(a_job_that_continues_without_lost_nodes_does_not_end_by_the_word_of_one),
        cmocka_unit_test(a_node_whose_program_computes_holds_up_the_job_and_says_so),
        cmocka_unit_test(a_word_about_a_node_that_the_job_does_not_have_is_refused),
        cmocka_unit_test(a_node_reports_what_it_waits_for_to_every_peer_that_reads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
