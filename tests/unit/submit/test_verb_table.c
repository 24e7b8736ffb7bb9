#include "submit/verbs/verbs.h"

#include "tests/unit/unit.h"

static struct err e;

TEST(help_lists_every_verb_once_under_a_heading)
{
    char *text;
    size_t n;
    FILE *f = open_memstream(&text, &n);

    assert_non_null(f);
    verb_print_all(f);
    assert_int_equal(fclose(f), 0);
    for (int i = 0; i < n_verbs; i++) {
        char line[64];
        const char *at;

        snprintf(line, sizeof line, "\n  %-10s ", verbs[i].name);
        at = strstr(text, line);
        assert_non_null(at);
        assert_null(strstr(at + 1, line));
    }
    for (int g = 0; g < N_VERB_GROUPS; g++) {
        char heading[64];

        snprintf(heading, sizeof heading, "\n\n%s:\n  ", verb_groups[g]); /* a verb follows */
        assert_non_null(strstr(text, heading));
    }
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
        assert_true(strlen(line) <= 100);
    free(text);
}

TEST(a_verb_is_found_by_each_of_its_names_and_a_wrong_one_is_corrected)
{
    assert_string_equal(verb_find("fetch", &e)->name, "fetch");
    assert_string_equal(verb_find("retrieve", &e)->name, "fetch");
    assert_null(verb_find("ps", &e));
    assert_int_equal(e.code, ERR_USAGE);
    assert_string_equal(e.hint, "Did you mean list?");
    assert_null(verb_find("cansel", &e));
    assert_string_equal(e.hint, "Did you mean cancel?");
}

TEST(help_of_a_verb_has_a_line_for_each_thing_it_does)
{
    char *text;
    size_t n;
    FILE *f = open_memstream(&text, &n);

    assert_non_null(f);
    verb_print_help(f, verb_find("codecs", &e));
    assert_int_equal(fclose(f), 0);
    assert_true(strncmp(text,
                        "job_submit codecs list [OPTIONS]\njob_submit codecs show NAME|FILE [OPTIONS]\n",
                        75) == 0);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(help_of_a_verb_has_a_line_for_each_thing_it_does),
        cmocka_unit_test(help_lists_every_verb_once_under_a_heading),
        cmocka_unit_test(a_verb_is_found_by_each_of_its_names_and_a_wrong_one_is_corrected),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
