#include "shared/plugin/codec_options.h"

#include <math.h>

#include "tests/unit/unit.h"

struct rule {
    float alpha, free;
    int n;
    bool is_on;
    int graph;
};

static const struct codec_option table[] = {
    CODEC_OPTION(struct rule, alpha, 0.3, 0, 1, "moving rate"),
    CODEC_OPTION(struct rule, free, NAN, -1e9, 1e9, "the codec's own choice"),
    CODEC_OPTION(struct rule, n, 5, -3, 2147483647, "a count"),
    CODEC_OPTION(struct rule, is_on, true, 0, 1, "a switch"),
    CODEC_OPTION_CHOICE(struct rule, graph, "ring|torus|exponential", "a graph"),
    {0},
};

static struct rule r;
static struct codec_common common;
static const struct codec_options sets[] = {{table, &r}, {codec_common_options, &common}};
static struct err e;

static int set(const char *text)
{
    return codec_options_set(sets, N_OF(sets), text, &e);
}

TEST(omitted_parameters_have_their_defaults)
{
    r = (struct rule){.n = 99, .graph = 7};
    assert_ok(set(""));
    assert_true(r.alpha == 0.3f && isnan(r.free) && r.n == 5 && r.is_on && r.graph == 0);
    assert_int_equal(common.every, 0);
    assert_ok(set(NULL));
    assert_int_equal(r.n, 5);
}

TEST(values_of_every_type_are_read)
{
    assert_ok(set("graph=exponential,is_on=false,n=-3,free=-2.5e3,alpha=1,every=10"));
    assert_true(r.alpha == 1 && r.free == -2500 && r.n == -3 && !r.is_on && r.graph == 2);
    assert_int_equal(common.every, 10);
}

TEST(an_unknown_parameter_is_refused_with_the_known_ones)
{
    static const struct {
        const char *text, *expected;
    } cases[] = {
        {"alhpa=1", "no parameter \"alhpa\" (did you mean \"alpha\"?); it takes alpha"},
        {"zzzzzzzzz=1",
         "no parameter \"zzzzzzzzz\"; it takes alpha (0 to 1, default 0.3: moving rate), free"},
        {"alpha", "\"alpha\" is not NAME=VALUE"},
        {"alpha=1,", "\"\" is not NAME=VALUE"},
        {"alpha=", "alpha: \"\" is not a number"},
        {"alpha=0.5x", "alpha: \"0.5x\" is not a number"},
        {"alpha=nan", "is not a number"},
        {"alpha= 0.5", "is not a number"},
        {"alpha=0x1p-2", "is not a number"},
        {"alpha=1.5", "alpha: 1.5 is not between 0 and 1"},
        {"alpha=-1e999", "is not between"},
        {"n=1.5", "n: \"1.5\" is not an integer"},
        {"n=2147483648", "n: 2147483648 is not between -3 and 2147483647"},
        {"is_on=1", "is_on: \"1\" is not one of false|true"},
        {"graph=tor", "graph: \"tor\" is not one of ring|torus|exponential"},
        {"graph=ring|torus", "graph: \"ring|torus\" is not one of ring|torus|exponential"},
        {"graph=", "is not one of"},
        {"every=-1", "every: -1 is not between 0 and 1000000000"},
        {"n=1,n=1", "n is given twice"},
        {"b=1", "every (0 to 1000000000"},
    };

    for (size_t i = 0; i < N_OF(cases); i++) {
        assert_int_equal(set(cases[i].text), ERR_CONFIG);
        assert_error_has(cases[i].expected);
    }
}

TEST(an_overlong_text_is_refused)
{
    char text[CODEC_OPTIONS_TEXT + 16];

    memset(text, 'a', sizeof text);
    text[sizeof text - 1] = '\0';
    assert_int_equal(set(text), ERR_CONFIG);
    assert_error_has("more than 511 characters");
}

TEST(a_rule_without_parameters_refuses_them)
{
    assert_int_equal(codec_options_set(&(struct codec_options){NULL, &r}, 1, "a=1", &e), ERR_CONFIG);
    assert_error_has("no parameter \"a\"; it takes none");
    assert_ok(codec_options_set(&(struct codec_options){NULL, &r}, 1, "", &e));
}

TEST(the_canonical_text_reads_back_to_the_same_bits)
{
    char text[CODEC_OPTIONS_TEXT], again[CODEC_OPTIONS_TEXT];
    struct rng g;

    assert_ok(set("graph=torus"));
    assert_ok(codec_options_text(text, sizeof text, &sets[0], &e));
    assert_string_equal(text, "alpha=0.3,n=5,is_on=true,graph=torus");
    rng_init(&g, 1, 2, 3);
    for (int i = 0; i < 10000; i++) {
        struct rule before;

        r.alpha = rng_uniform(&g);
        r.free = (rng_uniform(&g) - 0.5f) * 1e7f;
        r.n = (int)(rng_u64(&g) % 2147483647);
        r.is_on = i % 2;
        r.graph = i % 3;
        before = r;
        assert_ok(codec_options_text(text, sizeof text, &sets[0], &e));
        assert_ok(set(text));
        assert_true(r.alpha == before.alpha && r.free == before.free && r.n == before.n &&
                    r.is_on == before.is_on && r.graph == before.graph);
        assert_ok(codec_options_text(again, sizeof again, &sets[0], &e));
        assert_string_equal(text, again);
    }
    assert_int_equal(codec_options_text(text, 20, &sets[0], &e), ERR_CONFIG);
}

TEST(values_go_into_json_as_the_user_writes_them)
{
    json_t *o;
    char *text;

    assert_ok(set("alpha=0.1"));
    o = codec_options_values(&sets[0]);
    text = json_dumps(o, JSON_COMPACT);
    assert_string_equal(text,
                        "{\"alpha\":0.10000000000000001,\"free\":null,\"n\":5,\"is_on\":true,"
                        "\"graph\":\"ring\"}"); /* jansson prints 17 digits; the value is 0.1, not 0.1f */
    free(text);
    json_decref(o);
    o = codec_options_list(table);
    assert_int_equal(json_array_size(o), 5);
    assert_string_equal(json_string_value(json_object_get(json_array_get(o, 4), "default")), "ring");
    json_decref(o);
}

TEST(an_argument_is_split_into_codec_and_parameters)
{
    static const struct {
        const char *argument, *rest;
    } cases[] = {
        {"fedavg", ""},
        {"easgd:alpha=0.5,every=10", ":alpha=0.5,every=10"},
        {"easgd:", ":"},
        {"my.c", ""},
        {"my.c:alpha=1", ":alpha=1"},
        {"./my.so:alpha=1", ":alpha=1"},
        {"dir:with/my.c", ""},
        {"dir:with/my.c:a=1", ":a=1"},
        {"a.c:b/my.so", ""},
        {"a.c:b/my.so:x=y.c", ":x=y.c"},
        {"./a:b", ""},
        {"a.so:b.c:x=1", ":x=1"},
        {"my.c:file=x.so:", ":"}, /* the last value counts */
    };

    for (size_t i = 0; i < N_OF(cases); i++)
        assert_string_equal(cases[i].argument + codec_options_at(cases[i].argument), cases[i].rest);
}

TEST(an_inconsistent_parameter_table_is_refused)
{
    static const struct {
        struct codec_option o[3];
        const char *expected;
    } cases[] = {
        {{{.name = "A", .help = ""}}, "parameter 0 has no name"},
        {{{.name = "a"}}, "parameter a has no help"},
        {{{.name = "a", .help = "", .offset = sizeof(struct rule) - 2}}, "outside the state of 20 bytes"},
        {{{.name = "a", .help = "", .offset = (size_t)-4}}, "outside the state"},
        {{{.name = "a", .help = "", .def = 2, .max = 1}}, "a default that is not in its range"},
        {{{.name = "a", .help = "", .type = CODEC_CHOICE}}, "a default that is not in its range"},
        {{{.name = "a", .help = ""}, {.name = "a", .help = ""}}, "parameter a is in the table twice"},
    };

    assert_int_equal(sizeof(struct rule), 20);
    assert_ok(codec_options_check(table, sizeof(struct rule), &e));
    assert_ok(codec_options_check(NULL, 0, &e));
    for (size_t i = 0; i < N_OF(cases); i++) {
        assert_int_equal(codec_options_check(cases[i].o, sizeof(struct rule), &e), ERR_CODEC);
        assert_error_has(cases[i].expected);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(omitted_parameters_have_their_defaults),
        cmocka_unit_test(values_of_every_type_are_read),
        cmocka_unit_test(an_unknown_parameter_is_refused_with_the_known_ones),
        cmocka_unit_test(an_overlong_text_is_refused),
        cmocka_unit_test(a_rule_without_parameters_refuses_them),
        cmocka_unit_test(the_canonical_text_reads_back_to_the_same_bits),
        cmocka_unit_test(values_go_into_json_as_the_user_writes_them),
        cmocka_unit_test(an_argument_is_split_into_codec_and_parameters),
        cmocka_unit_test(an_inconsistent_parameter_table_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
