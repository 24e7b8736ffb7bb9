#include "submit/plot/plot.h"

#include <float.h>

#include "tests/unit/unit.h"

static struct err e;

/* What is printed of these curves. */
static char *print_curves(const struct plot_look *look, struct plot_curve *curves, size_t n)
{
    struct plot p = {
        .curves = curves, .n = n, .x_name = "step", .y_name = "loss", .x_unit = "", .y_unit = ""};
    FILE *f = tmpfile();
    int out = dup(STDOUT_FILENO);
    char *text = calloc(1, 1 << 16);

    assert_true(f && out >= 0 && text);
    fflush(stdout);
    dup2(fileno(f), STDOUT_FILENO);
    assert_ok(plot_print(&p, look, &e));
    fflush(stdout);
    dup2(out, STDOUT_FILENO);
    close(out);
    rewind(f);
    assert_true(fread(text, 1, (1 << 16) - 1, f) > 0);
    fclose(f);
    for (size_t i = 0; i < n; i++) {
        free(curves[i].x);
        free(curves[i].y);
    }
    return text;
}

/* Of a rising line from (0, 0) to (10, 1), and of a second curve if it has a label. */
static char *print(const struct plot_look *look, const char *second)
{
    struct plot_curve curves[2] = {{.label = "first"}, {.label = second}};

    assert_ok(plot_add(&curves[0], 0, 0, &e));
    assert_ok(plot_add(&curves[0], 10, 1, &e));
    if (second)
        assert_ok(plot_add(&curves[1], 5, 0.5, &e));
    return print_curves(look, curves, second ? 2 : 1);
}

TEST(a_line_is_drawn_with_axes_in_ascii)
{
    char *text = print(&(struct plot_look){.width = 20, .height = 8}, NULL);

    assert_non_null(strstr(text, "         1 |      **\n"));
    assert_non_null(strstr(text, "         0 |*"));
    assert_non_null(strstr(text, "++------+\n"));
    assert_non_null(strstr(text, "0     10\n"));
    assert_non_null(strstr(text, "loss over step\n"));
    assert_non_null(strstr(text, "* first\n"));
    for (const char *c = text; *c; c++)
        assert_true((unsigned char)*c < 0x80 && *c != '\033');
    free(text);
}

TEST(curves_have_letters_or_colors)
{
    char *text = print(&(struct plot_look){.width = 20, .height = 8}, "second");

    assert_non_null(strstr(text, "a first\n"));
    assert_non_null(strstr(text, "b second\n"));
    assert_null(strchr(text, '\033'));
    free(text);
    text = print(&(struct plot_look){.width = 20, .height = 8, .is_utf8 = true, .has_colors = true},
                 "second");
    assert_non_null(strstr(text, "\033[34m"));
    assert_non_null(strstr(text, "\u2514\u252c\u2500"));
    assert_null(strstr(text, "a first"));
    free(text);
}

TEST(the_largest_and_the_smallest_numbers_have_a_place)
{
    static const double pairs[][2] = {
        {-DBL_MAX, -DBL_MAX}, {DBL_MAX, DBL_MAX}, {-DBL_MAX, DBL_MAX}, {0, DBL_TRUE_MIN}};

    for (size_t i = 0; i < N_OF(pairs); i++) {
        struct plot_curve c = {.label = "first"};
        char *text;

        assert_ok(plot_add(&c, 0, pairs[i][0], &e));
        assert_ok(plot_add(&c, 1, pairs[i][1], &e));
        text = print_curves(&(struct plot_look){.width = 20, .height = 8}, &c, 1);
        assert_null(strstr(text, "inf"));
        assert_null(strstr(text, "nan"));
        assert_non_null(strstr(text, "|*"));
        free(text);
    }
}

TEST(ticks_are_round_numbers_with_units)
{
    double ticks[PLOT_TICKS];
    char text[PLOT_NUMBER];
    struct plot_curve curves[2] = {{.label = "few"}, {.label = "many"}};
    struct plot p = {.curves = curves, .n = 2};

    assert_int_equal(plot_ticks(ticks, 7, 8.4e6, 708e6, true), 6);
    assert_true(ticks[0] == 10e6 && ticks[1] == 20e6 && ticks[2] == 50e6 && ticks[5] == 500e6);
    assert_int_equal(plot_ticks(ticks, 5, -0.1, 0.9, false), 2);
    assert_true(ticks[0] == 0 && ticks[1] == 0.5);
    assert_int_equal(plot_ticks(ticks, 5, 3, 3, false), 1);
    assert_string_equal(plot_number(text, 132e6, "B"), "132 MB");
    assert_string_equal(plot_number(text, 11200, ""), "11.2 k");
    assert_string_equal(plot_number(text, 0.05, ""), "0.05");
    assert_ok(plot_add(&curves[0], 0, 1, &e));
    assert_ok(plot_add(&curves[0], 10, 1, &e));
    assert_ok(plot_add(&curves[1], 101, 1, &e));
    assert_true(plot_is_wide(&p));
    plot_drop_without_log(&p);
    assert_int_equal(curves[0].n, 1);
    for (size_t i = 0; i < 2; i++) {
        free(curves[i].x);
        free(curves[i].y);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_is_drawn_with_axes_in_ascii),
        cmocka_unit_test(curves_have_letters_or_colors),
        cmocka_unit_test(the_largest_and_the_smallest_numbers_have_a_place),
        cmocka_unit_test(ticks_are_round_numbers_with_units),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
