#include "shared/job/data_place.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shared/base/file.h"
#include "tests/unit/unit.h"

enum { LARGE = 6 << 20 };

static struct err e;

static void write_file(const char *path, const void *bytes, size_t n)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);

    assert_true(fd >= 0 && write(fd, bytes, n) == (ssize_t)n);
    close(fd);
}

TEST(a_path_is_absolute_and_has_no_parts_that_lead_elsewhere)
{
    static const char *const good[] = {"/a", "/data/set.safetensors", "/data/..b/.c"};
    static const char *const bad[] = {"",    "/",       "a",   "a/b",  "//a", "/a//b",
                                      "/a/", "/a/../b", "/..", "/a/.", "/./a"};
    char longest[DATA_PATH_MAX + 1];

    for (size_t i = 0; i < N_OF(good); i++)
        assert_ok(data_place_check(good[i], &e));
    for (size_t i = 0; i < N_OF(bad); i++)
        assert_int_equal(data_place_check(bad[i], &e), ERR_CONFIG);
    memset(longest, 'a', sizeof longest);
    longest[0] = '/';
    longest[DATA_PATH_MAX] = '\0';
    assert_int_equal(data_place_check(longest, &e), ERR_CONFIG);
    longest[DATA_PATH_MAX - 1] = '\0';
    assert_ok(data_place_check(longest, &e));
}

static int open_at(const char *dir, const char *name, const char *folders)
{
    char path[256];
    int fd;

    snprintf(path, sizeof path, "%s/%s", dir, name);
    fd = data_place_open(path, folders, &e);
    if (fd >= 0)
        close(fd);
    return fd >= 0 ? 0 : fd;
}

TEST(only_files_below_the_folders_are_opened_and_no_link_is_followed)
{
    const char *dir = unit_folder();
    char data[128], beside[128], folders[300], path[256];

    snprintf(data, sizeof data, "%s/data", dir);
    snprintf(beside, sizeof beside, "%s/data2", dir);
    assert_true(mkdir(data, 0700) == 0 && mkdir(beside, 0700) == 0);
    snprintf(path, sizeof path, "%s/in", data);
    assert_int_equal(mkdir(path, 0700), 0);
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", dir,
                 (const char *const[]){"data/set", "data/in/set", "data2/set"}[i]);
        write_file(path, "x", 1);
    }
    snprintf(path, sizeof path, "%s/link", data);
    assert_int_equal(symlink("set", path), 0);
    snprintf(path, sizeof path, "%s/up", data);
    assert_int_equal(symlink("../data2", path), 0);
    snprintf(path, sizeof path, "%s/pipe", data);
    assert_int_equal(mkfifo(path, 0600), 0);
    snprintf(folders, sizeof folders, "/no/such:%s/", data);

    assert_int_equal(open_at(dir, "data/set", folders), 0);
    assert_int_equal(open_at(dir, "data/in/set", folders), 0);
    assert_int_equal(open_at(dir, "data/set", "/"), 0);
    assert_int_equal(open_at(dir, "data2/set", folders), ERR_REFUSED); /* its name begins alike */
    assert_error_has("is in no folder of which this agent lets jobs read data");
    assert_int_equal(open_at(dir, "data/set", ""), ERR_REFUSED);
    assert_int_equal(open_at(dir, "data/../data/set", folders), ERR_CONFIG);
    assert_int_equal(open_at(dir, "data/link", folders), ERR_REFUSED);
    assert_error_has("\"link\" is a symbolic link or no folder; name the file itself");
    assert_int_equal(open_at(dir, "data/up/set", folders), ERR_REFUSED);
    assert_int_equal(open_at(dir, "data/set/set", folders), ERR_REFUSED);
    assert_int_equal(open_at(dir, "data/in", folders), ERR_REFUSED);
    assert_error_has("is no regular file");
    assert_int_equal(open_at(dir, "data/pipe", folders), ERR_REFUSED);
    assert_int_equal(open_at(dir, "data/none", folders), ERR_NOT_FOUND);
    assert_error_has("does not exist on this machine");
    unit_remove(dir);
}

TEST(another_users_file_is_read_only_if_everybody_may)
{
    const char *dir = unit_folder();
    char path[256];

    snprintf(path, sizeof path, "%s/set", dir);
    write_file(path, "x", 1);
    if (chown(path, 12345, 12345) == 0) { /* root runs the test */
        assert_int_equal(open_at(dir, "set", dir), 0);
        assert_int_equal(chmod(path, 0640), 0);
        assert_int_equal(open_at(dir, "set", dir), ERR_REFUSED);
        assert_error_has("belongs to another user (12345), and not everybody may read it");
    }
    unit_remove(dir);
}

static void fingerprint(char out[DATA_FINGERPRINT], const char *path, const void *bytes, size_t n)
{
    int fd;

    write_file(path, bytes, n);
    fd = open(path, O_RDONLY);
    assert_true(fd >= 0);
    assert_ok(data_place_fingerprint(out, fd, path, &e));
    close(fd);
}

TEST(a_fingerprint_tells_files_apart_by_length_head_end_and_places_between)
{
    const char *dir = unit_folder();
    unsigned char *bytes = calloc(1, LARGE);
    char path[256], one[DATA_FINGERPRINT], other[DATA_FINGERPRINT];
    static const size_t changed[] = {0, 1 << 20, LARGE - 1, 3 << 20};
    int fd;

    assert_non_null(bytes);
    snprintf(path, sizeof path, "%s/set", dir);
    fingerprint(one, path, bytes, LARGE);
    fingerprint(other, path, bytes, LARGE);
    assert_string_equal(one, other);
    assert_int_equal(strncmp(one, "6291456:", 8), 0);
    for (size_t i = 0; i < N_OF(changed); i++) { /* 6 MiB have 1,024 places of 4 KiB: all 5 MiB but a fifth */
        memset(bytes + changed[i] / 8192 * 8192, 1, changed[i] == LARGE - 1 ? 8192 : 4096);
        fingerprint(other, path, bytes, LARGE);
        assert_string_not_equal(one, other);
        memset(bytes, 0, LARGE);
    }
    fingerprint(other, path, bytes, LARGE - 1);
    assert_string_not_equal(one, other);
    fd = open(path, O_RDONLY);
    assert_ok(data_place_compare(fd, path, other, &e));
    assert_int_equal(data_place_compare(fd, path, one, &e), ERR_CONFIG);
    assert_error_has("has 6291455 bytes here, and 6291456 where the job was submitted");
    other[20] = other[20] == '0' ? '1' : '0';
    assert_int_equal(data_place_compare(fd, path, other, &e), ERR_CONFIG);
    assert_error_has("has other contents here than where the job was submitted");
    assert_int_equal(data_place_compare(fd, path, "", &e), ERR_CONFIG);
    close(fd);
    fingerprint(one, path, "", 0);
    assert_int_equal(strncmp(one, "0:", 2), 0);
    free(bytes);
    unit_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_path_is_absolute_and_has_no_parts_that_lead_elsewhere),
        cmocka_unit_test(only_files_below_the_folders_are_opened_and_no_link_is_followed),
        cmocka_unit_test(another_users_file_is_read_only_if_everybody_may),
        cmocka_unit_test(a_fingerprint_tells_files_apart_by_length_head_end_and_places_between),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
