#include "agent/access/data_folders.h"

#include <sys/stat.h>

#include "tests/unit/unit.h"

static struct err e;

static int set(char out[DATA_FOLDERS_MAX], const char *one, const char *two)
{
    const char *const named[] = {one, two, NULL};

    return data_folders_set(out, named, &e);
}

TEST(folders_are_absolute_and_exist)
{
    const char *dir = unit_folder();
    char out[DATA_FOLDERS_MAX], expected[300], odd[128];

    assert_ok(set(out, NULL, NULL));
    assert_string_equal(out, "");
    assert_ok(set(out, dir, "/"));
    snprintf(expected, sizeof expected, "%s:/", dir);
    assert_string_equal(out, expected);
    assert_int_equal(set(out, "/no/such", NULL), ERR_USAGE);
    assert_error_has("--data-folder /no/such: there is no such folder");
    assert_int_equal(set(out, "/dev/null", NULL), ERR_USAGE);
    snprintf(odd, sizeof odd, "%s/a:b", dir);
    assert_int_equal(mkdir(odd, 0700), 0);
    assert_int_equal(set(out, dir, odd), ERR_USAGE);
    unit_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(folders_are_absolute_and_exist)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
