/* What a codec may request of its host: codecs written for the test, on one node or two. */
#include "tests/unit/unit.h"

#include <math.h>

#include "runner/exchange/exchange.h"
#include "shared/base/clock.h"
#include "shared/job/blocks.h"
#include "tests/lib/mesh_mem.h"

enum { N_PARAMS = 12 };

static const struct codec_layer layers[] = {
    {"first", 0, 6, 2, {2, 3}},
    {"second", 6, 2, 1, {2}},
    {"third", 8, 4, 2, {2, 2}},
};

static struct err e;
static struct codec *codec;         /* the one opened last */
static struct codec_run seen[8][2]; /* copies of views: in encode and in merge, by block */
static int (*ask)(struct codec *);
static int n_asked;
static int answer; /* returned by a callback */

struct state {
    float *v, *w;
    struct item {
        double x;
        int n;
    } * items;
    float rate;
};

static const struct codec_option options[] = {CODEC_OPTION(struct state, rate, 0.5, 0, 1, "a rate"), {0}};

static int open_codec(struct codec *c)
{
    codec = c;
    return ask ? ask(c) : CODEC_GO;
}

static int call(struct codec *c)
{
    n_asked++;
    return ask ? ask(c) : CODEC_GO;
}

static int encode(struct codec *c, struct wire_out *out)
{
    seen[c->run->block < 0 ? 0 : c->run->block][0] = *c->run;
    codec_put_vector(c, out, c->grads, c->n_params);
    return CODEC_GO;
}

static int merge(struct codec *c, int from, struct wire_in *in)
{
    seen[from][1] = *c->run;
    return codec_get_vector(c, in, c->n_params) && wire_ok(in) ? CODEC_GO : -1;
}

static int adopt(struct codec *c, struct wire_in *in)
{
    return merge(c, 0, in);
}

static const struct codec_round rounds = {
    .before_update = true, .encode = encode, .merge = merge, .reply = encode, .adopt = adopt};
static const struct codec_round of_blocks = {
    .before_update = true, .per_block = true, .encode = encode, .merge = merge};

static int on_message(struct codec *c, int from, struct wire_in *in)
{
    (void)c, (void)from, (void)in;
    return CODEC_WAIT;
}

static int on_lost(struct codec *c, int node)
{
    (void)c;
    n_asked += 100 * (node + 1);
    return answer;
}

static const struct codec_events events = {
    .on_grad = call, .on_message = on_message, .on_lost = on_lost, .on_wake = call};

/* One node over a mesh of two workers and `n_servers` servers. */
struct fixture {
    struct codec_plugin plugin;
    struct codec_more more;
    struct exchange_config cfg;
    struct blocks blocks;
    struct mesh_mem *net;
    struct exchange *x;
    float params[N_PARAMS], grads[N_PARAMS];
    struct {
        size_t from, n;
        uint64_t step;
        float lr_factor;
    } updated;
    char recorded[64];
};

static int update(void *owner, size_t from, size_t n, uint64_t step, float lr_factor, const double *norm,
                  struct err *err)
{
    struct fixture *f = owner;

    (void)err, (void)norm;
    f->updated.from = from;
    f->updated.n = n;
    f->updated.step = step;
    f->updated.lr_factor = lr_factor;
    return 0;
}

static int record(void *owner, const struct codec *c, const char *name, double value, struct err *err)
{
    struct fixture *f = owner;

    (void)err;
    snprintf(f->recorded, sizeof f->recorded, "%d %llu %s %g", c->run->node, (unsigned long long)c->run->step,
             name, value);
    return 0;
}

static int open_node(struct fixture *f, const struct codec_plugin *plugin, int node, int n_servers)
{
    n_asked = 0;
    *f = (struct fixture){.plugin = *plugin, .more = *plugin->more};
    f->plugin.more = &f->more;
    f->plugin.name = "made";
    f->plugin.state_size = sizeof(struct state);
    f->plugin.options = options;
    f->plugin.open = open_codec;
    f->cfg = (struct exchange_config){.plugin = &f->plugin,
                                      .node = node,
                                      .n_workers = 2,
                                      .n_servers = n_servers,
                                      .blocks = &f->blocks,
                                      .is_sync = true,
                                      .local_steps = 1,
                                      .n_steps = 9,
                                      .n_params = N_PARAMS,
                                      .params = f->params,
                                      .grads = f->grads,
                                      .layers = layers,
                                      .n_layers = N_OF(layers),
                                      .update = update,
                                      .record = record,
                                      .owner = f};
    assert_ok(blocks_init(&f->blocks, BLOCKS_IID, 2, 1, &e));
    if (exchange_new(&f->x, &f->cfg, &e) < 0) {
        blocks_clear(&f->blocks);
        return e.code;
    }
    f->net = mesh_mem_new(2, n_servers, exchange_limit(f->x), 1);
    exchange_attach(f->x, mesh_mem_node(f->net, node), NULL);
    return 0;
}

static void close_node(struct fixture *f)
{
    exchange_free(f->x);
    mesh_mem_free(f->net);
    blocks_clear(&f->blocks);
    ask = NULL;
}

TEST(layers_are_clipped_to_the_range_of_a_server)
{
    struct fixture f;

    assert_ok(open_node(&f, &(struct codec_plugin){.more = CODEC_MORE(.round = &rounds)}, 0, 0));
    assert_int_equal(codec->run->n_layers, 3);
    assert_string_equal(codec->run->layers[2].name, "third");
    assert_true(codec->run->layers[2].offset == 8 && codec->run->layers[2].n_dims == 2 &&
                codec->run->layers[0].shape[1] == 3);
    close_node(&f);
    /* Of two servers the second has the numbers 6 .. 11, of five the third 4 .. 6. */
    assert_ok(open_node(&f, &(struct codec_plugin){.more = CODEC_MORE(.round = &rounds)}, -3, 2));
    assert_int_equal(codec->n_params, 6);
    assert_int_equal(codec->run->n_layers, 2);
    assert_true(codec->run->layers[0].offset == 0 && codec->run->layers[1].offset == 2 &&
                codec->run->layers[1].n_dims == 2);
    close_node(&f);
    assert_ok(open_node(&f, &(struct codec_plugin){.more = CODEC_MORE(.round = &rounds)}, -4, 5));
    assert_ptr_equal(codec->params, f.params + 4);
    assert_int_equal(codec->run->n_layers, 2);
    assert_string_equal(codec->run->layers[0].name, "first");
    assert_true(codec->run->layers[0].offset == 0 && codec->run->layers[0].n == 2 &&
                codec->run->layers[0].n_dims == 1 && codec->run->layers[0].shape[0] == 2);
    assert_true(codec->run->layers[1].offset == 2 && codec->run->layers[1].n == codec->n_params - 2);
    close_node(&f);
}

TEST(a_contribution_for_a_block_has_its_block_and_holders)
{
    struct fixture f;

    assert_ok(open_node(&f, &(struct codec_plugin){.more = CODEC_MORE(.round = &of_blocks)}, 0, 0));
    assert_int_equal(codec->run->block, -1);
    assert_ok(exchange_on_block(f.x, 0, &e));
    assert_int_equal(exchange_on_grad(f.x, 1, &e), CODEC_WAIT); /* for the other's */
    assert_int_equal(seen[0][0].block, 0);
    assert_int_equal(seen[0][1].block, 0);
    assert_int_equal(codec->run->block, -1);
    assert_true(codec_holds(codec, 0, 0) && codec_holds(codec, 1, 1));
    assert_false(codec_holds(codec, 0, 1) || codec_holds(codec, 2, 0) || codec_holds(codec, -1, 0) ||
                 codec_holds(codec, 0, 2));
    close_node(&f);
}

static int look_at_block(struct codec *c)
{
    seen[n_asked++][0] = *c->run;
    return CODEC_GO;
}

static int wait_in_block(struct codec *c)
{
    (void)c;
    return CODEC_WAIT;
}

TEST(an_event_rule_sees_each_block_before_the_gradient_of_its_step)
{
    struct codec_events of_each = events;
    struct fixture f;

    assert_ok(open_node(&f, &(struct codec_plugin){.more = CODEC_MORE(.events = &of_each)}, 0, 0));
    assert_false(exchange_wants_blocks(f.x));
    close_node(&f);
    of_each.on_block = look_at_block;
    assert_ok(open_node(&f, &(struct codec_plugin){.more = CODEC_MORE(.events = &of_each)}, 0, 0));
    assert_true(exchange_wants_blocks(f.x));
    assert_ok(exchange_on_block(f.x, 1, &e));
    assert_ok(exchange_on_block(f.x, 0, &e));
    assert_int_equal(n_asked, 2);
    assert_int_equal(seen[0][0].block, 1);
    assert_int_equal(seen[1][0].block, 0);
    assert_int_equal(codec->run->block, -1);
    of_each.on_block = wait_in_block;
    assert_int_equal(exchange_on_block(f.x, 0, &e), ERR_CODEC);
    assert_error_has("on_block");
    close_node(&f);
}

TEST(a_worker_that_combines_by_collectives_refuses_a_message)
{
    static const struct codec_combine mean = {.when = CODEC_EACH_STEP};
    struct mesh_event ev = {.kind = MESH_MESSAGE, .head = {.kind = FRAME_EVENT, .peer = 1}};
    struct fixture f;

    assert_ok(
        open_node(&f, &(struct codec_plugin){.combine = &mean, .more = CODEC_MORE(.events = NULL)}, 0, 0));
    ev.buf = mesh_buf_take(mesh_mem_node(f.net, 0));
    assert_non_null(ev.buf);
    assert_int_equal(exchange_on_event(f.x, &ev, &e), ERR_CODEC);
    assert_error_has("node 1 sent a message, and workers combine by collectives");
    exchange_detach(f.x);
    close_node(&f);
}

TEST(parameters_are_in_the_state_before_open)
{
    struct fixture f;
    struct exchange *x;

    assert_ok(open_node(&f, &(struct codec_plugin){.more = CODEC_MORE(.round = &rounds)}, 0, 0));
    assert_true(((struct state *)codec->state)->rate == 0.5f);
    f.cfg.options = "rate=0.25";
    assert_ok(exchange_new(&x, &f.cfg, &e));
    assert_true(((struct state *)codec->state)->rate == 0.25f);
    exchange_free(x);
    f.cfg.options = "rite=0.25";
    assert_int_equal(exchange_new(&x, &f.cfg, &e), ERR_CONFIG);
    assert_error_has("codec made: no parameter \"rite\" (did you mean \"rate\"?); it takes rate");
    close_node(&f);
}

static int returned;

static int fails_at_once(struct codec *c)
{
    codec_fail(c, "it has a reason");
    return returned;
}

static int returns(struct codec *c)
{
    (void)c;
    return returned;
}

static int encode_returns(struct codec *c, struct wire_out *out)
{
    (void)c, (void)out;
    return returned;
}

static int merge_returns(struct codec *c, int from, struct wire_in *in)
{
    (void)c, (void)from, (void)in;
    return returned;
}

/* A return value that is not allowed ends the node with a message, and never counts as success. */
TEST(a_codec_that_fails_without_a_message_or_returns_an_invalid_value_has_failed)
{
    static const struct {
        int returned;
        bool in_events; /* also where a callback may wait */
        const char *expected;
    } cases[] = {
        {-1, true, " failed without an error message"},
        {ERR_LOST, true, " failed without an error message"},
        {77, true, " returned 77, which is neither CODEC_GO"},
        {CODEC_WAIT, false, " returned 1, which is neither CODEC_GO nor what a call of the host returned"},
    };
    const struct codec_round bad_encode = {.before_update = true, .encode = encode_returns, .merge = merge},
                             bad_merge = {.before_update = true, .encode = encode, .merge = merge_returns};
    const struct codec_events bad_event = {.on_grad = returns};
    struct fixture f;
    char expected[128];

    for (size_t i = 0; i < N_OF(cases); i++) {
        returned = cases[i].returned;
        e = (struct err){.code = ERR_LOST,
                         .text = "an older error"}; /* so that it is not mistaken for this one */
        ask = returns;
        assert_int_equal(open_node(&f, &(struct codec_plugin){.more = CODEC_MORE(.round = &rounds)}, 0, 0),
                         ERR_CODEC);
        snprintf(expected, sizeof expected, "%s%s", "codec made: its open", cases[i].expected);
        assert_error_has(expected);
        ask = NULL;
        assert_ok(open_node(&f, &(struct codec_plugin){.more = CODEC_MORE(.round = &bad_encode)}, 0, 0));
        assert_int_equal(exchange_on_grad(f.x, 1, &e), ERR_CODEC);
        snprintf(expected, sizeof expected, "%s%s", "codec made: its encode", cases[i].expected);
        assert_error_has(expected);
        close_node(&f);
        assert_ok(open_node(&f, &(struct codec_plugin){.more = CODEC_MORE(.round = &bad_merge)}, 0, 0));
        assert_int_equal(exchange_on_grad(f.x, 1, &e), ERR_CODEC); /* merges its own contribution */
        snprintf(expected, sizeof expected, "%s%s", "codec made: its merge", cases[i].expected);
        assert_error_has(expected);
        close_node(&f);
        assert_ok(open_node(&f, &(struct codec_plugin){.more = CODEC_MORE(.events = &bad_event)}, 0, 0));
        assert_int_equal(exchange_on_grad(f.x, 1, &e), cases[i].in_events ? ERR_CODEC : CODEC_WAIT);
        snprintf(expected, sizeof expected, "%s%s", "codec made: its on_grad", cases[i].expected);
        if (cases[i].in_events)
            assert_error_has(expected);
        close_node(&f);
    }
}

TEST(the_error_message_of_a_codec_is_reported_whatever_it_returns)
{
    struct fixture f;

    ask = fails_at_once;
    for (returned = -1; returned >= -96; returned -= 95) {
        assert_int_equal(open_node(&f, &(struct codec_plugin){.more = CODEC_MORE(.round = &rounds)}, 0, 0),
                         ERR_CODEC);
        assert_error_has("codec made: it has a reason");
    }
    ask = NULL;
}

static float *somewhere;

static int zeros_outside(struct codec *c)
{
    return codec_zeros(c, &somewhere, 3);
}

static int zeros_twice(struct codec *c)
{
    struct state *s = c->state;

    return codec_zeros(c, &s->v, 3) < 0 ? -1 : codec_zeros(c, &s->v, 3);
}

static int array_outside(struct codec *c)
{
    return codec_array(c, &somewhere, 3);
}

static int array_twice(struct codec *c)
{
    struct state *s = c->state;

    return codec_zeros(c, &s->v, 3) < 0 ? -1 : codec_array(c, &s->v, 3);
}

static int array_of_nothing(struct codec *c)
{
    return c->run->host->array(c, &((struct state *)c->state)->v, 3, 0);
}

static int array_beyond_memory(struct codec *c)
{
    return codec_array(c, &((struct state *)c->state)->items, SIZE_MAX / 8);
}

static int zeros_beyond_memory(struct codec *c)
{
    return codec_zeros(c, &((struct state *)c->state)->v, SIZE_MAX / 2);
}

TEST(invalid_requests_for_zeros_are_refused_with_a_message)
{
    static const struct {
        int (*ask)(struct codec *);
        int code;
        const char *expected;
    } cases[] = {
        {zeros_outside, ERR_CODEC, "no field of its state"},
        {zeros_twice, ERR_CODEC, "for the field at byte 0 of its state, which is set already"},
        {zeros_beyond_memory, ERR_NOMEM, "items of 4 bytes (zeros())"},
        {array_outside, ERR_CODEC, "the address passed to array() is no field of its state"},
        {array_twice, ERR_CODEC,
         "it calls array() for the field at byte 0 of its state, which is set already"},
        {array_of_nothing, ERR_CODEC, "items of 0 bytes"},
        {array_beyond_memory, ERR_NOMEM, "items of 16 bytes (array())"},
    };
    struct fixture f;

    for (size_t i = 0; i < N_OF(cases); i++) {
        ask = cases[i].ask;
        assert_int_equal(open_node(&f, &(struct codec_plugin){.more = CODEC_MORE(.round = &rounds)}, 0, 0),
                         cases[i].code);
        assert_error_has(cases[i].expected);
    }
    ask = NULL;
    assert_ok(open_node(&f, &(struct codec_plugin){.more = CODEC_MORE(.events = &events)}, 0, 0));
    ask = zeros_twice;
    assert_int_equal(exchange_on_grad(f.x, 1, &e), ERR_CODEC);
    assert_error_has("after open()");
    close_node(&f);
}

static int make_items(struct codec *c)
{
    return codec_array(c, &((struct state *)c->state)->items, 5);
}

TEST(an_array_of_any_type_is_zeroed_counted_and_freed)
{
    double bytes[2];
    struct fixture f;

    for (int k = 0; k < 2; k++) {
        ask = k == 1 ? make_items : NULL;
        assert_ok(open_node(&f, &(struct codec_plugin){.more = CODEC_MORE(.round = &rounds)}, 0, 0));
        for (int i = 0; k == 1 && i < 5; i++)
            assert_true(((struct state *)codec->state)->items[i].n == 0);
        bytes[k] = exchange_bytes(f.x);
        close_node(&f);
    }
    assert_true(bytes[1] - bytes[0] == 5 * sizeof(struct item));
}

TEST(common_random_numbers_are_those_of_the_job_whichever_node_asks)
{
    float numbers[3][4], other[4];
    static const int nodes[] = {0, 1, -2};
    struct fixture f;

    for (int k = 0; k < 3; k++) {
        assert_ok(open_node(&f, &(struct codec_plugin){.more = CODEC_MORE(.round = &rounds)}, nodes[k], 1));
        codec_uniform(codec); /* which changes nothing about them */
        codec_common(codec, 7, numbers[k], 4);
        codec_common(codec, 8, other, 4);
        close_node(&f);
        assert_memory_equal(numbers[k], numbers[0], sizeof numbers[0]);
        for (int i = 0; i < 4; i++)
            assert_true(numbers[k][i] >= 0 && numbers[k][i] < 1 && numbers[k][i] != other[i]);
    }
}

static int ask_update(struct codec *c)
{
    return codec_update(c);
}

TEST(a_server_updates_its_range_at_the_step_of_the_workers)
{
    static const struct codec_round with_update = {.before_update = true,
                                                   .encode = encode,
                                                   .merge = merge,
                                                   .apply = ask_update,
                                                   .reply = encode,
                                                   .adopt = adopt};
    const struct codec_plugin plugin = {.more = CODEC_MORE(.round = &with_update, .updates_on_server = true)};
    struct fixture f;

    for (int sync = 0; sync < 2; sync++) {
        assert_ok(open_node(&f, &plugin, -3, 2));
        assert_true(exchange_updates_here(f.x));
        codec->is_sync = sync;
        codec->run->round = 7;
        codec->run->lr_factor = 0.5f;
        assert_ok(codec_update(codec));
        assert_true(f.updated.from == 6 && f.updated.n == 6 && f.updated.lr_factor == 0.5f);
        assert_int_equal(f.updated.step,
                         sync ? 7 : 3); /* in asgd the contributions of two workers are two rounds */
        codec->run->round = 1000;
        assert_ok(codec_update(codec));
        assert_int_equal(f.updated.step, 8); /* the last one */
        close_node(&f);
    }
    assert_ok(open_node(&f, &plugin, 0, 1));
    assert_false(exchange_updates_here(f.x));
    assert_int_equal(codec_update(codec), ERR_CODEC);
    assert_error_has("update() is for the servers");
    close_node(&f);
    assert_int_equal(open_node(&f, &plugin, 0, 0), ERR_CODEC);
    assert_error_has("updates the weights on parameter servers, and the job has none");
}

static int wait_and_wake(struct codec *c)
{
    if (n_asked > 1)
        return CODEC_GO;
    codec_wake(c, 1000);
    codec_wake(c, 0.02); /* the last call counts */
    return CODEC_WAIT;
}

TEST(a_codec_timer_fires_once)
{
    struct mesh_event nothing = {.kind = MESH_NOTHING};
    struct fixture f;
    double begun, at, asked;

    ask = NULL;
    assert_ok(open_node(&f, &(struct codec_plugin){.more = CODEC_MORE(.events = &events)}, 0, 0));
    assert_true(isinf(exchange_wakes_at(f.x)));
    ask = wait_and_wake;
    begun = clock_now();
    assert_int_equal(exchange_on_grad(f.x, 1, &e), CODEC_WAIT);
    at = exchange_wakes_at(f.x);
    asked = clock_now();
    assert_true(at >= begun + 0.02 && at <= asked + 0.02);
    while (exchange_on_event(f.x, &nothing, &e) == CODEC_WAIT)
        assert_true(clock_now() < begun + 60);
    assert_true(clock_now() >= begun + 0.02);
    assert_int_equal(n_asked, 2);
    assert_true(isinf(exchange_wakes_at(f.x)));
    assert_ok(exchange_on_event(f.x, &nothing, &e));
    assert_int_equal(n_asked, 2);
    close_node(&f);
}

static int just_wait(struct codec *c)
{
    (void)c;
    return CODEC_WAIT;
}

static int send_to_the_other(struct codec *c)
{
    wire_put_u32(codec_message(c), 1);
    return codec_send(c, 1);
}

/* The rescue of a rule that has waited in vain: it sends once more. */
static int wait_then_send(struct codec *c)
{
    if (n_asked > 1)
        return send_to_the_other(c) < 0 ? -1 : CODEC_GO;
    codec_wake(c, 0.001);
    return CODEC_WAIT;
}

TEST(a_message_that_a_timer_sends_reaches_its_peer)
{
    struct mesh_event nothing = {.kind = MESH_NOTHING}, ev;
    double begun = clock_now();
    struct fixture f;

    ask = NULL;
    assert_ok(open_node(&f, &(struct codec_plugin){.more = CODEC_MORE(.events = &events)}, 0, 0));
    ask = wait_then_send;
    assert_int_equal(exchange_on_grad(f.x, 1, &e), CODEC_WAIT);
    assert_ok(mesh_poll(mesh_mem_node(f.net, 1), &ev, 0, &e));
    assert_int_equal(ev.kind, MESH_NOTHING);
    while (exchange_on_event(f.x, &nothing, &e) == CODEC_WAIT)
        assert_true(clock_now() < begun + 60);
    assert_ok(mesh_poll(mesh_mem_node(f.net, 1), &ev, 0, &e));
    assert_int_equal(ev.kind, MESH_MESSAGE);
    assert_int_equal(ev.head.peer, 0);
    mesh_buf_put(ev.buf);
    close_node(&f);
}

/* A node of an event rule, with an exchange for a job that continues without lost nodes. */
static struct exchange *open_that_goes_on(struct fixture *f)
{
    struct exchange *x;

    ask = NULL;
    assert_ok(open_node(f, &(struct codec_plugin){.more = CODEC_MORE(.events = &events)}, 0, 0));
    f->cfg.goes_on = true;
    f->cfg.min_nodes = 1;
    assert_ok(exchange_new(&x, &f->cfg, &e));
    return x;
}

TEST(messages_to_a_node_that_has_left_are_not_counted_as_traffic)
{
    struct mesh_event ev = {.kind = MESH_LOST, .head = {.peer = 1}};
    struct fixture f;
    struct exchange *x;

    x = open_that_goes_on(&f);
    exchange_attach(x, mesh_mem_node(f.net, 0), NULL);
    ask = send_to_the_other;
    assert_int_equal(exchange_on_grad(x, 1, &e), CODEC_GO);
    assert_int_equal(exchange_totals(x)->sent_messages, 1);
    answer = CODEC_GO;
    assert_int_equal(exchange_on_event(x, &ev, &e), CODEC_GO);
    assert_int_equal(exchange_on_grad(x, 2, &e), CODEC_GO);
    assert_int_equal(exchange_totals(x)->sent_messages, 1);
    exchange_free(x);
    close_node(&f);
}

static int send_to_itself(struct codec *c)
{
    wire_put_u32(codec_message(c), 1);
    return codec_send(c, c->run->node);
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
    struct codec_plugin plugin = {.more = CODEC_MORE(.events = &events, .compression = CODEC_LOSSY_PARAMS)};
    struct exchange *x;
    struct fixture f;

    assert_ok(open_node(&f, &plugin, -2, 1));
    f.cfg.compress_down = "topk";
    assert_ok(exchange_new(&x, &f.cfg, &e));
    exchange_attach(x, mesh_mem_node(f.net, -2), NULL);
    assert_int_equal(send_params(codec, 0), ERR_CODEC);
    assert_error_has("it sends parameters to node 1 in a message that it began for any node; message_to()");
    assert_int_equal(send_params(codec, -2), ERR_CODEC);
    assert_error_has("it sends parameters to node 1 in a message that it began for another node");
    assert_ok(send_params(codec, 1));
    assert_int_equal(exchange_totals(x)->sent_messages, 1);
    exchange_free(x);
    f.cfg.compress_down = NULL;
    assert_ok(exchange_new(&x, &f.cfg, &e)); /* whole parameters may be for any node */
    exchange_attach(x, mesh_mem_node(f.net, -2), NULL);
    assert_ok(send_params(codec, 0));
    exchange_free(x);
    close_node(&f);
}

TEST(a_codec_that_sends_to_its_own_node_has_failed)
{
    struct fixture f;

    ask = NULL;
    assert_ok(open_node(&f, &(struct codec_plugin){.more = CODEC_MORE(.events = &events)}, 0, 0));
    ask = send_to_itself;
    assert_int_equal(exchange_on_grad(f.x, 1, &e), ERR_CODEC);
    assert_error_has("node 0 sends to itself");
    close_node(&f);
}

TEST(a_codec_is_notified_of_lost_peers_and_of_peers_that_left)
{
    struct mesh_event ev = {.kind = MESH_LEFT, .head = {.peer = 1}};
    struct fixture f;
    struct exchange *x;

    x = open_that_goes_on(&f);
    ask = just_wait;
    assert_int_equal(exchange_on_grad(x, 1, &e), CODEC_WAIT);
    answer = CODEC_WAIT;
    assert_int_equal(exchange_on_event(x, &ev, &e), CODEC_WAIT);
    answer = CODEC_GO;
    ev.kind = MESH_LOST;
    assert_int_equal(exchange_on_event(x, &ev, &e), CODEC_GO);
    assert_int_equal(n_asked, 1 + 200 + 200);
    assert_true(codec_has_left(codec, 1));
    assert_false(codec_has_left(codec, 0) || codec_has_left(codec, -2) || codec_has_left(codec, 7));
    exchange_free(x);
    close_node(&f);
}

static int ask_record(struct codec *c)
{
    return codec_record(c, "staleness", 1.5);
}

static int ask_record_wrongly(struct codec *c)
{
    return codec_record(c, "a,b", 1);
}

TEST(a_record_has_its_node_step_and_name)
{
    struct fixture f;

    ask = NULL;
    assert_ok(open_node(&f, &(struct codec_plugin){.more = CODEC_MORE(.events = &events)}, 1, 0));
    assert_ok(exchange_on_step(f.x, &e));
    ask = ask_record;
    assert_ok(exchange_on_grad(f.x, 1, &e));
    assert_string_equal(f.recorded, "1 1 staleness 1.5");
    ask = ask_record_wrongly;
    assert_int_equal(exchange_on_grad(f.x, 1, &e), ERR_CODEC);
    assert_error_has("a name is 1 to 32 of a-z, 0-9 and _");
    close_node(&f);
}

TEST(requests_of_a_codec_to_its_node_are_honored)
{
    struct fixture f;

    ask = NULL;
    assert_ok(open_node(&f, &(struct codec_plugin){.more = CODEC_MORE(.round = &rounds)}, 0, 0));
    assert_true(exchange_lr_factor(f.x) == 1 && !exchange_take_evaluation(f.x) && !exchange_wants_stop(f.x));
    codec->run->lr_factor = 0.25f;
    codec->run->wants_evaluation = codec->run->wants_stop = true;
    assert_true(exchange_lr_factor(f.x) == 0.25f && exchange_wants_stop(f.x));
    assert_true(exchange_take_evaluation(f.x));
    assert_false(exchange_take_evaluation(f.x)); /* once */
    assert_true(exchange_updates_here(f.x));
    close_node(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_are_clipped_to_the_range_of_a_server),
        cmocka_unit_test(a_contribution_for_a_block_has_its_block_and_holders),
        cmocka_unit_test(an_event_rule_sees_each_block_before_the_gradient_of_its_step),
        cmocka_unit_test(a_worker_that_combines_by_collectives_refuses_a_message),
        cmocka_unit_test(parameters_are_in_the_state_before_open),
        cmocka_unit_test(a_codec_that_fails_without_a_message_or_returns_an_invalid_value_has_failed),
        cmocka_unit_test(the_error_message_of_a_codec_is_reported_whatever_it_returns),
        cmocka_unit_test(invalid_requests_for_zeros_are_refused_with_a_message),
        cmocka_unit_test(an_array_of_any_type_is_zeroed_counted_and_freed),
        cmocka_unit_test(common_random_numbers_are_those_of_the_job_whichever_node_asks),
        cmocka_unit_test(a_server_updates_its_range_at_the_step_of_the_workers),
        cmocka_unit_test(a_codec_timer_fires_once),
        cmocka_unit_test(a_message_that_a_timer_sends_reaches_its_peer),
        cmocka_unit_test(messages_to_a_node_that_has_left_are_not_counted_as_traffic),
        cmocka_unit_test(a_message_with_differences_is_for_the_node_that_it_was_begun_for),
        cmocka_unit_test(a_codec_that_sends_to_its_own_node_has_failed),
        cmocka_unit_test(a_codec_is_notified_of_lost_peers_and_of_peers_that_left),
        cmocka_unit_test(a_record_has_its_node_step_and_name),
        cmocka_unit_test(requests_of_a_codec_to_its_node_are_honored),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
