#include "agent/access/trainer_policy.h"

#include <sys/stat.h>

#include "tests/unit/unit.h"

#define LISTED   "1111111111111111111111111111111111111111111111111111111111111111"
#define UNLISTED "2222222222222222222222222222222222222222222222222222222222222222"

static struct err e;

static void set_options(struct agent_options *o, const char *folder, enum trainer_policy policy)
{
    *o = (struct agent_options){.trainers = (int)policy};
    snprintf(o->dir, sizeof o->dir, "%s", folder);
}

static void write_in(const char *folder, const char *name, const char *text, mode_t mode)
{
    char path[128];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_ok(file_write(path, text, strlen(text), mode, &e));
}

TEST(each_policy_allows_what_it_states_and_refuses_the_rest_with_what_allows_it)
{
    const char *folder = unit_folder();
    struct agent_options o;
    struct trainer_rules r;

    write_in(folder, "trainers.allow", LISTED "  trainer.safetensors\n", 0600);
    set_options(&o, folder, TRAINERS_NONE);
    assert_ok(trainer_rules_set(&r, &o, &e));
    assert_int_equal(trainer_admit(&r, "train.py", LISTED, &e), ERR_TRAINER);
    assert_error_has("this agent runs no training programs, and so not train.py (--trainers none)");
    assert_non_null(strstr(e.hint, "--trainers allowlist, or any"));
    assert_int_equal(trainer_admit(&r, "train.py", "", &e), ERR_TRAINER);

    set_options(&o, folder, TRAINERS_ALLOWLIST);
    assert_ok(trainer_rules_set(&r, &o, &e));
    assert_ok(trainer_admit(&r, "train.py", LISTED, &e));
    assert_ok(trainer_admit(&r, "train.py", "", &e));
    assert_int_equal(trainer_admit(&r, "train.py", UNLISTED, &e), ERR_TRAINER);
    assert_error_has("train.py (its package has SHA-256 " UNLISTED ") is not on this agent's list");
    assert_non_null(strstr(e.hint, "add a line with " UNLISTED " to "));
    assert_non_null(strstr(e.hint, "/trainers.allow on that agent's machine"));

    set_options(&o, folder, TRAINERS_ANY);
    assert_ok(trainer_rules_set(&r, &o, &e));
    assert_ok(trainer_admit(&r, "train.py", UNLISTED, &e));
    unit_remove(folder);
}

TEST(a_list_that_others_can_write_allows_nothing)
{
    const char *folder = unit_folder();
    struct agent_options o;
    struct trainer_rules r;

    set_options(&o, folder, TRAINERS_ALLOWLIST);
    snprintf(o.trainer_list, sizeof o.trainer_list, "%s/mine", folder);
    write_in(folder, "mine", LISTED, 0600);
    assert_ok(trainer_rules_set(&r, &o, &e));
    assert_ok(trainer_admit(&r, "train.py", LISTED, &e));
    assert_int_equal(chmod(o.trainer_list, 0620), 0);
    assert_int_equal(trainer_admit(&r, "train.py", LISTED, &e), ERR_TRAINER);
    assert_error_has("can be written by others (mode 620)");
    unit_remove(folder);
}

TEST(the_interpreter_is_the_one_named_or_python3_of_the_path)
{
    const char *folder = unit_folder();
    char *before = strdup(getenv("PATH")), path[128], own[128];
    struct agent_options o;
    struct trainer_rules r;

    setenv("PATH", "/nowhere", 1);
    set_options(&o, folder, TRAINERS_ANY);
    assert_ok(trainer_rules_set(&r, &o, &e));
    assert_string_equal(r.python, ""); /* a program in C needs none */

    write_in(folder, "python3", "#!/bin/sh\n", 0700);
    write_in(folder, "python3.9", "#!/bin/sh\n", 0700);
    write_in(folder, "data", "", 0600);
    snprintf(path, sizeof path, "/nowhere:%s", folder);
    setenv("PATH", path, 1);
    assert_ok(trainer_rules_set(&r, &o, &e));
    snprintf(own, sizeof own, "%s/python3", folder);
    assert_string_equal(r.python, own);
    strcpy(o.trainer_python, "python3.9");
    assert_ok(trainer_rules_set(&r, &o, &e));
    snprintf(own, sizeof own, "%s/python3.9", folder);
    assert_string_equal(r.python, own);

    assert_int_equal(chdir(folder), 0);
    assert_int_equal(symlink("python3.9", "link"), 0);
    strcpy(o.trainer_python, "./link");
    assert_ok(trainer_rules_set(&r, &o, &e));
    assert_int_equal(r.python[0], '/');
    assert_true(file_has_ending(r.python, "/link")); /* of a virtual environment: not resolved */
    assert_int_equal(chdir("/"), 0);

    snprintf(o.trainer_python, sizeof o.trainer_python, "%s/data", folder);
    assert_int_equal(trainer_rules_set(&r, &o, &e), ERR_USAGE);
    assert_error_has("/data: there is no such program");
    strcpy(o.trainer_python, folder);
    assert_int_equal(trainer_rules_set(&r, &o, &e), ERR_USAGE);
    strcpy(o.trainer_python, "python9");
    assert_int_equal(trainer_rules_set(&r, &o, &e), ERR_USAGE);
    setenv("PATH", before, 1);
    free(before);
    unit_remove(folder);
}

TEST(programs_are_confined_only_where_the_kernel_can)
{
    const char *folder = unit_folder();
    struct agent_options o = {
        .trainers = TRAINERS_ANY, .trainer_isolation = TRAINER_ISOLATION_FILES, .trainer_data = "/no/such"};
    const struct agent_isolation none = {.lacks = "this kernel has no Landlock"},
                                 files = {.landlock_abi = 1, .lacks = "only root can"},
                                 user = {.landlock_abi = 1, .has_own_user = true, .has_own_tree = true},
                                 no_tree = {.landlock_abi = 1, .has_own_user = true};
    struct trainer_rules r;

    snprintf(o.dir, sizeof o.dir, "%s", folder);
    assert_int_equal(trainer_rules_set(&r, &o, &e), ERR_USAGE);
    assert_error_has("--trainer-data /no/such: there is no such folder");
    snprintf(o.trainer_data, sizeof o.trainer_data, "%s", folder);
    assert_ok(trainer_rules_set(&r, &o, &e));
    assert_string_equal(r.data, folder);
    assert_ok(trainer_rules_check(&r, &files, &e));
    assert_int_equal(trainer_rules_check(&r, &none, &e), ERR_AUTH);
    assert_error_has("this kernel has no Landlock");
    r.isolation = TRAINER_ISOLATION_USER;
    assert_ok(trainer_rules_check(&r, &user, &e));
    assert_int_equal(trainer_rules_check(&r, &files, &e), ERR_AUTH);
    assert_error_has("--trainer-isolation user");
    assert_error_has("only root can");
    assert_int_equal(trainer_rules_check(&r, &no_tree, &e), ERR_AUTH);
    assert_error_has("a namespace of mounts");
    r.policy = TRAINERS_NONE;
    assert_ok(trainer_rules_check(&r, &none, &e));
    r = (struct trainer_rules){.policy = TRAINERS_ANY};
    assert_ok(trainer_rules_check(&r, &none, &e));
    unit_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_policy_allows_what_it_states_and_refuses_the_rest_with_what_allows_it),
        cmocka_unit_test(a_list_that_others_can_write_allows_nothing),
        cmocka_unit_test(the_interpreter_is_the_one_named_or_python3_of_the_path),
        cmocka_unit_test(programs_are_confined_only_where_the_kernel_can),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
