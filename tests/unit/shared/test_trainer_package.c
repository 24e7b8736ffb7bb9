#include "shared/trainer/trainer_package.h"

#include <sys/stat.h>

#include "shared/trainer/trainer_command.h"
#include "shared/trainer/trainer_wire.h"
#include "tests/unit/unit.h"

static struct err e;

static void write_program(const char *path, const struct trainer_file *files, size_t n, const char *main)
{
    struct trainer_main m = {.is_python = file_has_ending(main, ".py")};

    snprintf(m.file, sizeof m.file, "%s", main);
    assert_ok(trainer_package_write(path, files, n, &m, &e));
}

static int unpack_one(const char *name, const char *main)
{
    const char *dir = unit_folder();
    struct trainer_file file = {.bytes = "x", .len = 1};
    char package[128], folder[128], outside[128];
    struct trainer_main m;
    int rc;

    snprintf(file.name, sizeof file.name, "%s", name);
    snprintf(package, sizeof package, "%s/p.safetensors", dir);
    snprintf(folder, sizeof folder, "%s/program", dir);
    snprintf(outside, sizeof outside, "%s/outside", dir);
    write_program(package, &file, 1, main);
    rc = trainer_package_unpack(&m, package, folder, &e);
    assert_int_equal(access(outside, F_OK), -1);
    unit_remove(dir);
    return rc;
}

TEST(a_program_is_unpacked_as_it_was_packed)
{
    const char *dir = unit_folder();
    const struct trainer_file files[] = {
        {.name = "main.py", .bytes = "print(1)\n", .len = 9},
        {.name = "lib/deep/__init__.py", .bytes = "", .len = 0},
        {.name = "lib/tool", .bytes = "#!", .len = 2, .is_executable = true}};
    char package[128], folder[128], path[TENSOR_NAME + 128];
    struct trainer_main main;
    struct stat st;
    char *text;
    size_t len;

    snprintf(package, sizeof package, "%s/p.safetensors", dir);
    snprintf(folder, sizeof folder, "%s/program", dir);
    write_program(package, files, 3, "main.py");
    assert_ok(trainer_package_unpack(&main, package, folder, &e));
    assert_string_equal(main.file, "main.py");
    assert_true(main.is_python);
    for (size_t i = 0; i < N_OF(files); i++) {
        snprintf(path, sizeof path, "%s/%s", folder, files[i].name);
        assert_ok(file_read(&text, &len, path, 100, &e));
        assert_int_equal(len, files[i].len);
        assert_memory_equal(text, files[i].bytes, len);
        free(text);
        assert_int_equal(stat(path, &st), 0);
        assert_int_equal((st.st_mode & 0100) != 0, files[i].is_executable);
    }
    assert_int_equal(trainer_package_unpack(&main, package, folder, &e), ERR_IO); /* it exists */
    unit_remove(dir);
}

TEST(no_file_of_a_package_gets_outside_of_its_folder)
{
    static const char *const names[] = {"../outside", "/tmp/outside", "a/../../outside", "a//b", "./a",
                                        "a/",         "a\nb"};

    for (size_t i = 0; i < N_OF(names); i++) {
        assert_false(trainer_package_has_name(names[i]));
        assert_int_equal(unpack_one(names[i], names[i]), ERR_CONFIG);
    }
    assert_ok(unpack_one("a..b/...c", "a..b/...c"));
}

TEST(a_package_must_say_which_of_its_files_is_run)
{
    assert_int_equal(unpack_one("a", "b"), ERR_CONFIG);
    assert_error_has("which of its files is run");
}

TEST(a_command_has_the_interpreter_the_file_and_the_arguments)
{
    static const char *const with[] = {"/opt/python", "/f/main.py", "--lr", "", "0.1 x", NULL};
    struct trainer_main main = {.file = "main.py", .is_python = true};
    struct trainer_command c;

    assert_ok(trainer_command_init(&c, &main, "/f", "/opt/python", "--lr\n\n0.1 x\n", &e));
    for (size_t i = 0; with[i]; i++)
        assert_string_equal(c.argv[i], with[i]);
    assert_null(c.argv[N_OF(with) - 1]);
    trainer_command_clear(&c);
    main.is_python = false;
    assert_ok(trainer_command_init(&c, &main, "/f", "/opt/python", "", &e));
    assert_string_equal(c.argv[0], "/f/main.py");
    assert_null(c.argv[1]);
    trainer_command_clear(&c);
}

TEST(a_program_finds_its_socket_and_the_modules_of_psgd)
{
    setenv("PYTHONPATH", "/own", 1);
    assert_int_equal(trainer_command_set_environment(NULL), 0);
    assert_string_equal(getenv(TRAINER_ENV), "3");
    assert_non_null(strstr(getenv("PYTHONPATH"), "/python:/own"));
    unsetenv("PYTHONPATH");
    assert_int_equal(trainer_command_set_environment(NULL), 0);
    assert_true(file_has_ending(getenv("PYTHONPATH"), "/python"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_program_is_unpacked_as_it_was_packed),
        cmocka_unit_test(no_file_of_a_package_gets_outside_of_its_folder),
        cmocka_unit_test(a_package_must_say_which_of_its_files_is_run),
        cmocka_unit_test(a_command_has_the_interpreter_the_file_and_the_arguments),
        cmocka_unit_test(a_program_finds_its_socket_and_the_modules_of_psgd),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
