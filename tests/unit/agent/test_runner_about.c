#include "agent/jobs/runner_about.h"

#include "tests/unit/unit.h"

static struct err e;

/* Makes a program that answers as job_runner --isolation does. */
static void make_runner(char path[128], const char *folder, const char *answer)
{
    char text[512];

    snprintf(path, 128, "%s/runner", folder);
    snprintf(text, sizeof text,
             "#!/bin/sh\n[ \"$1 $OPENBLAS_NUM_THREADS\" = '--isolation 1' ] || exit 3\n%s\n", answer);
    assert_ok(file_write(path, text, strlen(text), 0700, &e));
}

#define ANSWER                                                                                               \
    "echo "                                                                                                  \
    "'{\"level\":\"process\",\"landlock_abi\":0,\"seccomp\":true,\"own_user\":false,\"own_tree\":true,"      \
    "\"lacks\":\"no Landlock\",\"runner\":{\"engine\":\"an abacus\"}}'"

TEST(an_agent_reports_what_its_runner_answers_and_requires_files_of_foreign_codecs)
{
    const char *folder = unit_folder();
    struct agent_isolation is;
    struct runner_about about;
    char path[128];

    make_runner(path, folder, ANSWER);
    assert_ok(runner_about_ask(&about, &is, path, -1, &e));
    assert_int_equal(is.level, ISOLATION_PROCESS);
    assert_true(is.has_seccomp && !is.has_own_user && is.has_own_tree);
    assert_string_equal(is.lacks, "no Landlock");
    assert_int_equal(is.required, ISOLATION_FILES);
    assert_string_equal(json_string_value(json_object_get(about.facts, "engine")), "an abacus");
    runner_about_clear(&about);
    unit_remove(folder);
}

TEST(an_agent_refuses_to_start_below_what_it_requires)
{
    const char *folder = unit_folder();
    struct agent_isolation is;
    struct runner_about about;
    char path[128];

    make_runner(path, folder, ANSWER);
    assert_ok(runner_about_ask(&about, &is, path, ISOLATION_PROCESS, &e));
    runner_about_clear(&about);
    assert_int_equal(runner_about_ask(&about, &is, path, ISOLATION_FILES, &e), ERR_AUTH);
    assert_error_has("level process here, less than --require-isolation files: no Landlock");
    runner_about_clear(&about);
    unit_remove(folder);
}

TEST(a_runner_that_cannot_answer_isolates_nothing)
{
    static const char *const answers[] = {"exit 1", "echo no JSON", "echo '{\"level\":\"strong\"}'",
                                          "kill $$"};
    const char *folder = unit_folder();
    struct agent_isolation is;
    struct runner_about about;
    char path[128];

    for (size_t i = 0; i < N_OF(answers); i++) {
        make_runner(path, folder, answers[i]);
        assert_ok(runner_about_ask(&about, &is, path, -1, &e));
        assert_int_equal(is.level, ISOLATION_NONE);
        assert_true(is.lacks[0] && about.broken.code && !about.facts);
        assert_int_equal(runner_about_ask(&about, &is, path, ISOLATION_PROCESS, &e), ERR_AUTH);
    }
    snprintf(path, sizeof path, "/nowhere/runner");
    assert_ok(runner_about_ask(&about, &is, path, -1, &e));
    assert_int_equal(is.level, ISOLATION_NONE);
    unit_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_agent_reports_what_its_runner_answers_and_requires_files_of_foreign_codecs),
        cmocka_unit_test(an_agent_refuses_to_start_below_what_it_requires),
        cmocka_unit_test(a_runner_that_cannot_answer_isolates_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
