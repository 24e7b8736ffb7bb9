/* Mini-batches on demand: the server gives each mini-batch to one worker only, in whatever order workers
 * ask; frames that no honest node sends are refused. */
#include "tests/unit/unit.h"

#include "runner/exchange/exchange_private.h"
#include "runner/exchange/feed.h"
#include "shared/base/rng.h"
#include "tests/lib/cluster.h"

enum { WORKERS = 3, SERVERS = 2, FIRST = WORKERS /* slot of the first server */, N_STEPS = 50 };

static struct exchange *open(struct cluster *c, bool is_fed)
{
    cluster_open(c, &(struct cluster_config){.codec = "ps",
                                             .n_workers = WORKERS,
                                             .n_servers = SERVERS,
                                             .is_asgd = true,
                                             .is_fed = is_fed,
                                             .n_steps = N_STEPS,
                                             .n_params = 8});
    return c->nodes[0].x;
}

/* Passes all messages for that node to it; returns the result of the last event. */
static int receive(struct cluster *c, int slot)
{
    struct mesh_event ev;
    struct err e = {0};
    int rc = CODEC_GO;

    while (rc >= 0 && mesh_poll(c->nodes[slot].mesh, &ev, 0, &e) == 0 && ev.kind != MESH_NOTHING)
        rc = exchange_on_event(c->nodes[slot].x, &ev, &e);
    assert_true(rc >= 0);
    return rc;
}

/* Lets a worker ask and the server answer. Returns false if nothing is left. */
static bool next(struct cluster *c, int worker, uint64_t *p)
{
    struct exchange *x = c->nodes[worker].x;
    struct err e = {0};

    assert_int_equal(feed_await(x, &e), CODEC_WAIT);
    receive(c, FIRST);
    assert_int_equal(receive(c, worker), CODEC_GO);
    assert_int_equal(feed_await(x, &e), CODEC_GO);
    if (feed_is_over(x))
        return false;
    *p = feed_take(x);
    return true;
}

TEST(each_mini_batch_is_given_out_once_and_in_order)
{
    bool is_done[WORKERS] = {false};
    uint64_t p, n_given = 0;
    struct cluster c;
    struct rng r;

    open(&c, true);
    rng_init(&r, 1, 2, 3);
    while (!is_done[0] || !is_done[1] || !is_done[2]) {
        int w = (int)rng_below(&r, WORKERS);

        if (is_done[w])
            continue;
        if (next(&c, w, &p))
            assert_true(p == n_given++);
        else
            is_done[w] = true;
        assert_int_equal(feed_is_over(c.nodes[w].x), is_done[w]);
    }
    assert_true(n_given == N_STEPS);
    cluster_close(&c);
}

TEST(a_worker_asks_while_it_computes_and_once)
{
    struct cluster c;
    struct exchange *x = open(&c, true);
    struct err e = {0};
    char what[128];
    uint64_t p;

    assert_true(next(&c, 0, &p));
    assert_int_equal(feed_ask(x, &e), CODEC_GO);
    assert_int_equal(feed_ask(x, &e), CODEC_GO);
    assert_false(feed_next_is_of(x, 0, N_STEPS));
    receive(&c, FIRST);
    assert_int_equal(receive(&c, 0), CODEC_GO); /* it computes, and waits for nothing */
    assert_int_equal(feed_await(x, &e), CODEC_GO);
    assert_true(feed_next_is_of(x, 0, 2));
    assert_false(feed_next_is_of(x, 0, 1)); /* row 0 of epoch 1 */
    assert_true(feed_take(x) == 1);
    assert_false(feed_next_is_of(x, 0, 2));
    assert_int_equal(feed_await(x, &e), CODEC_WAIT);
    assert_int_equal(stall_awaits(x), -2);
    exchange_waits_for(x, what, sizeof what);
    assert_string_equal(what, "node -2's message with the next mini-batch");
    cluster_close(&c);
}

TEST(a_worker_does_not_wait_for_a_server_that_has_left)
{
    struct cluster c;
    struct exchange *x = open(&c, true);
    struct mesh_event left = {.kind = MESH_LEFT, .head.peer = -2};
    struct err e = {0};

    assert_int_equal(feed_await(x, &e), CODEC_WAIT);
    assert_int_equal(exchange_on_event(x, &left, &e), ERR_LOST);
    assert_error_has("node -2's message with the next mini-batch cannot arrive");
    cluster_close(&c);
}

TEST(an_order_that_a_correct_node_never_sends_is_refused)
{
    static const struct {
        int slot;
        struct mesh_head head;
        size_t len;
    } cases[] = {
        {0, {.peer = -2, .index = FEED_NEXT, .round = 1}, 0}, /* it has not asked */
        {1, {.peer = -2, .index = FEED_NEXT, .round = N_STEPS}, 0},
        {1, {.peer = -2, .index = FEED_NEXT, .round = 1}, 1},
        {1, {.peer = -2, .index = FEED_ASK}, 0},
        {1, {.peer = -2, .index = FEED_ORDERS}, 0},
        {1, {.peer = -3, .channel = 1, .index = FEED_OVER}, 0},
        {1, {.peer = 2, .index = FEED_OVER}, 0},
        {FIRST, {.peer = 0, .index = FEED_NEXT}, 0},
        {FIRST, {.peer = 0, .index = FEED_ASK}, 4},
        {FIRST + 1, {.peer = 0, .channel = 1, .index = FEED_ASK}, 0},
    };
    struct err e = {0};
    struct cluster c;

    for (size_t i = 0; i < N_OF(cases); i++) {
        struct mesh_event ev = {.kind = MESH_MESSAGE, .head = cases[i].head};

        open(&c, true);
        assert_int_equal(feed_ask(c.nodes[1].x, &e), CODEC_GO);
        ev.head.kind = FRAME_FEED;
        ev.buf = mesh_buf_take(c.nodes[cases[i].slot].mesh);
        ev.buf->len = cases[i].len;
        assert_int_equal(exchange_on_event(c.nodes[cases[i].slot].x, &ev, &e), ERR_PROTOCOL);
        assert_error_has("sent a message about mini-batches that it may not send");
        cluster_close(&c);
    }
    open(&c, false);
    assert_false(feed_is_used(c.nodes[0].x));
    {
        struct mesh_event ev = {.kind = MESH_MESSAGE,
                                .head = {.kind = FRAME_FEED, .peer = 0, .index = FEED_ASK},
                                .buf = mesh_buf_take(c.nodes[FIRST].mesh)};

        ev.buf->len = 0;
        assert_int_equal(exchange_on_event(c.nodes[FIRST].x, &ev, &e), ERR_PROTOCOL);
    }
    cluster_close(&c);
}

static int order(struct cluster *c, int slot, int from, enum feed_order what, uint64_t p, struct err *e)
{
    struct mesh_event ev = {.kind = MESH_MESSAGE,
                            .head = {.kind = FRAME_FEED, .peer = from, .index = what, .round = p},
                            .buf = mesh_buf_take(c->nodes[slot].mesh)};

    ev.buf->len = 0;
    return exchange_on_event(c->nodes[slot].x, &ev, e);
}

TEST(an_answer_counts_once_and_nothing_comes_after_the_last)
{
    struct err e = {0};
    struct cluster c;

    for (int is_over = 0; is_over <= 1; is_over++) {
        struct exchange *x = open(&c, true);

        assert_int_equal(feed_await(x, &e), CODEC_WAIT);
        assert_int_equal(order(&c, 0, -2, is_over ? FEED_OVER : FEED_NEXT, 7, &e), CODEC_GO);
        assert_int_equal(feed_await(x, &e), CODEC_GO);
        assert_int_equal(feed_is_over(x), is_over);
        assert_int_equal(order(&c, 0, -2, FEED_NEXT, 8, &e), ERR_PROTOCOL);
        assert_true(is_over || feed_take(x) == 7);
        cluster_close(&c);
    }
}

/* A worker is lost at any point: between its question and the answer, or with a mini-batch. The others get
 * all the rest, each one once. */
TEST(a_lost_worker_takes_at_most_the_mini_batch_it_has_and_the_one_it_has_requested)
{
    for (int at = 0; at < 12; at++) {
        struct mesh_event lost = {.kind = MESH_LOST, .head.peer = 1, .why = "a test"};
        uint64_t p, n_got = 0, last = 0;
        struct err e = {0};
        struct cluster c;

        cluster_open(&c, &(struct cluster_config){.codec = "ps",
                                                  .n_workers = WORKERS,
                                                  .n_servers = SERVERS,
                                                  .is_asgd = true,
                                                  .is_fed = true,
                                                  .goes_on = 1,
                                                  .n_steps = N_STEPS,
                                                  .n_params = 8});
        for (int i = 0; i < at / 2; i++)
            n_got += next(&c, i % WORKERS, &p);
        if (at % 2 == 1)
            assert_true(feed_ask(c.nodes[1].x, &e) >= 0);
        assert_true(exchange_on_event(c.nodes[FIRST].x, &lost, &e) >= 0);
        while (next(&c, 0, &p)) {
            assert_true(n_got == 0 || p > last);
            last = p;
            n_got++;
        }
        assert_true(n_got == N_STEPS && last == N_STEPS - 1);
        assert_false(next(&c, 2, &p));
        cluster_close(&c);
    }
}

TEST(with_on_node_loss_continue_the_sender_of_a_wrong_feed_message_is_lost)
{
    struct err e = {0};
    struct cluster c;
    uint64_t p;

    cluster_open(&c, &(struct cluster_config){.codec = "ps",
                                              .n_workers = WORKERS,
                                              .n_servers = 1,
                                              .is_asgd = true,
                                              .is_fed = true,
                                              .goes_on = 1,
                                              .n_steps = N_STEPS,
                                              .n_params = 8});
    assert_true(order(&c, FIRST, 1, FEED_OVER, 0, &e) >= 0);
    receive(&c, FIRST);
    assert_true(c.nodes[FIRST].x->peer_stats.has_left[1]);
    assert_true(next(&c, 0, &p) && p == 0);
    cluster_close(&c);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_mini_batch_is_given_out_once_and_in_order),
        cmocka_unit_test(a_worker_asks_while_it_computes_and_once),
        cmocka_unit_test(a_worker_does_not_wait_for_a_server_that_has_left),
        cmocka_unit_test(an_order_that_a_correct_node_never_sends_is_refused),
        cmocka_unit_test(an_answer_counts_once_and_nothing_comes_after_the_last),
        cmocka_unit_test(a_lost_worker_takes_at_most_the_mini_batch_it_has_and_the_one_it_has_requested),
        cmocka_unit_test(with_on_node_loss_continue_the_sender_of_a_wrong_feed_message_is_lost),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
