#include "agent/jobs/blob.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "shared/base/clock.h"
#include "tests/unit/unit.h"

static const char foo[] = "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae";

static void put(struct blob_store *s, char hex[SHA256_HEX], const void *bytes, size_t len)
{
    struct blob_upload u;
    struct err e;

    sha256_hex(hex, bytes, len);
    assert_ok(blob_begin(&u, s, hex, len, &e));
    assert_ok(blob_add(&u, s, bytes, len / 2));
    assert_ok(blob_add(&u, s, (const char *)bytes + len / 2, len - len / 2));
    assert_ok(blob_end(&u, s, &e));
}

static size_t count_files(const char *folder)
{
    char command[256];
    FILE *p;
    int n = -1;

    snprintf(command, sizeof command, "ls -A %s | wc -l", folder);
    p = popen(command, "r");
    assert_non_null(p);
    assert_int_equal(fscanf(p, "%d", &n), 1);
    pclose(p);
    return (size_t)n;
}

TEST(a_blob_is_stored_read_only_under_its_digest)
{
    const char *folder = unit_folder();
    struct blob_store s;
    struct stat st;
    struct err e;
    char hex[SHA256_HEX], path[256];

    assert_ok(blob_store_open(&s, folder, 1 << 20, &e));
    assert_int_equal(blob_size(&s, foo), -1);
    put(&s, hex, "foo", 3);
    assert_string_equal(hex, foo);
    assert_int_equal(blob_size(&s, foo), 3);
    snprintf(path, sizeof path, "%s/%s", folder, foo);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0400);
    put(&s, hex, "foo", 3); /* repeating it is harmless */
    assert_int_equal(count_files(folder), 1);
    put(&s, hex, "", 0);
    assert_int_equal(blob_size(&s, hex), 0);
    blob_store_close(&s);
    unit_remove(folder);
}

TEST(bytes_that_do_not_match_the_digest_leave_no_file)
{
    const char *folder = unit_folder();
    struct blob_store s;
    struct blob_upload u;
    struct err e;

    assert_ok(blob_store_open(&s, folder, 1 << 20, &e));
    assert_ok(blob_begin(&u, &s, foo, 3, &e));
    assert_ok(blob_add(&u, &s, "fop", 3));
    assert_int_equal(blob_end(&u, &s, &e), ERR_CONFIG);
    assert_ok(blob_begin(&u, &s, foo, 3, &e));
    blob_drop(&u, &s); /* the sender disconnected */
    blob_drop(&u, &s);
    assert_int_equal(count_files(folder), 0);
    blob_store_close(&s);
    unit_remove(folder);
}

TEST(only_a_digest_becomes_a_file_name)
{
    static const char *const names[] = {
        "",
        "..",
        "../../etc/passwd",
        "2C26B46B68FFC68FF99B453C1D30413413422D706483BFA0F98A5E886266E7AE",
        "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7a",
        "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7aee",
        "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e88626/e7ae",
    };
    const char *folder = unit_folder();
    struct blob_store s;
    struct blob_upload u;
    struct err e;

    assert_ok(blob_store_open(&s, folder, 1 << 20, &e));
    for (size_t i = 0; i < N_OF(names); i++) {
        assert_int_equal(blob_size(&s, names[i]), -1);
        assert_int_equal(blob_begin(&u, &s, names[i], 3, &e), ERR_CONFIG);
        assert_int_equal(blob_link(&s, names[i], AT_FDCWD, "/tmp/never", &e), ERR_NOT_FOUND);
    }
    blob_store_close(&s);
    unit_remove(folder);
}

TEST(bytes_in_memory_are_stored_as_those_of_an_upload)
{
    const char *folder = unit_folder();
    struct blob_store s;
    struct stat st;
    struct err e;
    char hex[SHA256_HEX], path[256];

    assert_ok(blob_store_open(&s, folder, 1 << 20, &e));
    for (int i = 0; i < 2; i++) { /* repeating it is harmless */
        assert_ok(blob_put(&s, hex, "foo", 3, &e));
        assert_string_equal(hex, foo);
        assert_int_equal(blob_size(&s, foo), 3);
    }
    assert_int_equal(count_files(folder), 1);
    snprintf(path, sizeof path, "%s/%s", folder, foo);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0400);
    blob_store_close(&s);
    unit_remove(folder);
}

TEST(partial_blobs_are_removed_after_a_crash)
{
    const char *folder = unit_folder();
    struct blob_store s;
    struct blob_upload u;
    struct err e;

    assert_ok(blob_store_open(&s, folder, 1 << 20, &e));
    assert_ok(blob_begin(&u, &s, foo, 3, &e));
    assert_ok(blob_add(&u, &s, "fo", 2));
    sha256_end(u.sum, NULL);
    close(u.fd);
    blob_store_close(&s);
    assert_int_equal(count_files(folder), 1);
    assert_ok(blob_store_open(&s, folder, 1 << 20, &e));
    assert_int_equal(count_files(folder), 0);
    blob_store_close(&s);
    unit_remove(folder);
}

static time_t offset_s; /* of the wall clock */

/* In place of the C library's. */
int clock_gettime(clockid_t id, struct timespec *t)
{
    int rc = (int)syscall(SYS_clock_gettime, id, t);

    if (id == CLOCK_REALTIME)
        t->tv_sec += offset_s;
    return rc;
}

static void use_at(struct blob_store *s, const char *hex, double at)
{
    const struct timespec used[2] = {{.tv_sec = (time_t)at}, {.tv_sec = (time_t)at}};

    assert_int_equal(utimensat(s->dir_fd, hex, used, 0), 0);
}

static int link_error; /* of each linkat(); 0: the system's */

/* In place of the C library's: on a file system without hard links. */
int linkat(int from_dir, const char *from, int to_dir, const char *to, int flags)
{
    if (link_error) {
        errno = link_error;
        return -1;
    }
    return (int)syscall(SYS_linkat, from_dir, from, to_dir, to, flags);
}

static void link_and_replace(void)
{
    const char *folder = unit_folder();
    char hex[2][SHA256_HEX], path[256], here[256];
    struct blob_store s;
    struct stat st;
    struct err e;

    snprintf(path, sizeof path, "%s/blobs", folder);
    snprintf(here, sizeof here, "%s/package", folder);
    assert_ok(blob_store_open(&s, path, 1000, &e));
    put(&s, hex[0], "one", 3);
    put(&s, hex[1], "other", 5);
    assert_ok(blob_link(&s, hex[0], AT_FDCWD, here, &e));
    assert_ok(blob_link(&s, hex[0], AT_FDCWD, here, &e));
    assert_int_equal(count_files(folder), 2);
    assert_ok(blob_link(&s, hex[1], AT_FDCWD, here, &e));
    assert_int_equal(stat(here, &st), 0);
    assert_int_equal(st.st_size, 5);
    assert_int_equal(st.st_mode & 07777, 0400);
    assert_int_equal(count_files(folder), 2);
    blob_store_close(&s);
    unit_remove(folder);
}

TEST(a_blob_replaces_the_file_of_another_at_once_and_its_own_link)
{
    link_and_replace();
}

TEST(where_there_are_no_hard_links_blobs_are_copied)
{
    static const int errors[] = {EPERM, EXDEV, EOPNOTSUPP, EMLINK};
    char hex[SHA256_HEX], store[256], path[256];
    const char *folder;
    struct blob_store s;
    struct stat st;
    struct err e;

    for (size_t i = 0; i < N_OF(errors); i++) {
        link_error = errors[i];
        link_and_replace();
    }
    folder = unit_folder();
    snprintf(store, sizeof store, "%s/blobs", folder);
    snprintf(path, sizeof path, "%s/file", folder);
    assert_ok(file_write(path, "file", 4, 0600, &e));
    sha256_hex(hex, "file", 4);
    assert_ok(blob_store_open(&s, store, 1000, &e));
    assert_ok(blob_take(&s, hex, path, &e));
    assert_int_equal(blob_size(&s, hex), 4);
    assert_ok(blob_take(&s, hex, "/never/read", &e));
    assert_int_equal(count_files(store), 1);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_nlink, 1);
    link_error = EDQUOT;
    assert_true(blob_link(&s, hex, AT_FDCWD, store, &e) < 0);
    link_error = 0;
    blob_store_close(&s);
    unit_remove(folder);
}

TEST(the_least_recently_used_blobs_that_no_job_holds_are_evicted)
{
    const char *folder = unit_folder();
    struct blob_store s;
    struct err e;
    char hex[4][SHA256_HEX], path[256], text[100] = "";

    assert_ok(blob_store_open(&s, folder, 150, &e));
    for (int i = 0; i < 4; i++) {
        text[0] = (char)('a' + i);
        put(&s, hex[i], text, sizeof text);
        use_at(&s, hex[i], clock_now() - 1000 + i);
    }
    snprintf(path, sizeof path, "%s/held", folder);
    assert_ok(blob_link(&s, hex[1], AT_FDCWD, path, &e));
    blob_size(&s, hex[0]); /* the oldest one was just used */
    offset_s = 7200;       /* the wall clock is set two hours forward */
    blob_trim(&s, 3600);   /* all were used since */
    assert_int_equal(count_files(folder), 5);
    offset_s = -7200;
    blob_trim(&s, 60);
    assert_int_equal(blob_size(&s, hex[0]), 100);
    assert_int_equal(blob_size(&s, hex[1]), 100);
    assert_int_equal(blob_size(&s, hex[2]), -1);
    assert_int_equal(blob_size(&s, hex[3]), -1);
    blob_store_close(&s);
    unit_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_blob_is_stored_read_only_under_its_digest),
        cmocka_unit_test(bytes_that_do_not_match_the_digest_leave_no_file),
        cmocka_unit_test(only_a_digest_becomes_a_file_name),
        cmocka_unit_test(bytes_in_memory_are_stored_as_those_of_an_upload),
        cmocka_unit_test(partial_blobs_are_removed_after_a_crash),
        cmocka_unit_test(a_blob_replaces_the_file_of_another_at_once_and_its_own_link),
        cmocka_unit_test(where_there_are_no_hard_links_blobs_are_copied),
        cmocka_unit_test(the_least_recently_used_blobs_that_no_job_holds_are_evicted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
