#include "submit/sweep/sweep_folder.h"

#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/unit.h"

static struct err e;

TEST(a_folder_with_other_files_is_refused_and_left_as_it_is)
{
    struct options opt = {.simulate = true};
    struct sweep s = {.opt = &opt};
    const char *folder = unit_folder();
    char path[PATH_MAX];

    snprintf(opt.output, sizeof opt.output, "%s", folder);
    assert_ok(file_join(path, sizeof path, folder, "runs", &e));
    assert_int_equal(mkdir(path, 0700), 0);
    assert_ok(sweep_open(&s, &e));
    assert_int_equal(sweep_begin(&s, &e), ERR_CONFLICT);
    assert_error_has("has other files, as runs, and no sweep");
    sweep_close(&s);
    assert_int_equal(rmdir(path), 0);
    assert_ok(file_join(path, sizeof path, folder, "sweep.json.tmp.99999999",
                        &e)); /* of a process that has ended */
    assert_ok(file_write(path, "", 0, 0600, &e));
    assert_ok(sweep_open(&s, &e));
    assert_ok(sweep_begin(&s, &e));
    sweep_close(&s);
    assert_ok(sweep_open(&s, &e));
    assert_ok(sweep_begin(&s, &e)); /* it goes on */
    sweep_close(&s);
    unit_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_folder_with_other_files_is_refused_and_left_as_it_is),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
