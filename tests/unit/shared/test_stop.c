#include "shared/job/stop.h"

#include <math.h>

#include "tests/unit/unit.h"

TEST(written_values_are_read_back)
{
    for (int reason = STOP_NONE + 1; reason < N_STOP_REASONS; reason++) {
        struct stop s = {.reason = (enum stop_reason)reason, .step = 12, .loss = 0.25, .accuracy = NAN},
                    t = {0};
        json_t *doc = stop_json(&s);

        assert_true(stop_parse(&t, doc));
        assert_int_equal(t.reason, reason);
        assert_int_equal(t.step, 12);
        assert_true(t.loss == 0.25 && isnan(t.accuracy));
        json_decref(doc);
    }
    assert_true(json_is_null(stop_json(&(struct stop){0})));
}

TEST(an_invalid_document_changes_nothing)
{
    static const char *const bad[] = {"{}",
                                      "[]",
                                      "{\"reason\": \"none\", \"step\": 1}",
                                      "{\"reason\": \"lunch\", \"step\": 1}",
                                      "{\"reason\": 2, \"step\": 1}",
                                      "{\"reason\": \"codec\"}",
                                      "{\"reason\": \"codec\", \"step\": -1}"};

    for (size_t i = 0; i < N_OF(bad); i++) {
        struct stop s = {.step = 7};
        json_t *doc = json_loads(bad[i], 0, NULL);

        assert_false(stop_parse(&s, doc));
        assert_true(s.step == 7 && s.reason == STOP_NONE);
        json_decref(doc);
    }
    assert_false(stop_parse(&(struct stop){0}, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(written_values_are_read_back),
        cmocka_unit_test(an_invalid_document_changes_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
