#include "runner/monitor/monitor_output.h"

#include <fcntl.h>
#include <unistd.h>

#include "tests/unit/unit.h"

struct scene {
    struct monitor_output o;
    int to[N_OUTPUTS]; /* the program's ends */
    int log;
};

static void open_scene(struct scene *s)
{
    char path[UNIT_FOLDER + 8];
    const char *dir = unit_folder();
    int from[N_OUTPUTS];

    for (int i = 0; i < N_OUTPUTS; i++) {
        int ends[2];

        assert_int_equal(pipe2(ends, O_NONBLOCK), 0);
        from[i] = ends[0];
        s->to[i] = ends[1];
    }
    snprintf(path, sizeof path, "%s/log", dir);
    s->log = open(path, O_RDWR | O_CREAT, 0600);
    unit_remove(dir);
    monitor_output_open(&s->o, from[OUTPUT_STDOUT], from[OUTPUT_STDERR], s->log);
}

static void put(struct scene *s, int which, const char *text)
{
    assert_int_equal(write(s->to[which], text, strlen(text)), strlen(text));
    monitor_output_copy(&s->o, which);
}

/* Ends the program and returns the log, which the caller frees. */
static char *close_scene(struct scene *s)
{
    size_t len = 0;
    char *text;

    for (int i = 0; i < N_OUTPUTS; i++)
        close(s->to[i]);
    monitor_output_close(&s->o);
    len = (size_t)lseek(s->log, 0, SEEK_END);
    text = calloc(len + 1, 1);
    assert_int_equal(pread(s->log, text, len, 0), len);
    close(s->log);
    return text;
}

TEST(the_log_gets_what_a_program_writes_as_it_comes_and_whole_lines_at_its_end)
{
    struct scene s;
    char *log;

    open_scene(&s);
    put(&s, OUTPUT_STDOUT, "one\n");
    assert_int_equal(lseek(s.log, 0, SEEK_END), 4);
    put(&s, OUTPUT_STDERR, "two\n");
    assert_int_equal(write(s.to[OUTPUT_STDOUT], "three", 5), 5); /* when it ends, nobody has read that */
    log = close_scene(&s);
    assert_string_equal(log, "one\ntwo\nthree\n");
    free(log);
}

TEST(text_of_stderr_begins_a_line_of_its_own_in_the_log)
{
    struct scene s;
    char *log;

    open_scene(&s);
    put(&s, OUTPUT_STDOUT, "a prompt: ");
    put(&s, OUTPUT_STDERR, "an error\n");
    put(&s, OUTPUT_STDERR, "1 %\r");
    put(&s, OUTPUT_STDOUT, "a line, ");
    put(&s, OUTPUT_STDOUT, "in parts\n");
    log = close_scene(&s);
    assert_string_equal(log, "a prompt: \nan error\n1 %\ra line, in parts\n");
    free(log);
}

TEST(the_reason_is_the_last_line_of_stderr_that_is_not_blank)
{
    static const struct {
        const char *text, *reason;
    } cases[] = {{"", ""},
                 {"\n \n", ""},
                 {"first\nlast\n", "last"},
                 {"first\nno line feed", "no line feed"},
                 {"last\n\n   \n", "last"},
                 {"1 %\r2 %\r", "2 %"},
                 {"a \033[31mred\033[0m \xff word\n", "a ?[31mred?[0m ? word"}};

    for (size_t i = 0; i < N_OF(cases); i++) {
        struct scene s;

        open_scene(&s);
        put(&s, OUTPUT_STDERR, cases[i].text);
        put(&s, OUTPUT_STDOUT, "another\n");
        free(close_scene(&s));
        assert_string_equal(monitor_output_reason(&s.o, 1), cases[i].reason);
    }
}

TEST(of_an_exception_the_reason_is_the_line_that_names_it)
{
    static const char text[] = "Traceback (most recent call last):\n"
                               "  File \"train.py\", line 1, in <module>\n"
                               "    f()\n"
                               "KeyError: 'a'\n"
                               "\n"
                               "During handling of the above exception, another exception occurred:\n"
                               "\n"
                               "Traceback (most recent call last):\n"
                               "  File \"train.py\", line 3, in <module>\n"
                               "    f()\n"
                               "RuntimeError: CUDA error: out of memory\n"
                               "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.\n";
    struct scene s;

    open_scene(&s);
    put(&s, OUTPUT_STDERR, text);
    free(close_scene(&s));
    assert_string_equal(monitor_output_reason(&s.o, 1), "RuntimeError: CUDA error: out of memory");
    assert_non_null(strstr(monitor_output_reason(&s.o, 2), "Compile with"));
}

TEST(a_long_line_is_cut)
{
    char text[4 * OUTPUT_LINE];
    struct scene s;

    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    open_scene(&s);
    put(&s, OUTPUT_STDERR, text);
    free(close_scene(&s));
    assert_int_equal(strlen(monitor_output_reason(&s.o, 1)), OUTPUT_LINE - 1);
}

/* Lines of 16 bytes with their number. */
static void put_lines(struct scene *s, size_t from, size_t to)
{
    enum { AT_ONCE = 1024 };
    char text[AT_ONCE * 16 + 1];

    for (size_t i = from; i < to; i += AT_ONCE) {
        for (size_t k = 0; k < AT_ONCE; k++)
            snprintf(text + 16 * k, 17, "line %10zu\n", i + k);
        put(s, OUTPUT_STDERR, text);
    }
}

TEST(of_a_flood_the_log_gets_the_beginning_and_the_end)
{
    enum { FIRST = OUTPUT_FIRST / 16, LAST = OUTPUT_LAST / 16, ALL = FIRST + 8 * LAST };
    char *log, last[17], first_kept[17];
    struct scene s;
    size_t len;

    open_scene(&s);
    put_lines(&s, 0, ALL);
    put(&s, OUTPUT_STDERR, "odd bytes, end\n"); /* 15: the ring ends at no line */
    log = close_scene(&s);
    len = strlen(log);
    assert_true(len < OUTPUT_FIRST + OUTPUT_LAST + 400);
    snprintf(last, sizeof last, "line %10d\n", FIRST - 1);
    assert_memory_equal(log + OUTPUT_FIRST - 16, last, 16);
    assert_memory_equal(log + OUTPUT_FIRST, "\n[the program has written 16 MiB;", 33);
    snprintf(last, sizeof last, "line %10d\n", ALL - 1);
    assert_memory_equal(log + len - 31, last, 16);
    assert_string_equal(log + len - 15, "odd bytes, end\n");
    snprintf(first_kept, sizeof first_kept, "line %10d\n", ALL - LAST + 1);
    assert_non_null(strstr(log + OUTPUT_FIRST, first_kept));
    snprintf(first_kept, sizeof first_kept, "line %10d\n", ALL - LAST - 1);
    assert_null(strstr(log + OUTPUT_FIRST, first_kept));
    assert_string_equal(monitor_output_reason(&s.o, 1), "odd bytes, end");
    free(log);
}

TEST(a_little_more_than_the_first_part_is_not_called_left_out)
{
    struct scene s;
    char *log;

    open_scene(&s);
    put_lines(&s, 0, OUTPUT_FIRST / 16);
    put(&s, OUTPUT_STDOUT, "more\n");
    log = close_scene(&s);
    assert_null(strstr(log, "left out"));
    assert_string_equal(log + strlen(log) - 6, "\nmore\n");
    free(log);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_log_gets_what_a_program_writes_as_it_comes_and_whole_lines_at_its_end),
        cmocka_unit_test(text_of_stderr_begins_a_line_of_its_own_in_the_log),
        cmocka_unit_test(the_reason_is_the_last_line_of_stderr_that_is_not_blank),
        cmocka_unit_test(of_an_exception_the_reason_is_the_line_that_names_it),
        cmocka_unit_test(a_long_line_is_cut),
        cmocka_unit_test(of_a_flood_the_log_gets_the_beginning_and_the_end),
        cmocka_unit_test(a_little_more_than_the_first_part_is_not_called_left_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
