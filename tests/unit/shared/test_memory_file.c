/* Copies of files in memory: effects of changes of the file, and files that cannot be copied. */
#include "shared/base/memory_file.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/unit.h"

enum { MOST = 1000 };

static int enter_folder(void **state)
{
    *state = (void *)(uintptr_t)unit_folder();
    return chdir(*state);
}

static int leave_folder(void **state)
{
    int rc = chdir("/");

    unit_remove(*state);
    return rc;
}

static void write_file(const char *path, const char *text)
{
    struct err e;

    assert_ok(file_write(path, text, strlen(text), 0600, &e));
}

TEST(a_copy_is_unchanged_when_its_file_is_rewritten_replaced_or_removed)
{
    char path[MEMORY_FILE_PATH], *bytes;
    struct err e = {0};
    size_t len;
    int fd, file;

    write_file("f", "what was checked");
    fd = memory_file_copy("f", MOST, &e);
    assert_true(fd >= 0);
    file = open("f", O_WRONLY | O_TRUNC | O_CLOEXEC);
    assert_int_equal(write(file, "another thing", 13), 13);
    close(file);
    write_file("f", "a third");
    assert_int_equal(unlink("f"), 0);
    memory_file_path(path, fd);
    assert_ok(file_read(&bytes, &len, path, MOST, &e));
    assert_string_equal(bytes, "what was checked");
    free(bytes);
    close(fd);
}

TEST(a_copy_cannot_be_written_or_truncated)
{
    struct err e = {0};
    int fd;

    write_file("f", "sealed");
    fd = memory_file_copy("f", MOST, &e);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, "x", 1, 0), -1);
    assert_int_equal(ftruncate(fd, 0), -1);
    assert_int_equal(ftruncate(fd, 100), -1);
    assert_ptr_equal(mmap(NULL, 6, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
    close(fd);
    assert_int_equal(unlink("f"), 0);
}

TEST(missing_overlong_and_special_files_cannot_be_copied)
{
    struct err e = {0};

    assert_int_equal(memory_file_copy("nowhere", MOST, &e), ERR_NOT_FOUND);
    assert_error_has("nowhere");
    assert_int_equal(memory_file_copy(".", MOST, &e), ERR_CONFIG);
    assert_int_equal(mkfifo("pipe", 0600), 0); /* no writer: a blocking open would never return */
    assert_int_equal(memory_file_copy("pipe", MOST, &e), ERR_CONFIG);
    assert_int_equal(unlink("pipe"), 0);
    write_file("f", "12345");
    assert_int_equal(memory_file_copy("f", 4, &e), ERR_CONFIG);
    assert_error_has("f: not a regular file of at most 4 bytes");
    assert_int_equal(unlink("f"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_copy_is_unchanged_when_its_file_is_rewritten_replaced_or_removed),
        cmocka_unit_test(a_copy_cannot_be_written_or_truncated),
        cmocka_unit_test(missing_overlong_and_special_files_cannot_be_copied),
    };

    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
