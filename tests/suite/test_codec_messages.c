/* Messages and timers of a codec of events, and its callbacks about peers: on one node of two. */
#include "tests/unit/unit.h"

#include <math.h>

#include "runner/exchange/exchange_step.h"
#include "shared/base/clock.h"
#include "tests/lib/codec_node.h"

static struct err e;

/* Worker 0 of a job without servers, with a codec of events. */
static int open_node(struct codec_node *f)
{
    return codec_node_open(f, &(struct codec_plugin){.more = CODEC_MORE(.events = &codec_node_events)}, 0, 0,
                           &e);
}

TEST(a_worker_that_combines_by_collectives_refuses_a_message)
{
    static const struct codec_combine mean = {.when = CODEC_EACH_STEP};
    struct mesh_event ev = {.kind = MESH_MESSAGE, .head = {.kind = FRAME_EVENT, .peer = 1}};
    struct codec_node f;

    assert_ok(codec_node_open(
        &f, &(struct codec_plugin){.combine = &mean, .more = CODEC_MORE(.events = NULL)}, 0, 0, &e));
    ev.buf = mesh_buf_take(mesh_mem_node(f.net, 0));
    assert_non_null(ev.buf);
    assert_int_equal(exchange_on_event(f.x, &ev, &e), ERR_CODEC);
    assert_error_has("node 1 sent a message, and workers combine by collectives");
    exchange_detach(f.x);
    codec_node_close(&f);
}

static int send_to_itself(struct codec *c)
{
    wire_put_u32(codec_message(c), 1);
    return codec_send(c, c->run->node);
}

TEST(a_codec_that_sends_to_its_own_node_has_failed)
{
    struct codec_node f;

    assert_ok(open_node(&f));
    codec_calls.act = send_to_itself;
    assert_int_equal(exchange_on_grad(f.x, 1, &e), ERR_CODEC);
    assert_error_has("node 0 sends to itself");
    codec_node_close(&f);
}

/* A server of a rule of CODEC_LOSSY_PARAMS writes its parameters into a message for node `to`, 0: for any,
 * and sends it to node 1. */
static int send_params(struct codec *c, int to)
{
    struct wire_out *out = to ? codec_message_to(c, to) : codec_message(c);

    codec_put_vector(c, out, c->params, c->n_params);
    return codec_send(c, 1);
}

TEST(a_message_with_differences_is_for_the_node_that_it_was_begun_for)
{
    struct codec_plugin plugin = {
        .more = CODEC_MORE(.events = &codec_node_events, .compression = CODEC_LOSSY_PARAMS)};
    struct exchange *x;
    struct codec_node f;

    assert_ok(codec_node_open(&f, &plugin, -2, 1, &e));
    f.cfg.compress_down = "topk";
    assert_ok(exchange_new(&x, &f.cfg, &e));
    exchange_attach(x, mesh_mem_node(f.net, -2), NULL);
    assert_int_equal(send_params(codec_calls.codec, 0), ERR_CODEC);
    assert_error_has("it sends parameters to node 1 in a message that it began for any node; message_to()");
    assert_int_equal(send_params(codec_calls.codec, -2), ERR_CODEC);
    assert_error_has("it sends parameters to node 1 in a message that it began for another node");
    assert_ok(send_params(codec_calls.codec, 1));
    assert_int_equal(exchange_totals(x)->sent_messages, 1);
    exchange_free(x);
    f.cfg.compress_down = NULL;
    assert_ok(exchange_new(&x, &f.cfg, &e)); /* whole parameters may be for any node */
    exchange_attach(x, mesh_mem_node(f.net, -2), NULL);
    assert_ok(send_params(codec_calls.codec, 0));
    exchange_free(x);
    codec_node_close(&f);
}

static int wait_and_wake(struct codec *c)
{
    if (codec_calls.n > 1)
        return CODEC_GO;
    codec_wake(c, 1000);
    codec_wake(c, 0.02); /* the last call counts */
    return CODEC_WAIT;
}

TEST(a_codec_timer_fires_once)
{
    struct mesh_event nothing = {.kind = MESH_NOTHING};
    struct codec_node f;
    double begun, at, asked;

    assert_ok(open_node(&f));
    assert_true(isinf(exchange_wakes_at(f.x)));
    codec_calls.act = wait_and_wake;
    begun = clock_now();
    assert_int_equal(exchange_on_grad(f.x, 1, &e), CODEC_WAIT);
    at = exchange_wakes_at(f.x);
    asked = clock_now();
    assert_true(at >= begun + 0.02 && at <= asked + 0.02);
    while (exchange_on_event(f.x, &nothing, &e) == CODEC_WAIT)
        assert_true(clock_now() < begun + 60);
    assert_true(clock_now() >= begun + 0.02);
    assert_int_equal(codec_calls.n, 2);
    assert_true(isinf(exchange_wakes_at(f.x)));
    assert_ok(exchange_on_event(f.x, &nothing, &e));
    assert_int_equal(codec_calls.n, 2);
    codec_node_close(&f);
}

static int send_to_the_other(struct codec *c)
{
    wire_put_u32(codec_message(c), 1);
    return codec_send(c, 1);
}

/* The rescue of a rule that has waited in vain: it sends once more. */
static int wait_then_send(struct codec *c)
{
    if (codec_calls.n > 1)
        return send_to_the_other(c) < 0 ? -1 : CODEC_GO;
    codec_wake(c, 0.001);
    return CODEC_WAIT;
}

TEST(a_message_that_a_timer_sends_reaches_its_peer)
{
    struct mesh_event nothing = {.kind = MESH_NOTHING}, ev;
    double begun = clock_now();
    struct codec_node f;

    assert_ok(open_node(&f));
    codec_calls.act = wait_then_send;
    assert_int_equal(exchange_on_grad(f.x, 1, &e), CODEC_WAIT);
    assert_ok(mesh_poll(mesh_mem_node(f.net, 1), &ev, 0, &e));
    assert_int_equal(ev.kind, MESH_NOTHING);
    while (exchange_on_event(f.x, &nothing, &e) == CODEC_WAIT)
        assert_true(clock_now() < begun + 60);
    assert_ok(mesh_poll(mesh_mem_node(f.net, 1), &ev, 0, &e));
    assert_int_equal(ev.kind, MESH_MESSAGE);
    assert_int_equal(ev.head.peer, 0);
    mesh_buf_put(ev.buf);
    codec_node_close(&f);
}

/* A node of an event rule, with an exchange for a job that continues without lost nodes. */
static struct exchange *open_that_goes_on(struct codec_node *f)
{
    struct exchange *x;

    assert_ok(open_node(f));
    f->cfg.goes_on = true;
    f->cfg.min_nodes = 1;
    assert_ok(exchange_new(&x, &f->cfg, &e));
    return x;
}

TEST(messages_to_a_node_that_has_left_are_not_counted_as_traffic)
{
    struct mesh_event ev = {.kind = MESH_LOST, .head = {.peer = 1}};
    struct codec_node f;
    struct exchange *x;

    x = open_that_goes_on(&f);
    exchange_attach(x, mesh_mem_node(f.net, 0), NULL);
    codec_calls.act = send_to_the_other;
    assert_int_equal(exchange_on_grad(x, 1, &e), CODEC_GO);
    assert_int_equal(exchange_totals(x)->sent_messages, 1);
    codec_calls.on_lost = CODEC_GO;
    assert_int_equal(exchange_on_event(x, &ev, &e), CODEC_GO);
    assert_int_equal(exchange_on_grad(x, 2, &e), CODEC_GO);
    assert_int_equal(exchange_totals(x)->sent_messages, 1);
    exchange_free(x);
    codec_node_close(&f);
}

static int just_wait(struct codec *c)
{
    (void)c;
    return CODEC_WAIT;
}

TEST(a_codec_is_notified_of_lost_peers_and_of_peers_that_left)
{
    struct mesh_event ev = {.kind = MESH_LEFT, .head = {.peer = 1}};
    struct codec_node f;
    struct exchange *x;

    x = open_that_goes_on(&f);
    codec_calls.act = just_wait;
    assert_int_equal(exchange_on_grad(x, 1, &e), CODEC_WAIT);
    codec_calls.on_lost = CODEC_WAIT;
    assert_int_equal(exchange_on_event(x, &ev, &e), CODEC_WAIT);
    codec_calls.on_lost = CODEC_GO;
    ev.kind = MESH_LOST;
    assert_int_equal(exchange_on_event(x, &ev, &e), CODEC_GO);
    assert_int_equal(codec_calls.n, 1 + 200 + 200);
    assert_true(codec_has_left(codec_calls.codec, 1));
    assert_false(codec_has_left(codec_calls.codec, 0) || codec_has_left(codec_calls.codec, -2) ||
                 codec_has_left(codec_calls.codec, 7));
    exchange_free(x);
    codec_node_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_worker_that_combines_by_collectives_refuses_a_message),
        cmocka_unit_test(a_codec_that_sends_to_its_own_node_has_failed),
        cmocka_unit_test(a_message_with_differences_is_for_the_node_that_it_was_begun_for),
        cmocka_unit_test(a_codec_timer_fires_once),
        cmocka_unit_test(a_message_that_a_timer_sends_reaches_its_peer),
        cmocka_unit_test(messages_to_a_node_that_has_left_are_not_counted_as_traffic),
        cmocka_unit_test(a_codec_is_notified_of_lost_peers_and_of_peers_that_left),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
