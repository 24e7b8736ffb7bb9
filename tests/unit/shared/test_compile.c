#include "shared/plugin/compile.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shared/plugin/elf.h"
#include "tests/lib/emulated.h"
#include "tests/lib/stderr_catch.h"
#include "tests/unit/unit.h"

static struct err e;

/* Makes a compiler of this shell script; returns its name. It writes its output to the file `output` beside
 * it. */
static const char *script(const char *folder, const char *text)
{
    static char path[128];
    char file[512];

    snprintf(path, sizeof path, "%s/compiler", folder);
    snprintf(file, sizeof file, "#!/bin/sh\nexec >${0%%/*}/output\n%s\n", text);
    assert_ok(file_write(path, file, strlen(file), 0700, &e));
    return path;
}

static void assert_output(const char *folder, const char *expected)
{
    char path[128], *text;
    size_t len;

    snprintf(path, sizeof path, "%s/output", folder);
    assert_ok(file_read(&text, &len, path, 4096, &e));
    if (strcmp(text, expected) != 0)
        fail_msg("output: %s", text);
    free(text);
}

TEST(a_source_becomes_a_shared_object_for_this_machine)
{
    const char *folder = unit_folder();
    const char *text = "#include \"codec.h\"\nint f(void);\nint f(void) { return CODEC_ABI; }\n";
    char source[128], object[128], version[128];
    struct elf_kind here, made;

    if (!compile_is_there("cc"))
        skip();
    snprintf(source, sizeof source, "%s/mine.c", folder);
    snprintf(object, sizeof object, "%s/mine.so", folder);
    assert_ok(file_write(source, text, strlen(text), 0600, &e));
    assert_ok(compile_codec("cc -DUNUSED", source, object, "/nowhere", &e)); /* ./codecs has codec.h */
    assert_ok(elf_here(&here, &e));
    assert_ok(elf_read(&made, object, &e));
    assert_true(made.is_shared && elf_fits(&made, &here));
    compile_version(version, sizeof version, "cc");
    assert_true(strlen(version) > 4);
    unit_remove(folder);
}

TEST(the_compiler_is_a_program_with_arguments_and_no_shell_command)
{
    const char *folder = unit_folder();
    char cc[256];

    snprintf(cc, sizeof cc, " %s\t-a;b $HOME", script(folder, "for w; do echo \"$w\"; done"));
    assert_ok(compile_codec(cc, "-x.c", "out.so", "/nowhere", &e));
    assert_output(folder, "-a;b\n$HOME\n-std=c11\n-O3\n-fPIC\n-shared\n-ffp-contract=off\n"
                          "-fstack-protector-strong\n-U_FORTIFY_SOURCE\n-D_FORTIFY_SOURCE=2\n-Wl,-z,relro,-z,"
                          "now\n-fmax-errors=20\n"
                          "-I./codecs\n-o\nout.so\n"
                          "./-x.c\n-lm\n");
    unit_remove(folder);
}

TEST(the_compiler_has_limits_of_time_and_memory_and_inherits_no_descriptors)
{
    const char *folder = unit_folder();
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC), ours = 20;

    if (is_emulated())
        skip();
    assert_int_equal(dup2(null, ours), ours); /* without O_CLOEXEC, as a runner's descriptors are */
    assert_ok(compile_codec(
        script(folder, "ulimit -t; ulimit -v; [ -e /proc/$$/fd/20 ] || echo closed; readlink /proc/$$/fd/0"),
        "x.c", "x.so", "/nowhere", &e));
    assert_output(folder, "120\n4194304\nclosed\n/dev/null\n");
    close(ours);
    close(null);
    unit_remove(folder);
}

TEST(the_failure_of_a_compiler_is_reported_with_its_own_messages)
{
    const char *folder = unit_folder();
    struct stderr_catch c;

    stderr_catch_begin(&c);
    assert_int_equal(
        compile_codec(script(folder, "echo 'x.c:2: bad' >&2; exit 3"), "x.c", "x.so", "/nowhere", &e),
        ERR_CODEC);
    stderr_catch_end(&c);
    assert_string_equal(c.text, "x.c:2: bad\n");
    assert_error_has("x.c: /");
    assert_error_has("/compiler does not compile it (status 3, its output is above)");
    assert_int_equal(compile_codec(script(folder, "kill -XCPU $$"), "x.c", "x.so", "/nowhere", &e),
                     ERR_CODEC);
    assert_error_has("was killed by signal 24 (CPU time limit exceeded)");
    assert_int_equal(compile_codec("/nowhere/cc", "x.c", "x.so", "/nowhere", &e), ERR_CODEC);
    assert_error_has("the compiler: cannot run /nowhere/cc: No such file or directory");
    unit_remove(folder);
}

/* Of gcc and clang. */
TEST(a_source_that_includes_itself_twice_is_refused_at_once)
{
    static const char *const compilers[] = {"gcc", "clang"};
    static const char text[] = "#include \"twice.c\"\n#include \"twice.c\"\n";

    for (size_t i = 0; i < N_OF(compilers); i++) {
        const char *folder = unit_folder();
        char source[128], object[128];
        struct stderr_catch c;

        if (!compile_is_there(compilers[i])) {
            unit_remove(folder);
            continue;
        }
        snprintf(source, sizeof source, "%s/twice.c", folder);
        snprintf(object, sizeof object, "%s/twice.so", folder);
        assert_ok(file_write(source, text, strlen(text), 0600, &e));
        stderr_catch_begin(&c);
        assert_int_equal(compile_codec(compilers[i], source, object, "/nowhere", &e), ERR_CODEC);
        stderr_catch_end(&c);
        assert_error_has("twice.c: ");
        assert_error_has(compilers[i]);
        assert_error_has("does not compile it (status 1, its output is above)");
        unit_remove(folder);
    }
}

/* A child, whose limit becomes that of the compiler: 1 s. The driver of gcc exits itself when its compiler is
 * killed; clang is killed. */
TEST(a_compiler_that_has_used_up_its_processor_time_is_named)
{
    static const char *const scripts[] = {"while :; do :; done", "(while :; do :; done); exit 1"};

    if (is_emulated())
        skip();
    for (size_t i = 0; i < N_OF(scripts); i++) {
        const char *folder = unit_folder();
        pid_t child = fork();
        int status;

        if (child == 0) {
            const struct rlimit one = {1, 1};
            const char *cc = script(folder, scripts[i]);

            setrlimit(RLIMIT_CPU, &one);
            _exit(compile_codec(cc, "x.c", "x.so", "/nowhere", &e) == ERR_CODEC && strstr(e.text, cc) &&
                          strstr(e.text,
                                 "/compiler has failed after 1 s of processor time, of which it may use 1: ")
                      ? 0
                      : 1);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
        unit_remove(folder);
    }
}

TEST(only_the_first_line_of_a_compiler_version_counts)
{
    const char *folder = unit_folder();
    char version[16];

    compile_version(version, sizeof version,
                    script(folder, "[ \"$1\" = --version ] && printf 'one 2.3\\nmore\\n' >&2"));
    assert_string_equal(version, "one 2.3");
    compile_version(version, sizeof version, script(folder, "echo 'no such option' >&2; exit 1"));
    assert_string_equal(version, "");
    compile_version(version, sizeof version, "/nowhere/cc");
    assert_string_equal(version, "");
    unit_remove(folder);
}

TEST(a_compiler_is_available_if_a_folder_of_path_contains_it)
{
    const char *folder = unit_folder();
    char path[128], *before = strdup(getenv("PATH"));

    script(folder, "exit 0");
    snprintf(path, sizeof path, "::/nowhere:%s", folder);
    setenv("PATH", path, 1);
    assert_true(compile_is_there("compiler"));
    assert_false(compile_is_there("cc"));
    setenv("PATH", "/nowhere", 1);
    assert_false(compile_is_there("compiler"));
    setenv("PATH", before, 1);
    free(before);
    unit_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_source_becomes_a_shared_object_for_this_machine),
        cmocka_unit_test(the_compiler_is_a_program_with_arguments_and_no_shell_command),
        cmocka_unit_test(the_compiler_has_limits_of_time_and_memory_and_inherits_no_descriptors),
        cmocka_unit_test(the_failure_of_a_compiler_is_reported_with_its_own_messages),
        cmocka_unit_test(a_source_that_includes_itself_twice_is_refused_at_once),
        cmocka_unit_test(a_compiler_that_has_used_up_its_processor_time_is_named),
        cmocka_unit_test(only_the_first_line_of_a_compiler_version_counts),
        cmocka_unit_test(a_compiler_is_available_if_a_folder_of_path_contains_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
