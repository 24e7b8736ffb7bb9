#include "shared/compile.h"

#include <fcntl.h>
#include <unistd.h>

#include "shared/elf.h"
#include "tests/lib/emulated.h"
#include "tests/lib/stderr_catch.h"
#include "tests/unit/unit.h"

static struct err e;

/* A compiler that is this shell script; its name. It says what it has to say in the file `said` beside it. */
static const char *script(const char *folder, const char *text)
{
    static char path[128];
    char file[512];

    snprintf(path, sizeof path, "%s/compiler", folder);
    snprintf(file, sizeof file, "#!/bin/sh\nexec >${0%%/*}/said\n%s\n", text);
    assert_ok(file_write(path, file, strlen(file), 0700, &e));
    return path;
}

static void assert_said(const char *folder, const char *words)
{
    char path[128], *text;
    size_t len;

    snprintf(path, sizeof path, "%s/said", folder);
    assert_ok(file_read(&text, &len, path, 4096, &e));
    if (strcmp(text, words) != 0)
        fail_msg("said: %s", text);
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

TEST(the_compiler_is_a_program_with_words_and_no_shell_command)
{
    const char *folder = unit_folder();
    char cc[256];

    snprintf(cc, sizeof cc, " %s\t-a;b $HOME", script(folder, "for w; do echo \"$w\"; done"));
    assert_ok(compile_codec(cc, "-x.c", "out.so", "/nowhere", &e));
    assert_said(folder,
                "-a;b\n$HOME\n-std=c11\n-O3\n-fPIC\n-shared\n-ffp-contract=off\n-I./codecs\n-o\nout.so\n"
                "./-x.c\n-lm\n");
    unit_remove(folder);
}

TEST(it_gets_so_much_time_and_memory_and_nothing_of_ours)
{
    const char *folder = unit_folder();
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC), ours = 20;

    if (is_emulated())
        skip();
    assert_int_equal(dup2(null, ours), ours); /* without O_CLOEXEC, as a runner's descriptors are */
    assert_ok(compile_codec(
        script(folder, "ulimit -t; ulimit -v; [ -e /proc/$$/fd/20 ] || echo closed; readlink /proc/$$/fd/0"),
        "x.c", "x.so", "/nowhere", &e));
    assert_said(folder, "120\n4194304\nclosed\n/dev/null\n");
    close(ours);
    close(null);
    unit_remove(folder);
}

TEST(how_a_compiler_fails_is_said_and_its_own_words_pass_through)
{
    const char *folder = unit_folder();
    struct stderr_catch c;

    stderr_catch_begin(&c);
    assert_int_equal(
        compile_codec(script(folder, "echo 'x.c:2: bad' >&2; exit 3"), "x.c", "x.so", "/nowhere", &e),
        ERR_CODEC);
    stderr_catch_end(&c);
    assert_string_equal(c.text, "x.c:2: bad\n");
    assert_says("x.c: /");
    assert_says("/compiler does not compile it (status 3, its words stand above)");
    assert_int_equal(compile_codec(script(folder, "kill -XCPU $$"), "x.c", "x.so", "/nowhere", &e),
                     ERR_CODEC);
    assert_says("was killed by signal 24 (CPU time limit exceeded)");
    assert_int_equal(compile_codec("/nowhere/cc", "x.c", "x.so", "/nowhere", &e), ERR_CODEC);
    assert_says("the compiler: cannot run /nowhere/cc: No such file or directory");
    unit_remove(folder);
}

TEST(of_its_version_the_first_line_counts)
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

TEST(a_compiler_is_there_when_a_folder_of_the_path_has_it)
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
        cmocka_unit_test(the_compiler_is_a_program_with_words_and_no_shell_command),
        cmocka_unit_test(it_gets_so_much_time_and_memory_and_nothing_of_ours),
        cmocka_unit_test(how_a_compiler_fails_is_said_and_its_own_words_pass_through),
        cmocka_unit_test(of_its_version_the_first_line_counts),
        cmocka_unit_test(a_compiler_is_there_when_a_folder_of_the_path_has_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
