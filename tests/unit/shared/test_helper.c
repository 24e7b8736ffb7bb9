#include "shared/base/helper.h"

#include "tests/unit/unit.h"

static const char *folder;

static int make(void **state)
{
    (void)state;
    folder = unit_folder();
    return 0;
}

static int clean(void **state)
{
    (void)state;
    unit_remove(folder);
    return 0;
}

TEST(a_summary_is_read_as_it_was_written)
{
    struct err e = {0};
    json_t *doc;

    assert_int_equal(helper_summary_read(&doc, folder, "simulator", &e), ERR_NOT_FOUND);
    assert_ok(helper_summary_write(json_pack("{s:b, s:i}", "ok", 1, "samples", 7), folder, &e));
    assert_ok(helper_summary_read(&doc, folder, "simulator", &e));
    assert_int_equal(json_integer_value(json_object_get(doc, "samples")), 7);
    json_decref(doc);
}

TEST(a_failure_arrives_with_its_code_text_and_hint)
{
    struct err e = {0}, failure = {0};
    json_t *doc = NULL;

    err_set(&failure, ERR_NUMERIC, "the loss is nan");
    err_hint(&failure, "A smaller rate.");
    assert_ok(helper_summary_write(helper_summary_failure(&failure), folder, &e));
    assert_int_equal(helper_summary_read(&doc, folder, "simulator", &e), ERR_NUMERIC);
    assert_null(doc);
    assert_string_equal(e.text, failure.text);
    assert_string_equal(e.hint, failure.hint);
}

TEST(a_text_that_is_not_a_code_is_malformed)
{
    static const int codes[] = {0, 1, ERR_INTERNAL - 1, ERR_CONFLICT + 1};
    struct err e = {0};
    json_t *doc;

    for (size_t i = 0; i < N_OF(codes); i++) {
        assert_ok(helper_summary_write(json_pack("{s:b, s:i, s:s}", "ok", 0, "code", codes[i], "text", "x"),
                                       folder, &e));
        assert_int_equal(helper_summary_read(&doc, folder, "simulator", &e), ERR_CODEC);
        assert_error_has("the simulator's summary is malformed");
    }
    assert_ok(helper_summary_write(json_array(), folder, &e));
    assert_int_equal(helper_summary_read(&doc, folder, "simulator", &e), ERR_CODEC);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_summary_is_read_as_it_was_written, make, clean),
        cmocka_unit_test_setup_teardown(a_failure_arrives_with_its_code_text_and_hint, make, clean),
        cmocka_unit_test_setup_teardown(a_text_that_is_not_a_code_is_malformed, make, clean),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
