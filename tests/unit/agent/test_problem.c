#include "agent/api/problem.h"

#include <jansson.h>

#include "tests/unit/unit.h"

TEST(every_problem_is_a_complete_document)
{
    for (int p = PROBLEM_NONE + 1; p < N_PROBLEMS; p++) {
        char *text = problem_document((enum problem)p, "what \"went\" wrong\n", p % 2 ? "do this" : "",
                                      "e-00112233");
        json_t *o = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
        char type[64];

        assert_non_null(o);
        snprintf(type, sizeof type, "/problems/%s", problem_code((enum problem)p));
        assert_string_equal(json_string_value(json_object_get(o, "type")), type);
        assert_string_equal(json_string_value(json_object_get(o, "code")), problem_code((enum problem)p));
        assert_int_equal(json_integer_value(json_object_get(o, "status")), problem_status((enum problem)p));
        assert_in_range(problem_status((enum problem)p), 400, 507);
        assert_non_null(json_string_value(json_object_get(o, "title")));
        assert_string_equal(json_string_value(json_object_get(o, "detail")), "what \"went\" wrong\n");
        assert_int_equal(json_object_get(o, "hint") != NULL, p % 2);
        json_decref(o);
        free(text);
    }
}

TEST(bytes_that_are_not_text_do_not_break_the_document)
{
    char *text = problem_document(BAD_REQUEST, "\xff\xfe in /v1", "\xff", "e-1");

    assert_non_null(strstr(text, "?? in /v1"));
    free(text);
}

TEST(every_problem_has_a_meaning_and_a_remedy_in_characters_that_need_no_escape_in_html)
{
    for (int i = PROBLEM_NONE + 1; i < N_PROBLEMS; i++) {
        enum problem p = (enum problem)i;
        const char *texts[] = {problem_title(p), problem_meaning(p), problem_advice(p)};

        assert_int_equal(problem_find(problem_code(p)), p);
        for (size_t k = 0; k < N_OF(texts); k++) {
            assert_true(strlen(texts[k]) > 3);
            assert_null(strpbrk(texts[k], "<>&|"));
        }
    }
    assert_int_equal(problem_find("NONE"), PROBLEM_NONE);
    assert_int_equal(problem_find("bad_request"), PROBLEM_NONE);
    assert_int_equal(problem_find(""), PROBLEM_NONE);
}

TEST(internal_errors_map_to_the_right_kind_of_problem)
{
    static const struct {
        int err;
        enum problem problem;
    } cases[] = {
        {ERR_CONFIG, INVALID_DOCUMENT}, {ERR_NOSPACE, DISK_FULL},         {ERR_NOT_FOUND, NOT_FOUND},
        {ERR_CONFLICT, WRONG_STATE},    {ERR_NOMEM, OVERLOADED},          {ERR_IO, INTERNAL},
        {ERR_CODEC, CODEC_REFUSED},     {ERR_REFUSED, ISOLATION_TOO_LOW}, {ERR_TRAINER, TRAINER_REFUSED},
    };

    for (size_t i = 0; i < N_OF(cases); i++) {
        struct err e = {.code = cases[i].err};

        assert_int_equal(problem_of(&e), cases[i].problem);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_problem_is_a_complete_document),
        cmocka_unit_test(bytes_that_are_not_text_do_not_break_the_document),
        cmocka_unit_test(every_problem_has_a_meaning_and_a_remedy_in_characters_that_need_no_escape_in_html),
        cmocka_unit_test(internal_errors_map_to_the_right_kind_of_problem),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
