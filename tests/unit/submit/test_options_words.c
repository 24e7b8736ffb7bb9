#include "submit/options/options_words.h"

#include <stdlib.h>
#include <string.h>

#include "tests/unit/unit.h"

static void check(const char *text, const char *const *wanted)
{
    char program[] = "job_submit", own[] = "--own", *argv[] = {program, own, NULL}, **all, *words;
    int argc = 2, n = 0;
    struct err e;

    assert_int_equal(options_add_words(&all, &words, &argc, argv, text, &e), 0);
    assert_string_equal(all[0], program);
    for (; wanted[n]; n++)
        assert_string_equal(all[1 + n], wanted[n]);
    assert_int_equal(argc, n + 2);
    assert_string_equal(all[1 + n], own);
    assert_null(all[argc]);
    free(all);
    free(words);
}

TEST(words_are_those_of_a_shell_and_come_before_the_command_line)
{
    check("--codec fedavg  -n 2\t", (const char *const[]){"--codec", "fedavg", "-n", "2", NULL});
    check("'a b' \"c 'd' \\\" e\" f\\ g''h", (const char *const[]){"a b", "c 'd' \" e", "f gh", NULL});
    check("'' a", (const char *const[]){"", "a", NULL});
    check("a b c d", (const char *const[]){"a", "b", "c", "d", NULL});
    check(" \n", (const char *const[]){NULL});
}

TEST(a_quotation_mark_without_its_other_one_is_refused)
{
    char program[] = "job_submit", *argv[] = {program, NULL}, **all, *words;
    int argc = 1;
    struct err e;

    assert_int_equal(options_add_words(&all, &words, &argc, argv, "--name 'a", &e), ERR_USAGE);
    assert_string_equal(e.text, "PSGD_OPTIONS: a quotation mark, ', has no other one");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_are_those_of_a_shell_and_come_before_the_command_line),
        cmocka_unit_test(a_quotation_mark_without_its_other_one_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
