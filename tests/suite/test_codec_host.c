/* What a codec sees of its node, and requests of it: codecs written for the test, on one node of two
 * workers. */
#include "tests/unit/unit.h"

#include "runner/exchange/exchange_step.h"
#include "tests/lib/codec_node.h"

static struct err e;
static struct codec_run seen[8][2]; /* copies of views: in encode and in merge, by block */

struct state {
    float *v, *w;
    struct item {
        double x;
        int n;
    } * items;
    float rate;
};

static const struct codec_option options[] = {CODEC_OPTION(struct state, rate, 0.5, 0, 1, "a rate"), {0}};

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

static int open_plugin(struct codec_node *f, struct codec_plugin plugin, int node, int n_servers)
{
    plugin.state_size = sizeof(struct state);
    plugin.options = options;
    return codec_node_open(f, &plugin, node, n_servers, &e);
}

static int open_round(struct codec_node *f, const struct codec_round *round, int node, int n_servers)
{
    return open_plugin(f, (struct codec_plugin){.more = CODEC_MORE(.round = round)}, node, n_servers);
}

static int open_events(struct codec_node *f, const struct codec_events *events, int node, int n_servers)
{
    return open_plugin(f, (struct codec_plugin){.more = CODEC_MORE(.events = events)}, node, n_servers);
}

TEST(layers_are_clipped_to_the_range_of_a_server)
{
    struct codec_node f;

    assert_ok(open_round(&f, &rounds, 0, 0));
    assert_int_equal(f.codec->run->n_layers, 3);
    assert_string_equal(f.codec->run->layers[2].name, "third");
    assert_true(f.codec->run->layers[2].offset == 8 && f.codec->run->layers[2].n_dims == 2 &&
                f.codec->run->layers[0].shape[1] == 3);
    codec_node_close(&f);
    /* Of two servers the second has the numbers 6 .. 11, of five the third 4 .. 6. */
    assert_ok(open_round(&f, &rounds, -3, 2));
    assert_int_equal(f.codec->n_params, 6);
    assert_int_equal(f.codec->run->n_layers, 2);
    assert_true(f.codec->run->layers[0].offset == 0 && f.codec->run->layers[1].offset == 2 &&
                f.codec->run->layers[1].n_dims == 2);
    codec_node_close(&f);
    assert_ok(open_round(&f, &rounds, -4, 5));
    assert_ptr_equal(f.codec->params, f.params + 4);
    assert_int_equal(f.codec->run->n_layers, 2);
    assert_string_equal(f.codec->run->layers[0].name, "first");
    assert_true(f.codec->run->layers[0].offset == 0 && f.codec->run->layers[0].n == 2 &&
                f.codec->run->layers[0].n_dims == 1 && f.codec->run->layers[0].shape[0] == 2);
    assert_true(f.codec->run->layers[1].offset == 2 && f.codec->run->layers[1].n == f.codec->n_params - 2);
    codec_node_close(&f);
}

TEST(a_contribution_for_a_block_has_its_block_and_holders)
{
    struct codec_node f;

    assert_ok(open_round(&f, &of_blocks, 0, 0));
    assert_int_equal(f.codec->run->block, -1);
    assert_ok(exchange_on_block(f.x, 0, &e));
    assert_int_equal(exchange_on_grad(f.x, 1, &e), CODEC_WAIT); /* for the other's */
    assert_int_equal(seen[0][0].block, 0);
    assert_int_equal(seen[0][1].block, 0);
    assert_int_equal(f.codec->run->block, -1);
    assert_true(codec_holds(f.codec, 0, 0) && codec_holds(f.codec, 1, 1));
    assert_false(codec_holds(f.codec, 0, 1) || codec_holds(f.codec, 2, 0) || codec_holds(f.codec, -1, 0) ||
                 codec_holds(f.codec, 0, 2));
    codec_node_close(&f);
}

static int look_at_block(struct codec *c)
{
    seen[codec_calls.n++][0] = *c->run;
    return CODEC_GO;
}

static int wait_in_block(struct codec *c)
{
    (void)c;
    return CODEC_WAIT;
}

TEST(an_event_rule_sees_each_block_before_the_gradient_of_its_step)
{
    struct codec_events of_each = codec_node_events;
    struct codec_node f;

    assert_ok(open_events(&f, &of_each, 0, 0));
    assert_false(exchange_wants_blocks(f.x));
    codec_node_close(&f);
    of_each.on_block = look_at_block;
    assert_ok(open_events(&f, &of_each, 0, 0));
    assert_true(exchange_wants_blocks(f.x));
    assert_ok(exchange_on_block(f.x, 1, &e));
    assert_ok(exchange_on_block(f.x, 0, &e));
    assert_int_equal(codec_calls.n, 2);
    assert_int_equal(seen[0][0].block, 1);
    assert_int_equal(seen[1][0].block, 0);
    assert_int_equal(f.codec->run->block, -1);
    of_each.on_block = wait_in_block;
    assert_int_equal(exchange_on_block(f.x, 0, &e), ERR_CODEC);
    assert_error_has("on_block");
    codec_node_close(&f);
}

TEST(parameters_are_in_the_state_before_open)
{
    struct codec_node f;
    struct exchange *x;

    assert_ok(open_round(&f, &rounds, 0, 0));
    assert_true(((struct state *)codec_calls.codec->state)->rate == 0.5f);
    f.cfg.options = "rate=0.25";
    assert_ok(exchange_new(&x, &f.cfg, &e));
    assert_true(((struct state *)codec_calls.codec->state)->rate == 0.25f);
    exchange_free(x);
    f.cfg.options = "rite=0.25";
    assert_int_equal(exchange_new(&x, &f.cfg, &e), ERR_CONFIG);
    assert_error_has("codec made: no parameter \"rite\" (did you mean \"rate\"?); it takes rate");
    codec_node_close(&f);
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
    struct codec_node f;
    char expected[128];

    for (size_t i = 0; i < N_OF(cases); i++) {
        returned = cases[i].returned;
        e = (struct err){.code = ERR_LOST,
                         .text = "an older error"}; /* so that it is not mistaken for this one */
        codec_calls.act = returns;
        assert_int_equal(open_round(&f, &rounds, 0, 0), ERR_CODEC);
        snprintf(expected, sizeof expected, "%s%s", "codec made: its open", cases[i].expected);
        assert_error_has(expected);
        codec_calls.act = NULL;
        assert_ok(open_round(&f, &bad_encode, 0, 0));
        assert_int_equal(exchange_on_grad(f.x, 1, &e), ERR_CODEC);
        snprintf(expected, sizeof expected, "%s%s", "codec made: its encode", cases[i].expected);
        assert_error_has(expected);
        codec_node_close(&f);
        assert_ok(open_round(&f, &bad_merge, 0, 0));
        assert_int_equal(exchange_on_grad(f.x, 1, &e), ERR_CODEC); /* merges its own contribution */
        snprintf(expected, sizeof expected, "%s%s", "codec made: its merge", cases[i].expected);
        assert_error_has(expected);
        codec_node_close(&f);
        assert_ok(open_events(&f, &bad_event, 0, 0));
        assert_int_equal(exchange_on_grad(f.x, 1, &e), cases[i].in_events ? ERR_CODEC : CODEC_WAIT);
        snprintf(expected, sizeof expected, "%s%s", "codec made: its on_grad", cases[i].expected);
        if (cases[i].in_events)
            assert_error_has(expected);
        codec_node_close(&f);
    }
}

TEST(the_error_message_of_a_codec_is_reported_whatever_it_returns)
{
    struct codec_node f;

    codec_calls.act = fails_at_once;
    for (returned = -1; returned >= -96; returned -= 95) {
        assert_int_equal(open_round(&f, &rounds, 0, 0), ERR_CODEC);
        assert_error_has("codec made: it has a reason");
    }
    codec_calls.act = NULL;
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
    struct codec_node f;

    for (size_t i = 0; i < N_OF(cases); i++) {
        codec_calls.act = cases[i].ask;
        assert_int_equal(open_round(&f, &rounds, 0, 0), cases[i].code);
        assert_error_has(cases[i].expected);
    }
    codec_calls.act = NULL;
    assert_ok(open_events(&f, &codec_node_events, 0, 0));
    codec_calls.act = zeros_twice;
    assert_int_equal(exchange_on_grad(f.x, 1, &e), ERR_CODEC);
    assert_error_has("after open()");
    codec_node_close(&f);
}

static int make_items(struct codec *c)
{
    return codec_array(c, &((struct state *)c->state)->items, 5);
}

TEST(an_array_of_any_type_is_zeroed_counted_and_freed)
{
    double bytes[2];
    struct codec_node f;

    for (int k = 0; k < 2; k++) {
        codec_calls.act = k == 1 ? make_items : NULL;
        assert_ok(open_round(&f, &rounds, 0, 0));
        for (int i = 0; k == 1 && i < 5; i++)
            assert_true(((struct state *)f.codec->state)->items[i].n == 0);
        bytes[k] = exchange_bytes(f.x);
        codec_node_close(&f);
    }
    assert_true(bytes[1] - bytes[0] == 5 * sizeof(struct item));
}

TEST(common_random_numbers_are_those_of_the_job_whichever_node_asks)
{
    float numbers[3][4], other[4];
    static const int nodes[] = {0, 1, -2};
    struct codec_node f;

    for (int k = 0; k < 3; k++) {
        assert_ok(open_round(&f, &rounds, nodes[k], 1));
        codec_uniform(f.codec); /* which changes nothing about them */
        codec_common(f.codec, 7, numbers[k], 4);
        codec_common(f.codec, 8, other, 4);
        codec_node_close(&f);
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
    struct codec_node f;

    for (int sync = 0; sync < 2; sync++) {
        assert_ok(codec_node_open(&f, &plugin, -3, 2, &e));
        assert_true(exchange_updates_here(f.x));
        f.codec->is_sync = sync;
        f.codec->run->round = 7;
        f.codec->run->lr_factor = 0.5f;
        assert_ok(codec_update(f.codec));
        assert_true(f.updated.from == 6 && f.updated.n == 6 && f.updated.lr_factor == 0.5f);
        assert_int_equal(f.updated.step,
                         sync ? 7 : 3); /* in asgd the contributions of two workers are two rounds */
        f.codec->run->round = 1000;
        assert_ok(codec_update(f.codec));
        assert_int_equal(f.updated.step, 8); /* the last one */
        codec_node_close(&f);
    }
    assert_ok(codec_node_open(&f, &plugin, 0, 1, &e));
    assert_false(exchange_updates_here(f.x));
    assert_int_equal(codec_update(f.codec), ERR_CODEC);
    assert_error_has("update() is for the servers");
    codec_node_close(&f);
    assert_int_equal(codec_node_open(&f, &plugin, 0, 0, &e), ERR_CODEC);
    assert_error_has("updates the weights on parameter servers, and the job has none");
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
    struct codec_node f;

    assert_ok(open_events(&f, &codec_node_events, 1, 0));
    assert_ok(exchange_on_step(f.x, &e));
    codec_calls.act = ask_record;
    assert_ok(exchange_on_grad(f.x, 1, &e));
    assert_string_equal(f.recorded, "1 1 staleness 1.5");
    codec_calls.act = ask_record_wrongly;
    assert_int_equal(exchange_on_grad(f.x, 1, &e), ERR_CODEC);
    assert_error_has("a name is 1 to 32 of a-z, 0-9 and _");
    codec_node_close(&f);
}

TEST(requests_of_a_codec_to_its_node_are_honored)
{
    struct codec_node f;

    assert_ok(open_round(&f, &rounds, 0, 0));
    assert_true(exchange_lr_factor(f.x) == 1 && !exchange_take_evaluation(f.x) && !exchange_wants_stop(f.x));
    f.codec->run->lr_factor = 0.25f;
    f.codec->run->wants_evaluation = f.codec->run->wants_stop = true;
    assert_true(exchange_lr_factor(f.x) == 0.25f && exchange_wants_stop(f.x));
    assert_true(exchange_take_evaluation(f.x));
    assert_false(exchange_take_evaluation(f.x)); /* once */
    assert_true(exchange_updates_here(f.x));
    codec_node_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_are_clipped_to_the_range_of_a_server),
        cmocka_unit_test(a_contribution_for_a_block_has_its_block_and_holders),
        cmocka_unit_test(an_event_rule_sees_each_block_before_the_gradient_of_its_step),
        cmocka_unit_test(parameters_are_in_the_state_before_open),
        cmocka_unit_test(a_codec_that_fails_without_a_message_or_returns_an_invalid_value_has_failed),
        cmocka_unit_test(the_error_message_of_a_codec_is_reported_whatever_it_returns),
        cmocka_unit_test(invalid_requests_for_zeros_are_refused_with_a_message),
        cmocka_unit_test(an_array_of_any_type_is_zeroed_counted_and_freed),
        cmocka_unit_test(common_random_numbers_are_those_of_the_job_whichever_node_asks),
        cmocka_unit_test(a_server_updates_its_range_at_the_step_of_the_workers),
        cmocka_unit_test(a_record_has_its_node_step_and_name),
        cmocka_unit_test(requests_of_a_codec_to_its_node_are_honored),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
