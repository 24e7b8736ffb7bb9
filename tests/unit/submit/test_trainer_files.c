#include "submit/trainer/trainer_files.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "tests/unit/unit.h"

static struct err e;
static char path[256];

/* A file below the folder, whose own folder is made. */
static const char *put(const char *dir, const char *name, const char *text, mode_t mode)
{
    char *slash;

    snprintf(path, sizeof path, "%s/%s", dir, name);
    slash = strrchr(path, '/');
    *slash = '\0';
    assert_ok(file_mkdirs(path, 0777, &e));
    *slash = '/';
    assert_ok(file_write(path, text, strlen(text), mode, &e));
    return path;
}

static const char *put_link(const char *dir, const char *name)
{
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return path;
}

static int read_folder_of(const char *dir, const char *main, struct trainer_files *f)
{
    return trainer_files_read(f, dir, main, &e);
}

TEST(a_file_is_a_program_of_one_file)
{
    const char *dir = unit_folder();
    struct trainer_files f;

    assert_ok(trainer_files_read(&f, put(dir, "train.py", "import psgd\n", 0644), "", &e));
    assert_int_equal(f.n, 1);
    assert_false(f.is_folder);
    assert_true(f.main.is_python);
    assert_string_equal(f.main.file, "train.py");
    assert_string_equal(f.files[0].name, "train.py");
    assert_memory_equal(f.files[0].bytes, "import psgd\n", f.files[0].len);
    trainer_files_clear(&f);
    assert_int_equal(trainer_files_read(&f, path, "other.py", &e), ERR_USAGE);
    unit_remove(dir);
}

TEST(a_folder_is_read_without_what_tools_leave_in_it)
{
    static const char *const names[] = {"lib/data.txt", "lib/mlp.py", "main.py"};
    const char *dir = unit_folder();
    struct trainer_files f;

    put(dir, "main.py", "", 0644);
    put(dir, "lib/mlp.py", "", 0644);
    put(dir, "lib/data.txt", "12345", 0644);
    put(dir, ".git/config", "", 0644);
    put(dir, ".venv/bin/python", "", 0755);
    put(dir, "lib/__pycache__/mlp.pyc", "", 0644);
    put(dir, "logs/20260101/run.json", "{}", 0644);
    assert_int_equal(symlink("20260101", put_link(dir, "logs/latest")), 0);
    put(dir, "lib/out/run.json", "{}", 0644);
    put(dir, "lib/out/records/train.csv", "", 0644);
    assert_ok(read_folder_of(dir, "", &f));
    assert_int_equal(f.n, N_OF(names));
    for (size_t i = 0; i < N_OF(names); i++)
        assert_string_equal(f.files[i].name, names[i]);
    assert_int_equal(f.bytes, 5);
    assert_true(strstr(f.results, "logs") && strstr(f.results, "lib/out"));
    assert_true(f.is_folder);
    assert_string_equal(f.main.file, "main.py");
    trainer_files_clear(&f);
    assert_ok(read_folder_of(dir, "lib/mlp.py", &f));
    assert_string_equal(f.main.file, "lib/mlp.py");
    trainer_files_clear(&f);
    unit_remove(dir);
}

TEST(what_is_run_must_be_python_or_executable)
{
    const char *dir = unit_folder();
    struct trainer_files f;

    assert_int_equal(trainer_files_read(&f, put(dir, "train", "#!", 0644), "", &e), ERR_CONFIG);
    assert_error_has("neither a .py file nor executable");
    assert_int_equal(chmod(path, 0755), 0);
    assert_ok(trainer_files_read(&f, path, "", &e));
    assert_false(f.main.is_python);
    assert_true(f.files[0].is_executable);
    trainer_files_clear(&f);
    assert_int_equal(read_folder_of(dir, "", &f), ERR_NOT_FOUND);
    assert_error_has("there is no file main.py in it");
    assert_int_equal(read_folder_of(put_link(dir, "none.py"), "", &f), ERR_NOT_FOUND);
    assert_error_has("none.py: there is no such file or folder in /");
    unit_remove(dir);
}

TEST(a_link_and_what_is_no_file_are_refused)
{
    const char *dir = unit_folder();
    struct trainer_files f;

    put(dir, "main.py", "", 0644);
    snprintf(path, sizeof path, "%s/data", dir);
    assert_int_equal(symlink("/etc/passwd", path), 0);
    assert_int_equal(read_folder_of(dir, "", &f), ERR_CONFIG);
    assert_error_has("data is a symbolic link");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(read_folder_of(dir, "", &f), ERR_CONFIG);
    assert_error_has("data: neither a regular file nor a folder");
    unit_remove(dir);
}

TEST(a_program_has_at_most_1000_files_and_64_mib)
{
    const char *dir = unit_folder();
    struct trainer_files f;
    char name[32];
    int fd;

    put(dir, "main.py", "", 0644);
    for (int i = 1; i < TRAINER_FILES_MAX; i++) {
        snprintf(name, sizeof name, "f%d", i);
        put(dir, name, "", 0644);
    }
    assert_ok(read_folder_of(dir, "", &f));
    trainer_files_clear(&f);
    put(dir, "one-more", "", 0644);
    assert_int_equal(read_folder_of(dir, "", &f), ERR_CONFIG);
    assert_error_has("a program may have 1000 files, and this folder has more");
    assert_int_equal(unlink(path), 0);
    fd = open(path, O_WRONLY | O_CREAT, 0644);
    assert_int_equal(ftruncate(fd, TRAINER_BYTES_MAX + 1), 0);
    close(fd);
    snprintf(path, sizeof path, "%s/f1", dir);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(read_folder_of(dir, "", &f), ERR_CONFIG);
    assert_error_has("one-more has");
    unit_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_is_a_program_of_one_file),
        cmocka_unit_test(a_folder_is_read_without_what_tools_leave_in_it),
        cmocka_unit_test(what_is_run_must_be_python_or_executable),
        cmocka_unit_test(a_link_and_what_is_no_file_are_refused),
        cmocka_unit_test(a_program_has_at_most_1000_files_and_64_mib),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
