#include "agent/access/isolation_probe.h"

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
    "\"lacks\":\"no "                                                                                        \
    "Landlock\"}'"

TEST(an_agent_reports_what_its_runner_answers_and_requires_files_of_foreign_codecs)
{
    const char *folder = unit_folder();
    struct agent_isolation is;
    char path[128];

    make_runner(path, folder, ANSWER);
    assert_ok(isolation_ask(&is, path, -1, &e));
    assert_int_equal(is.level, ISOLATION_PROCESS);
    assert_true(is.has_seccomp && !is.has_own_user && is.has_own_tree);
    assert_string_equal(is.lacks, "no Landlock");
    assert_int_equal(is.required, ISOLATION_FILES);
    unit_remove(folder);
}

TEST(an_agent_refuses_to_start_below_what_it_requires)
{
    const char *folder = unit_folder();
    struct agent_isolation is;
    char path[128];

    make_runner(path, folder, ANSWER);
    assert_ok(isolation_ask(&is, path, ISOLATION_PROCESS, &e));
    assert_int_equal(isolation_ask(&is, path, ISOLATION_FILES, &e), ERR_AUTH);
    assert_error_has("level process here, less than --require-isolation files: no Landlock");
    unit_remove(folder);
}

TEST(a_runner_that_cannot_answer_isolates_nothing)
{
    static const char *const answers[] = {"exit 1", "echo no JSON", "echo '{\"level\":\"strong\"}'",
                                          "kill $$"};
    const char *folder = unit_folder();
    struct agent_isolation is;
    char path[128];

    for (size_t i = 0; i < N_OF(answers); i++) {
        make_runner(path, folder, answers[i]);
        assert_ok(isolation_ask(&is, path, -1, &e));
        assert_int_equal(is.level, ISOLATION_NONE);
        assert_true(is.lacks[0]);
        assert_int_equal(isolation_ask(&is, path, ISOLATION_PROCESS, &e), ERR_AUTH);
    }
    assert_ok(isolation_ask(&is, "/nowhere/runner", -1, &e));
    assert_int_equal(is.level, ISOLATION_NONE);
    unit_remove(folder);
}

TEST(a_codec_needs_the_most_of_what_its_agent_and_its_submitter_require)
{
    const struct agent_isolation open = {.required = ISOLATION_FILES},
                                 strict = {.required = ISOLATION_PROCESS, .is_required = true},
                                 allows = {.required = ISOLATION_NONE, .is_required = true};

    assert_int_equal(isolation_for(&open, true, ISOLATION_NONE), ISOLATION_NONE);
    assert_int_equal(isolation_for(&open, false, ISOLATION_NONE), ISOLATION_FILES);
    assert_int_equal(isolation_for(&open, true, ISOLATION_USER), ISOLATION_USER);
    assert_int_equal(isolation_for(&strict, true, ISOLATION_NONE), ISOLATION_PROCESS);
    assert_int_equal(isolation_for(&allows, false, ISOLATION_NONE), ISOLATION_NONE);
    assert_int_equal(isolation_for(&allows, false, ISOLATION_PROCESS), ISOLATION_PROCESS);
}

TEST(a_refusal_states_what_the_machine_lacks_and_who_can_allow_it)
{
    const struct agent_isolation is = {
        .level = ISOLATION_PROCESS, .required = ISOLATION_FILES, .lacks = "no Landlock"};

    assert_ok(isolation_admit(&is, "mine", true, ISOLATION_NONE, &e));
    assert_int_equal(isolation_admit(&is, "mine", false, ISOLATION_NONE, &e), ERR_REFUSED);
    assert_error_has("codec mine needs isolation files, and this machine has process: no Landlock");
    assert_non_null(strstr(e.hint, "--require-isolation process allows it"));
    assert_int_equal(isolation_admit(&is, "mine", true, ISOLATION_USER, &e), ERR_REFUSED);
    assert_non_null(strstr(e.hint, "a lower --require-isolation"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_agent_reports_what_its_runner_answers_and_requires_files_of_foreign_codecs),
        cmocka_unit_test(an_agent_refuses_to_start_below_what_it_requires),
        cmocka_unit_test(a_runner_that_cannot_answer_isolates_nothing),
        cmocka_unit_test(a_codec_needs_the_most_of_what_its_agent_and_its_submitter_require),
        cmocka_unit_test(a_refusal_states_what_the_machine_lacks_and_who_can_allow_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
