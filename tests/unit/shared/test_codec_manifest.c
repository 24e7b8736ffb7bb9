#include "shared/plugin/codec_manifest.h"

#include "codecs/codec_events.h"
#include "codecs/executor.h"
#include "shared/base/json.h"
#include "tests/unit/unit.h"

#define HEX_A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define HEX_B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"

static struct err e;

static int parse(struct codec_manifest *out, const char *text)
{
    json_t *doc = json_loads(text, 0, NULL);
    int rc = codec_manifest_parse(out, doc, &e);

    json_decref(doc);
    return rc;
}

TEST(a_manifest_survives_serialization_and_unknown_keys_are_ignored)
{
    struct codec_manifest m = {.name = "mean",
                               .abi = CODEC_ABI,
                               .architecture = "x86-64",
                               .compiler = "gcc 12.2.0",
                               .flags = "-O3",
                               .sha256 = HEX_A,
                               .source_sha256 = HEX_B};
    struct codec_manifest back;
    json_t *doc = codec_manifest_json(&m);

    assert_ok(codec_manifest_parse(&back, doc, &e));
    assert_memory_equal(&back, &m, sizeof m);
    json_decref(doc);
    m.compiler[0] = m.flags[0] = m.source_sha256[0] = '\0';
    doc = codec_manifest_json(&m);
    assert_int_equal(json_object_size(doc), 4);
    assert_ok(codec_manifest_parse(&back, doc, &e));
    assert_string_equal(back.source_sha256, "");
    json_decref(doc);
}

TEST(an_invalid_manifest_is_refused_with_the_position)
{
    struct codec_manifest m;
    char text[512];

    assert_int_equal(parse(&m, "{\"name\":\"x\",\"abi\":4,\"architecture\":\"x86-64\"}"), ERR_CONFIG);
    assert_error_has("/sha256: missing");
    snprintf(text, sizeof text, "{\"name\":\"x\",\"abi\":%d,\"architecture\":\"a\",\"sha256\":\"../x\"}",
             CODEC_ABI);
    assert_int_equal(parse(&m, text), ERR_CONFIG);
    assert_error_has("not a SHA-256");
    assert_int_equal(parse(&m, "{\"nam\":\"x\"}"), ERR_CONFIG);
    assert_error_has("did you mean \"name\"?");
}

TEST(an_executor_is_compared_with_the_version_of_executor_h)
{
    struct codec_manifest m = {
        .name = "hello", .is_executor = true, .abi = EXECUTOR_ABI, .architecture = "x86-64", .sha256 = HEX_A};
    struct codec_manifest back;
    json_t *doc = codec_manifest_json(&m);

    assert_ok(codec_manifest_parse(&back, doc, &e));
    assert_true(back.is_executor);
    json_object_set_new(doc, "abi", json_integer(CODEC_ABI + EXECUTOR_ABI));
    assert_int_equal(codec_manifest_parse(&back, doc, &e), ERR_CONFIG);
    assert_error_has("executor hello is built against executor.h with ABI ");
    json_decref(doc);
}

TEST(a_codec_of_another_abi_version_is_refused_naming_both)
{
    struct codec_manifest m;

    assert_int_equal(
        parse(&m, "{\"name\":\"old\",\"abi\":1,\"architecture\":\"x86-64\",\"sha256\":\"" HEX_A "\"}"),
        ERR_CONFIG);
    assert_error_has("codec old is built against codec.h with ABI 1; this psgd has ABI ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_manifest_survives_serialization_and_unknown_keys_are_ignored),
        cmocka_unit_test(an_invalid_manifest_is_refused_with_the_position),
        cmocka_unit_test(an_executor_is_compared_with_the_version_of_executor_h),
        cmocka_unit_test(a_codec_of_another_abi_version_is_refused_naming_both),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
