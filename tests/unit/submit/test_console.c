#include "submit/terminal/console.h"

#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <sys/ioctl.h>

#include "submit/stages/progress_bar.h"
#include "tests/unit/unit.h"

static int terminal, real_stderr;

/* stderr becomes a terminal of that width. */
static void open_terminal(unsigned short width)
{
    int side;

    terminal = posix_openpt(O_RDWR | O_NOCTTY);
    assert_true(terminal >= 0);
    assert_int_equal(grantpt(terminal), 0);
    assert_int_equal(unlockpt(terminal), 0);
    side = open(ptsname(terminal), O_RDWR | O_NOCTTY);
    assert_true(side >= 0);
    real_stderr = dup(STDERR_FILENO);
    assert_int_equal(dup2(side, STDERR_FILENO), STDERR_FILENO);
    close(side);
    assert_int_equal(ioctl(STDERR_FILENO, TIOCSWINSZ, &(struct winsize){.ws_row = 24, .ws_col = width}), 0);
    setenv("TERM", "xterm", 1);
    unsetenv("COLUMNS");
    console_init(0, true);
}

static void close_terminal(void)
{
    dup2(real_stderr, STDERR_FILENO);
    close(real_stderr);
    close(terminal);
    console_init(-1, true);
}

/* This text comes next; output to a terminal arrives later, in pieces. */
static void assert_written(const char *expected)
{
    char text[256];
    size_t n = 0;

    while (n < strlen(expected)) {
        struct pollfd p = {.fd = terminal, .events = POLLIN};
        ssize_t k;

        assert_int_equal(poll(&p, 1, 60000), 1);
        k = read(terminal, text + n, strlen(expected) - n);
        assert_true(k > 0);
        n += (size_t)k;
    }
    text[n] = '\0';
    assert_string_equal(text, expected);
}

static const char *const bars[] = {"0123456789abcdefghij", "short"};

TEST(bars_are_removed_before_a_line_wherever_the_cursor_is)
{
    open_terminal(80);
    console_bars(bars, 2);
    assert_written("0123456789abcdefghij\r\nshort\r\n");
    console_plain("a line"); /* Ctrl-C has moved the cursor from the first column */
    assert_written("\r\033[2A\033[Ja line\r\n0123456789abcdefghij\r\nshort\r\n");
    console_bars(NULL, 0);
    assert_written("\r\033[2A\033[J");
    close_terminal();
}

TEST(bars_follow_the_width_of_the_terminal)
{
    open_terminal(80);
    console_bars(bars, 2);
    assert_written("0123456789abcdefghij\r\nshort\r\n");
    /* The first bar takes three lines now. */
    assert_int_equal(ioctl(STDERR_FILENO, TIOCSWINSZ, &(struct winsize){.ws_row = 24, .ws_col = 8}), 0);
    console_bars(bars, 2);
    assert_written("\r\033[4A\033[J0123456\r\nshort\r\n");
    setenv("COLUMNS", "12", 1);
    assert_int_equal(console_width(), 11);
    setenv("COLUMNS", "many", 1);
    assert_int_equal(console_width(), 7);
    console_bars(NULL, 0);
    close_terminal();
}

TEST(the_time_left_is_that_of_the_slowest_node_since_it_was_first_seen)
{
    struct progress_bar p = {0};

    assert_true(isnan(progress_bar_left(&p, 0, 100)));
    assert_true(isnan(progress_bar_left(&p, 0.5, 110))); /* resumed: half of it is not this run's */
    assert_true(isnan(progress_bar_left(&p, 0.5, 120)));
    assert_true(isnan(progress_bar_left(&p, 0.51, 110.5)));
    assert_true(fabs(progress_bar_left(&p, 0.6, 120) - 40) < 1e-6);
    assert_true(fabs(progress_bar_left(&p, 1, 160)) < 1e-6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bars_are_removed_before_a_line_wherever_the_cursor_is),
        cmocka_unit_test(bars_follow_the_width_of_the_terminal),
        cmocka_unit_test(the_time_left_is_that_of_the_slowest_node_since_it_was_first_seen),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
