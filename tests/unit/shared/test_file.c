#include "shared/base/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/unit.h"

static int n_entries(const char *dir)
{
    DIR *d = opendir(dir);
    int n = -2; /* "." and ".." */

    assert_non_null(d);
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

TEST(a_file_is_read_with_a_terminating_zero_byte)
{
    const char *dir = unit_folder();
    char path[256];
    char *text;
    size_t len;
    struct err e;

    assert_ok(file_join(path, sizeof path, dir, "f", &e));
    assert_ok(file_write(path, "a\0b", 3, 0600, &e));
    assert_ok(file_read(&text, &len, path, 3, &e));
    assert_int_equal(len, 3);
    assert_memory_equal(text, "a\0b", 4);
    free(text);
    unit_remove(dir);
}

TEST(writing_replaces_a_file_and_its_mode_and_leaves_no_temporary_file)
{
    const char *dir = unit_folder();
    char path[256];
    char *text;
    struct stat st;
    size_t len;
    struct err e;

    assert_ok(file_join(path, sizeof path, dir, "f", &e));
    assert_ok(file_write(path, "a longer one", 12, 0644, &e));
    assert_ok(file_write(path, "short", 5, 0600, &e));
    assert_ok(file_read(&text, &len, path, 100, &e));
    assert_string_equal(text, "short");
    free(text);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(n_entries(dir), 1);
    unit_remove(dir);
}

TEST(a_file_written_without_sync_exists_and_can_be_synced_later)
{
    const char *dir = unit_folder();
    char path[256];
    char *text;
    size_t len;
    struct err e;

    assert_ok(file_join(path, sizeof path, dir, "f", &e));
    assert_int_equal(file_sync_bytes(path, &e), ERR_NOT_FOUND);
    assert_ok(file_write(path, "before", 6, 0600, &e));
    assert_ok(
        file_write_parts(path, (const struct iovec[]){{"la", 2}, {NULL, 0}, {"ter", 3}}, 3, 0600, false, &e));
    assert_ok(file_read(&text, &len, path, 10, &e));
    assert_string_equal(text, "later");
    free(text);
    assert_ok(file_sync_bytes(path, &e));
    assert_int_equal(n_entries(dir), 1);
    unit_remove(dir);
}

TEST(reading_refuses_missing_overlong_and_special_files)
{
    const char *dir = unit_folder();
    char path[256];
    char *text;
    size_t len;
    struct err e;

    assert_int_equal(file_read(&text, &len, dir, 100, &e), ERR_IO);
    assert_ok(file_join(path, sizeof path, dir, "none", &e));
    assert_int_equal(file_read(&text, &len, path, 100, &e), ERR_NOT_FOUND);
    assert_ok(file_join(path, sizeof path, dir, "f", &e));
    assert_ok(file_write(path, "four", 4, 0600, &e));
    assert_int_equal(file_read(&text, &len, path, 3, &e), ERR_CONFIG);
    assert_error_has("4 bytes, at most 3 are read");
    assert_ok(file_join(path, sizeof path, dir, "pipe", &e));
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(file_read(&text, &len, path, 100, &e), ERR_IO);
    unit_remove(dir);
}

TEST(writing_into_a_missing_folder_fails_and_reports_the_path)
{
    const char *dir = unit_folder();
    char path[256];
    struct err e;

    assert_ok(file_join(path, sizeof path, dir, "no/f", &e));
    assert_int_equal(file_write(path, "a", 1, 0600, &e), ERR_IO);
    assert_error_has(path);
    unit_remove(dir);
}

TEST(writing_to_a_pipe_or_a_symlink_keeps_it)
{
    const char *dir = unit_folder();
    char pipe[256], link[256];
    struct stat st;
    struct err e;

    assert_ok(file_join(pipe, sizeof pipe, dir, "pipe", &e));
    assert_ok(file_join(link, sizeof link, dir, "link", &e));
    assert_int_equal(mkfifo(pipe, 0600), 0);
    assert_int_equal(symlink("pipe", link), 0);
    assert_int_equal(file_write(pipe, "a", 1, 0600, &e), ERR_IO);
    assert_error_has("pipe: not a regular file, and left as it is");
    assert_int_equal(file_write(link, "a", 1, 0600, &e), ERR_IO);
    assert_int_equal(file_write(dir, "a", 1, 0600, &e), ERR_IO);
    assert_int_equal(lstat(pipe, &st), 0);
    assert_true(S_ISFIFO(st.st_mode));
    assert_int_equal(lstat(link, &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    assert_int_equal(n_entries(dir), 2);
    unit_remove(dir);
}

TEST(the_umask_applies_to_new_files_and_to_files_with_wider_modes)
{
    const char *dir = unit_folder();
    char path[256];
    struct stat st;
    struct err e;
    mode_t old;

    assert_ok(file_join(path, sizeof path, dir, "f", &e));
    assert_ok(file_write(path, "", 0, 0666, &e));
    old = umask(077);
    assert_ok(file_write(path, "", 0, 0644, &e));
    umask(old);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    unit_remove(dir);
}

TEST(folders_are_created_with_their_parents_and_existing_ones_accepted)
{
    const char *dir = unit_folder();
    char path[256];
    struct stat st;
    struct err e;

    assert_ok(file_join(path, sizeof path, dir, "a/b/c/", &e));
    assert_ok(file_mkdirs(path, 0700, &e));
    assert_ok(file_mkdirs(path, 0700, &e));
    assert_int_equal(stat(path, &st), 0);
    assert_true(S_ISDIR(st.st_mode));
    assert_int_equal(file_mkdirs("", 0700, &e), ERR_CONFIG);
    assert_ok(file_join(path, sizeof path, dir, "f", &e));
    assert_ok(file_write(path, "", 0, 0600, &e));
    assert_int_equal(file_mkdirs(path, 0700, &e), ERR_IO);
    unit_remove(dir);
}

TEST(removing_a_tree_does_not_follow_symlinks)
{
    char outside[64], path[256], inside[256], link[256];
    const char *dir;
    struct err e;

    snprintf(outside, sizeof outside, "%s", unit_folder());
    assert_ok(file_join(path, sizeof path, outside, "kept", &e));
    assert_ok(file_write(path, "", 0, 0600, &e));
    dir = unit_folder();
    assert_ok(file_join(inside, sizeof inside, dir, "x/y", &e));
    assert_ok(file_mkdirs(inside, 0700, &e));
    assert_ok(file_join(link, sizeof link, inside, "link", &e));
    assert_int_equal(symlink(outside, link), 0);
    assert_ok(file_remove_tree(dir, &e));
    assert_int_equal(access(dir, F_OK), -1);
    assert_int_equal(access(path, F_OK), 0);
    assert_ok(file_remove_tree(dir, &e));
    unit_remove(outside);
}

TEST(an_overlong_path_is_refused)
{
    char out[8];
    struct err e;

    assert_ok(file_join(out, sizeof out, "abc", "def", &e));
    assert_string_equal(out, "abc/def");
    assert_int_equal(file_join(out, sizeof out, "abcd", "def", &e), ERR_CONFIG);
}

TEST(temporary_files_of_ended_processes_are_removed_and_no_others)
{
    static const char *const kept[] = {"f", "f.tmp", "f.tmp.1", "f.tmp.x", "f.tmp.4194305.part"};
    static const char *const removed[] = {"f.tmp.4194305",
                                          "f.tmp.1.tmp.4194305"}; /* beyond the largest pid */
    const char *dir = unit_folder();
    char path[256];
    struct err e;

    for (size_t i = 0; i < N_OF(kept) + N_OF(removed); i++) {
        snprintf(path, sizeof path, "%s/%s", dir, i < N_OF(kept) ? kept[i] : removed[i - N_OF(kept)]);
        assert_ok(file_write(path, "x", 1, 0600, &e));
    }
    file_remove_temporary(dir);
    assert_int_equal(n_entries(dir), N_OF(kept));
    for (size_t i = 0; i < N_OF(kept); i++) {
        snprintf(path, sizeof path, "%s/%s", dir, kept[i]);
        assert_int_equal(access(path, F_OK), 0);
    }
    unit_remove(dir);
}

static bool is_a(const char *name)
{
    return strcmp(name, "a") == 0;
}

TEST(a_folder_is_emptied_but_for_what_is_kept_and_links_are_not_followed)
{
    const char *dir = unit_folder();
    char path[256], link[256];
    struct err e;

    snprintf(path, sizeof path, "%s/of/a/a", dir);
    assert_ok(file_mkdirs(path, 0700, &e));
    snprintf(path, sizeof path, "%s/out", dir);
    assert_ok(file_write(path, "x", 1, 0600, &e));
    snprintf(path, sizeof path, "%s/of/link", dir);
    assert_int_equal(symlink("../out", path), 0);
    snprintf(path, sizeof path, "%s/of/b", dir);
    assert_ok(file_write(path, "x", 1, 0600, &e));
    snprintf(path, sizeof path, "%s/of", dir);
    snprintf(link, sizeof link, "%s/to_of", dir);
    assert_int_equal(symlink("of", link), 0);
    assert_int_equal(file_keep_only(link, is_a), 0);
    assert_int_equal(n_entries(path), 3);
    assert_int_equal(file_keep_only(path, is_a), 3); /* the folder a is no file */
    assert_int_equal(n_entries(path), 0);
    snprintf(path, sizeof path, "%s/out", dir);
    assert_int_equal(file_keep_only(dir, is_a), 3);
    assert_ok(file_write(path, "x", 1, 0600, &e));
    snprintf(path, sizeof path, "%s/a", dir);
    assert_ok(file_write(path, "x", 1, 0600, &e));
    assert_int_equal(file_keep_only(dir, is_a), 1);
    assert_int_equal(access(path, F_OK), 0);
    assert_int_equal(file_keep_only("/nowhere", is_a), 0);
    unit_remove(dir);
}

TEST(a_file_extension_needs_a_name_before_it)
{
    assert_true(file_has_ending("mean.c", ".c"));
    assert_true(file_has_ending("/a/b.so", ".so"));
    assert_false(file_has_ending("mean.cc", ".c"));
    assert_false(file_has_ending(".c", ".c"));
    assert_false(file_has_ending("c", ".c"));
}

TEST(the_program_folder_contains_this_program)
{
    char dir[4096], path[4200], self[4096];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    struct err e;

    assert_true(n > 0);
    self[n] = '\0';
    assert_ok(file_exe_dir(dir, sizeof dir, &e));
    assert_ok(file_join(path, sizeof path, dir, strrchr(self, '/') + 1, &e));
    assert_string_equal(path, self);
    assert_int_equal(file_exe_dir(dir, 2, &e), ERR_CONFIG);
}

TEST(state_is_stored_in_xdg_state_home_or_in_home)
{
    char out[256];
    struct err e;

    setenv("XDG_STATE_HOME", "/somewhere", 1);
    assert_ok(file_state_dir(out, sizeof out, &e));
    assert_string_equal(out, "/somewhere/psgd");
    unsetenv("XDG_STATE_HOME");
    setenv("HOME", "/home/anna", 1);
    assert_ok(file_state_dir(out, sizeof out, &e));
    assert_string_equal(out, "/home/anna/.local/state/psgd");
    assert_int_equal(file_state_dir(out, 8, &e), ERR_CONFIG);
}

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

TEST(a_relative_path_becomes_absolute_also_at_the_root)
{
    char here[PATH_MAX], path[PATH_MAX];
    struct err e;

    assert_non_null(getcwd(here, sizeof here));
    assert_int_equal(chdir("/"), 0);
    assert_int_equal(file_absolute(path, sizeof path, "job", &e), 0);
    assert_int_equal(chdir(here), 0);
    assert_string_equal(path, "/job");
}

TEST(a_copy_is_unchanged_when_its_file_is_rewritten_replaced_or_removed)
{
    char path[FILE_FD_PATH], *bytes;
    struct err e = {0};
    size_t len;
    int fd, file;

    write_file("f", "what was checked");
    fd = file_copy_to_memory("f", MOST, &e);
    assert_true(fd >= 0);
    file = open("f", O_WRONLY | O_TRUNC | O_CLOEXEC);
    assert_int_equal(write(file, "another thing", 13), 13);
    close(file);
    write_file("f", "a third");
    assert_int_equal(unlink("f"), 0);
    file_fd_path(path, fd);
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
    fd = file_copy_to_memory("f", MOST, &e);
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

    assert_int_equal(file_copy_to_memory("nowhere", MOST, &e), ERR_NOT_FOUND);
    assert_error_has("nowhere");
    assert_int_equal(file_copy_to_memory(".", MOST, &e), ERR_CONFIG);
    assert_int_equal(mkfifo("pipe", 0600), 0); /* no writer: a blocking open would never return */
    assert_int_equal(file_copy_to_memory("pipe", MOST, &e), ERR_CONFIG);
    assert_int_equal(unlink("pipe"), 0);
    write_file("f", "12345");
    assert_int_equal(file_copy_to_memory("f", 4, &e), ERR_CONFIG);
    assert_error_has("f: not a regular file of at most 4 bytes");
    assert_int_equal(unlink("f"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_is_read_with_a_terminating_zero_byte),
        cmocka_unit_test(writing_replaces_a_file_and_its_mode_and_leaves_no_temporary_file),
        cmocka_unit_test(a_file_written_without_sync_exists_and_can_be_synced_later),
        cmocka_unit_test(reading_refuses_missing_overlong_and_special_files),
        cmocka_unit_test(writing_into_a_missing_folder_fails_and_reports_the_path),
        cmocka_unit_test(writing_to_a_pipe_or_a_symlink_keeps_it),
        cmocka_unit_test(the_umask_applies_to_new_files_and_to_files_with_wider_modes),
        cmocka_unit_test(folders_are_created_with_their_parents_and_existing_ones_accepted),
        cmocka_unit_test(removing_a_tree_does_not_follow_symlinks),
        cmocka_unit_test(an_overlong_path_is_refused),
        cmocka_unit_test(temporary_files_of_ended_processes_are_removed_and_no_others),
        cmocka_unit_test(a_folder_is_emptied_but_for_what_is_kept_and_links_are_not_followed),
        cmocka_unit_test(a_file_extension_needs_a_name_before_it),
        cmocka_unit_test(the_program_folder_contains_this_program),
        cmocka_unit_test(state_is_stored_in_xdg_state_home_or_in_home),
        cmocka_unit_test(a_relative_path_becomes_absolute_also_at_the_root),
        cmocka_unit_test_setup_teardown(a_copy_is_unchanged_when_its_file_is_rewritten_replaced_or_removed,
                                        enter_folder, leave_folder),
        cmocka_unit_test_setup_teardown(a_copy_cannot_be_written_or_truncated, enter_folder, leave_folder),
        cmocka_unit_test_setup_teardown(missing_overlong_and_special_files_cannot_be_copied, enter_folder,
                                        leave_folder),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
