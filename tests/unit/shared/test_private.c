#include "shared/base/private.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/unit.h"

enum { SOMEBODY_ELSE = 4711 };

TEST(a_secret_that_others_can_read_or_write_is_refused)
{
    static const int refused[] = {0644, 0640, 0620, 0602, 0601}, read[] = {0600, 0400};
    const char *folder = unit_folder();
    char path[128], *text;
    size_t len;
    struct err e;

    snprintf(path, sizeof path, "%s/secret", folder);
    assert_int_equal(private_read(&text, &len, path, 64, &e), ERR_NOT_FOUND);
    assert_ok(file_write(path, "secret", 6, 0600, &e));
    for (size_t i = 0; i < N_OF(refused); i++) {
        assert_int_equal(chmod(path, (mode_t)refused[i]), 0);
        assert_int_equal(private_read(&text, &len, path, 64, &e), ERR_AUTH);
        assert_error_has("can be read by others");
    }
    for (size_t i = 0; i < N_OF(read); i++) {
        assert_int_equal(chmod(path, (mode_t)read[i]), 0);
        assert_ok(private_read(&text, &len, path, 64, &e));
        assert_string_equal(text, "secret");
        secret_free(text);
    }
    assert_int_equal(private_read(&text, &len, path, 5, &e), ERR_CONFIG);
    unit_remove(folder);
}

TEST(a_folder_that_others_can_write_to_is_refused_and_so_is_one_below_it)
{
    const char *folder = unit_folder(); /* in /tmp, which is sticky */
    char path[128], below[192];
    struct err e;

    snprintf(path, sizeof path, "%s/a", folder);
    snprintf(below, sizeof below, "%s/b", path);
    assert_ok(file_mkdirs(below, 0700, &e));
    assert_ok(private_folder(below, &e));
    assert_int_equal(chmod(path, 0777), 0);
    assert_int_equal(private_folder(path, &e), ERR_AUTH);
    assert_error_has("can be written to by others (mode 777)");
    assert_int_equal(private_folder(below, &e), ERR_AUTH);
    assert_error_has(path);
    assert_int_equal(chmod(path, 01777), 0); /* sticky: only the owner of `b` can replace it ... */
    assert_ok(private_folder(below, &e));
    assert_int_equal(private_folder(path, &e), ERR_AUTH); /* ... but others can put files beside it */
    assert_int_equal(chmod(path, 0770), 0);
    assert_ok(private_folder(below, &e)); /* the user's own group */
    unit_remove(folder);
}

TEST(a_file_that_all_may_read_is_one_that_others_cannot_change)
{
    static const int refused[] = {0646, 0602, 0777},
                     allowed[] = {0644, 0444, 0600, 0664 /* the user's own group */};
    const char *folder = unit_folder();
    char path[128], link[128];
    struct err e;

    snprintf(path, sizeof path, "%s/ca.pem", folder);
    snprintf(link, sizeof link, "%s/link", folder);
    assert_int_equal(guarded_file(path, &e), ERR_NOT_FOUND);
    assert_ok(file_write(path, "CA", 2, 0600, &e));
    assert_int_equal(symlink(path, link), 0);
    for (size_t i = 0; i < N_OF(allowed); i++) {
        assert_int_equal(chmod(path, (mode_t)allowed[i]), 0);
        assert_ok(guarded_file(path, &e));
    }
    for (size_t i = 0; i < N_OF(refused); i++) {
        assert_int_equal(chmod(path, (mode_t)refused[i]), 0);
        assert_int_equal(guarded_file(path, &e), ERR_AUTH);
        assert_error_has("ca.pem can be written to by others");
        assert_int_equal(guarded_file(link, &e), ERR_AUTH);
    }
    assert_int_equal(chmod(path, 0644), 0);
    assert_int_equal(chmod(folder, 0777), 0);
    assert_int_equal(guarded_file(path, &e), ERR_AUTH); /* another file could be put in its place */
    assert_int_equal(chmod(folder, 0700), 0);
    if (geteuid() == 0) { /* a file of root is accepted for every user, one of another user for none */
        assert_int_equal(chown(path, SOMEBODY_ELSE, SOMEBODY_ELSE), 0);
        assert_int_equal(guarded_file(path, &e), ERR_AUTH);
        assert_error_has("belongs to user 4711");
    }
    unit_remove(folder);
}

TEST(files_of_another_user_are_refused)
{
    const char *folder = unit_folder();
    char path[128], below[192], file[192], *text;
    size_t len;
    struct err e;

    snprintf(path, sizeof path, "%s/a", folder);
    snprintf(below, sizeof below, "%s/b", path);
    snprintf(file, sizeof file, "%s/secret", folder);
    assert_ok(file_mkdirs(below, 0700, &e));
    assert_ok(file_write(file, "secret", 6, 0600, &e));
    if (chown(path, SOMEBODY_ELSE, (gid_t)-1) < 0) {
        unit_remove(folder);
        skip(); /* only root gives files away */
    }
    assert_int_equal(private_folder(path, &e), ERR_AUTH);
    assert_error_has("belongs to user 4711, not to user 0");
    assert_int_equal(private_folder(below, &e), ERR_AUTH); /* its owner can rename it */
    assert_error_has(path);
    assert_int_equal(chown(file, SOMEBODY_ELSE, (gid_t)-1), 0);
    assert_int_equal(private_read(&text, &len, file, 64, &e), ERR_AUTH);
    assert_error_has("belongs to user 4711");
    assert_int_equal(chown(path, 0, (gid_t)-1), 0);
    unit_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_secret_that_others_can_read_or_write_is_refused),
        cmocka_unit_test(a_folder_that_others_can_write_to_is_refused_and_so_is_one_below_it),
        cmocka_unit_test(a_file_that_all_may_read_is_one_that_others_cannot_change),
        cmocka_unit_test(files_of_another_user_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
