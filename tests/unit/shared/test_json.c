#include "shared/base/json.h"

#include <math.h>

#include "shared/base/compiler.h"
#include "shared/base/rng.h"
#include "shared/base/utf8.h"
#include "tests/unit/unit.h"

struct pet {
    char name[8];
    char kind[16];
    int legs;
    uint64_t chip;
    double weight;
    bool tame;
};

static const struct json_field fields[] = {
    {.key = "name", .kind = JSON_FIELD_TEXT, JSON_AT(struct pet, name), .required = true},
    {.key = "kind", .kind = JSON_FIELD_TEXT, JSON_AT(struct pet, kind), .choices = "cat|dog"},
    {.key = "legs", .kind = JSON_FIELD_INT, JSON_AT(struct pet, legs), .min = 0, .max = 8},
    {.key = "chip", .kind = JSON_FIELD_U64, JSON_AT(struct pet, chip)},
    {.key = "weight", .kind = JSON_FIELD_DOUBLE, JSON_AT(struct pet, weight)},
    {.key = "tame", .kind = JSON_FIELD_BOOL, JSON_AT(struct pet, tame)},
    {.key = "owner", .kind = JSON_FIELD_ANY},
    {0},
};

static int parse(struct pet *p, const char *text, struct err *e)
{
    json_t *doc;
    int rc;

    if (json_parse(&doc, text, strlen(text), "pet.json", e) < 0)
        return e->code;
    rc = json_to_struct(p, doc, fields, "/pets/0", e);
    json_decref(doc);
    return rc;
}

TEST(present_fields_are_set_and_others_keep_their_values)
{
    struct pet p = {.legs = 4, .weight = 2.5};
    struct err e;

    assert_ok(
        parse(&p, "{\"name\": \"Mia\", \"kind\": \"cat\", \"tame\": true, \"owner\": {\"any\": []}}", &e));
    assert_string_equal(p.name, "Mia");
    assert_string_equal(p.kind, "cat");
    assert_int_equal(p.legs, 4);
    assert_true(p.weight == 2.5);
    assert_true(p.tame);
}

TEST(unparsable_text_is_quoted_without_control_characters)
{
    static const char *const texts[] = {"{\"name\": x\033[2J\nERROR}", "\033\nfalse", "[\"a\nb\"]",
                                        "{\"a\177\": 1, \"a\177\": 2}", "{\"a\": \"\xc2\x9bK"};
    struct pet p;
    struct err e;

    for (size_t i = 0; i < N_OF(texts); i++) {
        assert_int_equal(parse(&p, texts[i], &e), ERR_CONFIG);
        assert_true(utf8_is_clean(e.text));
    }
}

TEST(text_in_encodings_of_windows_is_refused_with_its_encoding)
{
    json_t *doc;
    struct err e;

    assert_int_equal(json_parse(&doc, "\xef\xbb\xbf{}", 5, "a.json", &e), ERR_CONFIG);
    assert_error_has("a.json:1:1: begins with a byte order mark");
    assert_int_equal(json_parse(&doc, "\xff\xfe{\0}\0", 6, "a.json", &e), ERR_CONFIG);
    assert_error_has("a.json:1:1: is UTF-16; save it as UTF-8");
    assert_int_equal(json_parse(&doc, "\xfe\xff\0{\0}", 6, "a.json", &e), ERR_CONFIG);
    assert_error_has("is UTF-16");
}

TEST(errors_are_reported_with_their_path)
{
    static const struct {
        const char *text, *choices;
    } cases[] = {
        {"{\"kind\": \"cat\"}", "/pets/0/name: missing"},
        {"{\"name\": 3}", "/pets/0/name: not a string"},
        {"{\"name\": \"Leonardo\"}", "/pets/0/name: longer than 7 characters"},
        {"{\"name\": \"a\", \"kind\": \"cow\"}", "/pets/0/kind: \"cow\" is not one of cat|dog"},
        {"{\"name\": \"a\", \"kind\": \"cat|dog\"}", "/pets/0/kind: \"cat|dog\" is not one of cat|dog"},
        {"{\"name\": \"a\", \"kind\": \"\"}", "/pets/0/kind: \"\" is not one of"},
        {"{\"name\": \"a\", \"kind\": \"ca\"}", "/pets/0/kind"},
        {"{\"name\": \"a\", \"legs\": 9}", "/pets/0/legs: 9 is not between 0 and 8"},
        {"{\"name\": \"a\", \"legs\": 3.5}", "/pets/0/legs: not an integer"},
        {"{\"name\": \"a\", \"legs\": true}", "/pets/0/legs: not an integer"},
        {"{\"name\": \"a\", \"weight\": \"2\"}", "/pets/0/weight: not a number"},
        {"{\"name\": \"a\", \"tame\": 1}", "/pets/0/tame: neither true nor false"},
        {"{\"name\": \"a\", \"wieght\": 1}", "/pets/0/wieght: unknown key; did you mean \"weight\"?"},
        {"[]", "/pets/0: not an object"},
        {"{\"name\": \"a\",\n \"name\": \"b\"}", "pet.json:2:"},
        {"{\"name\": ", "pet.json:1:"},
        {"", "pet.json:1:"},
        {"{\"name\": \"a\"} x", "pet.json:1:"},
    };

    for (size_t i = 0; i < N_OF(cases); i++) {
        struct pet p = {0};
        struct err e;

        assert_int_equal(parse(&p, cases[i].text, &e), ERR_CONFIG);
        assert_error_has(cases[i].choices);
    }
}

TEST(unknown_keys_are_ignored)
{
    struct pet p = {0};
    struct err e;

    assert_ok(parse(&p, "{\"name\": \"a\", \"x-colour\": \"red\", \"$schema\": \"s\"}", &e));
}

TEST(integers_are_exact_up_to_two_to_the_53rd)
{
    struct pet p = {0};
    struct err e;

    assert_ok(parse(&p, "{\"name\": \"a\", \"chip\": 9007199254740992}", &e));
    assert_true(p.chip == (uint64_t)1 << 53);
    assert_int_equal(parse(&p, "{\"name\": \"a\", \"chip\": 9007199254740993}", &e), ERR_CONFIG);
    assert_int_equal(parse(&p, "{\"name\": \"a\", \"chip\": -1}", &e), ERR_CONFIG);
}

TEST(a_document_may_be_at_most_32_levels_deep)
{
    char text[129];
    json_t *doc;
    struct err e;

    for (size_t depth = 32; depth <= 64; depth += 32) {
        memset(text, '[', depth);
        memset(text + depth, ']', depth);
        if (depth == 32) {
            assert_ok(json_parse(&doc, text, 2 * depth, "deep", &e));
            json_decref(doc);
        } else {
            assert_int_equal(json_parse(&doc, text, 2 * depth, "deep", &e), ERR_CONFIG);
        }
    }
}

TEST(a_document_survives_serialization)
{
    struct pet p = {"Mia", "dog", 3, 77, 0.1, true};
    struct pet q = {0};
    json_t *doc = json_from_struct(&p, fields);
    char *line = json_line(doc);
    struct err e;

    assert_int_equal(line[strlen(line) - 1], '\n');
    assert_ok(parse(&q, line, &e));
    assert_string_equal(q.name, p.name);
    assert_string_equal(q.kind, p.kind);
    assert_int_equal(q.legs, p.legs);
    assert_true(q.chip == p.chip && q.weight == p.weight && q.tame == p.tame);
    free(line);
    json_decref(doc);
}

/* In place of the C library's; a sanitizer has its own. */
static int n_until_failure; /* the n-th call from now on fails; 0: none */

#if !IS_SANITIZED
extern void *__libc_malloc(size_t size);

void *malloc(size_t size)
{
    if (n_until_failure > 0 && --n_until_failure == 0)
        return NULL;
    return __libc_malloc(size);
}
#endif

/* Ends with the document `v` as text, which it takes. */
static void assert_dumped(json_t *v, size_t flags, const char *expected)
{
    char *text = json_dump(v, flags);

    assert_string_equal(text, expected);
    free(text);
    json_decref(v);
}

TEST(a_real_has_as_many_digits_as_it_takes_to_read_back_the_same)
{
    static const double values[] = {
        0.1, 1.0 / 3, 0.1 + 0.2, 1e300, 5e-324, 1.7976931348623157e308, -2.5,
        100, 1e15,    1e17,      1e22,  0x1p53, 1764185264.1234567,     0.97123456789012345};
    struct rng r;

    rng_init(&r, 1, 2, 3);
    for (int k = 0; k < 20000; k++) {
        double v = k < (int)N_OF(values)
                       ? values[k]
                       : ldexp((double)rng_below(&r, UINT32_MAX) * 0x1p20 + rng_below(&r, 1 << 20),
                               (int)rng_below(&r, 200) - 150);
        json_t *in = json_pack("[f,f]", v, -v), *out;
        char *text = json_dump(in, 0);

        out = json_loads(text, 0, NULL);
        for (size_t i = 0; i < 2; i++) {
            assert_true(json_is_real(json_array_get(out, i)));
            assert_true(json_real_value(json_array_get(out, i)) == (i ? -v : v));
        }
        free(text);
        json_decref(in);
        json_decref(out);
    }
    assert_dumped(json_pack("{s:f,s:[f,f,f],s:s}", "0.10000000000000001", 0.1, "x", 0.3, 0.1 + 0.2, 100.0,
                            "t", "a \"0.10000000000000001\\"),
                  0,
                  "{\"0.10000000000000001\": 0.1, \"x\": [0.3, 0.30000000000000004, 100.0], \"t\": "
                  "\"a \\\"0.10000000000000001\\\\\"}");
    assert_dumped(json_integer(INT64_MIN), 0, "-9223372036854775808");
    assert_dumped(json_pack("[f,f]", 1e-6, 1.2e30), 0, "[1e-6, 1.2e30]");
    assert_dumped(json_real(0.7), 0, "0.7");
}

TEST(a_failed_allocation_makes_no_shorter_document_and_no_syntax_error)
{
    struct pet p = {"Mia", "dog", 3, 77, 0.1, true};
    bool is_over = IS_SANITIZED;
    struct err e;

    for (int n = 1; !is_over; n++) {
        struct pet q = {0};
        json_t *doc, *again = NULL;
        char *line;
        int rc;

        n_until_failure = n;
        doc = json_pack("{s:o?, s:o?}", "pet", json_from_struct(&p, fields), "list", json_array());
        if (doc)
            json_object_set_new(doc, "name", json_text("M\303\244dchen \377", SIZE_MAX));
        line = json_line(doc);
        rc = line ? json_parse(&again, line, strlen(line), "line", &e) : 0;
        is_over = n_until_failure > 0;
        n_until_failure = 0;
        assert_true(line || !is_over);
        assert_true(!line || rc == 0 || rc == ERR_NOMEM);
        if (again) {
            assert_ok(json_to_struct(&q, json_object_get(again, "pet"), fields, "", &e));
            assert_int_equal(q.chip, 77);
            assert_string_equal(q.name, "Mia");
            assert_int_equal(json_object_size(again), 3);
        }
        json_decref(again);
        json_decref(doc);
        free(line);
        if (!line) { /* the failure is reported once */
            line = json_line(json_true());
            assert_string_equal(line, "true\n");
            free(line);
        }
    }
}

TEST(a_missing_document_makes_no_line)
{
    assert_null(json_line(NULL));
}

TEST(single_values_respect_their_limits)
{
    json_t *doc = json_pack("{s:i, s:s}", "port", 70000, "host", "localhost");
    char host[4];
    int port;
    struct err e;

    assert_int_equal(json_get_int(&port, doc, "port", 1, 65535, "", &e), ERR_CONFIG);
    assert_error_has("/port: 70000 is not between 1 and 65535");
    assert_int_equal(json_get_int(&port, doc, "prot", 1, 65535, "", &e), ERR_CONFIG);
    assert_error_has("/prot: missing");
    assert_int_equal(json_get_text(host, sizeof host, doc, "host", "", &e), ERR_CONFIG);
    json_decref(doc);
}

TEST(any_text_becomes_a_json_value)
{
    static const struct {
        const char *in, *out;
        size_t max;
    } cases[] = {
        {"", "", SIZE_MAX},
        {"gew\303\244hlt", "gew\303\244hlt", SIZE_MAX},
        {"gew\344hlt", "gew?hlt", SIZE_MAX},
        {"abc\303", "abc?", SIZE_MAX},
        {"ab\303\244", "ab", 3},
        {"ab\303\244", "ab\303\244", 4},
        {"\377\303\244", "?", 2},
        {"abc", "", 0},
    };

    for (size_t i = 0; i < N_OF(cases); i++) {
        json_t *v = json_text(cases[i].in, cases[i].max);

        assert_non_null(v);
        assert_string_equal(json_string_value(v), cases[i].out);
        json_decref(v);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(present_fields_are_set_and_others_keep_their_values),
        cmocka_unit_test(unparsable_text_is_quoted_without_control_characters),
        cmocka_unit_test(text_in_encodings_of_windows_is_refused_with_its_encoding),
        cmocka_unit_test(errors_are_reported_with_their_path),
        cmocka_unit_test(unknown_keys_are_ignored),
        cmocka_unit_test(integers_are_exact_up_to_two_to_the_53rd),
        cmocka_unit_test(a_document_may_be_at_most_32_levels_deep),
        cmocka_unit_test(a_document_survives_serialization),
        cmocka_unit_test(a_real_has_as_many_digits_as_it_takes_to_read_back_the_same),
        cmocka_unit_test(a_failed_allocation_makes_no_shorter_document_and_no_syntax_error),
        cmocka_unit_test(a_missing_document_makes_no_line),
        cmocka_unit_test(single_values_respect_their_limits),
        cmocka_unit_test(any_text_becomes_a_json_value),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
