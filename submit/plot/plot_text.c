#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "submit/plot/plot.h"

enum {
    DOTS_X = 2,
    DOTS_Y = 4,
    Y_LABEL = 10,
    MARGIN = 4,  /* lines besides the canvas */
    X_LABEL = 9, /* columns for one tick */
    Y_LINES = 3  /* lines for one tick */
};

static const char letters[] = "abcdefghijklmnopqrstuvwxyz";
static const int colors[] = {34, 31, 32, 35, 36, 33};

struct cell {
    uint8_t dots;   /* of a braille character */
    uint16_t curve; /* 1 + the last curve there; 0: none */
};

struct canvas {
    struct cell *cells;
    size_t width, height; /* in characters */
    double low_x, high_x, low_y, high_y;
    bool is_log_x;
};

int plot_add(struct plot_curve *c, double x, double y, struct err *e)
{
    if (c->n == c->n_held) {
        size_t n = 2 * c->n_held + 64;
        double *xs = realloc(c->x, n * sizeof *xs);
        double *ys = xs ? realloc(c->y, n * sizeof *ys) : NULL;

        c->x = xs ? xs : c->x;
        c->y = ys ? ys : c->y;
        if (!ys)
            return err_set(e, ERR_NOMEM, "no memory for a curve");
        c->n_held = n;
    }
    c->x[c->n] = x;
    c->y[c->n++] = y;
    return 0;
}

static void widen(double *low, double *high)
{
    double room = fabs(*low) > 0 ? fabs(*low) * 0.05 : 1;

    if (!(*high > *low)) {
        *low = fmax(*low - room, -DBL_MAX);
        *high = fmin(*high + room, DBL_MAX);
    }
}

static void find_ranges(struct canvas *c, const struct plot *p)
{
    c->low_x = c->low_y = INFINITY;
    c->high_x = c->high_y = -INFINITY;
    for (size_t i = 0; i < p->n; i++)
        for (size_t k = 0; k < p->curves[i].n; k++) {
            c->low_x = fmin(c->low_x, p->curves[i].x[k]);
            c->high_x = fmax(c->high_x, p->curves[i].x[k]);
            c->low_y = fmin(c->low_y, p->curves[i].y[k]);
            c->high_y = fmax(c->high_y, p->curves[i].y[k]);
        }
    if (c->is_log_x && !(c->high_x > c->low_x)) {
        c->low_x /= 2;
        c->high_x *= 2;
    }
    widen(&c->low_x, &c->high_x);
    widen(&c->low_y, &c->high_y);
}

/* The place of v among n dots. Halves, as the range may overflow; those of the smallest numbers are 0. */
static double place(double v, double low, double high, size_t n)
{
    double range = high / 2 - low / 2;

    return range > 0 ? (v / 2 - low / 2) / range * (double)(n - 1) : 0;
}

static double place_x(const struct canvas *c, double x)
{
    return c->is_log_x ? place(log10(x), log10(c->low_x), log10(c->high_x), c->width * DOTS_X)
                       : place(x, c->low_x, c->high_x, c->width * DOTS_X);
}

static void put_dot(struct canvas *c, double x, double y, size_t curve)
{
    static const uint8_t dot[DOTS_Y][DOTS_X] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
    size_t column = (size_t)(x + 0.5), row = c->height * DOTS_Y - 1 - (size_t)(y + 0.5);
    struct cell *cell = &c->cells[row / DOTS_Y * c->width + column / DOTS_X];

    cell->dots |= dot[row % DOTS_Y][column % DOTS_X];
    cell->curve = (uint16_t)(curve + 1);
}

static void draw_curve(struct canvas *c, const struct plot_curve *p, size_t curve)
{
    double last_x = 0, last_y = 0;

    for (size_t i = 0; i < p->n; i++) {
        double x = place_x(c, p->x[i]);
        double y = place(p->y[i], c->low_y, c->high_y, c->height * DOTS_Y);
        int n = i == 0 ? 1 : (int)fmax(1, ceil(fmax(fabs(x - last_x), fabs(y - last_y))));

        for (int k = 1; k <= n; k++)
            put_dot(c, i == 0 ? x : last_x + (x - last_x) * k / n, i == 0 ? y : last_y + (y - last_y) * k / n,
                    curve);
        last_x = x;
        last_y = y;
    }
}

static void begin_color(const struct plot_look *look, size_t curve)
{
    if (look->has_colors)
        printf("\033[%dm", colors[curve % (sizeof colors / sizeof *colors)]);
}

static void end_color(const struct plot_look *look)
{
    if (look->has_colors)
        printf("\033[0m");
}

static void print_mark(const struct plot *p, const struct plot_look *look, const struct cell *cell)
{
    size_t curve = (size_t)cell->curve - 1;

    begin_color(look, curve);
    if (look->is_utf8 && (look->has_colors || p->n == 1))
        printf("\xe2%c%c", 0xa0 | cell->dots >> 6, 0x80 | (cell->dots & 0x3f)); /* U+2800 and the dots */
    else
        putchar(p->n == 1 ? '*' : letters[curve % (sizeof letters - 1)]);
    end_color(look);
}

static size_t column_of(const struct canvas *c, double x)
{
    return (size_t)(place_x(c, x) + 0.5) / DOTS_X;
}

static void print_row(const struct canvas *c, const struct plot *p, const struct plot_look *look, size_t row)
{
    const char *bar = look->is_utf8 ? "\u2502" : "|";
    double ticks[PLOT_TICKS];
    int n = plot_ticks(ticks, (int)c->height / Y_LINES, c->low_y, c->high_y, false);
    char text[PLOT_NUMBER] = "";

    for (int i = 0; i < n; i++) {
        double dot = place(ticks[i], c->low_y, c->high_y, c->height * DOTS_Y);

        if (c->height - 1 - (size_t)(dot + 0.5) / DOTS_Y == row)
            plot_number(text, ticks[i], p->y_unit);
    }
    printf("%*s %s", Y_LABEL, text, bar);
    for (size_t i = 0; i < c->width; i++) {
        const struct cell *cell = &c->cells[row * c->width + i];

        if (cell->curve)
            print_mark(p, look, cell);
        else
            putchar(' ');
    }
    putchar('\n');
}

/* Labels are centered below their ticks, as far as they fit. */
static void print_axis(const struct canvas *c, const struct plot *p, const struct plot_look *look)
{
    double ticks[PLOT_TICKS];
    int n = plot_ticks(ticks, (int)c->width / X_LABEL, c->low_x, c->high_x, c->is_log_x), next = 0;
    size_t used = 0;
    char text[PLOT_NUMBER];

    printf("%*s %s", Y_LABEL, "", look->is_utf8 ? "\u2514" : "+");
    for (size_t i = 0; i < c->width; i++) {
        bool is_tick = next < n && column_of(c, ticks[next]) == i;

        next += is_tick;
        printf("%s", look->is_utf8 ? is_tick ? "\u252c" : "\u2500" : is_tick ? "+" : "-");
    }
    printf("\n%*s  ", Y_LABEL, "");
    for (int i = 0; i < n; i++) {
        size_t len = strlen(plot_number(text, ticks[i], p->x_unit)), at = column_of(c, ticks[i]);

        at = at > len / 2 ? at - len / 2 : 0;
        at = at + len > c->width ? c->width - len : at;
        if (len > c->width || (used > 0 && at < used + 2))
            continue;
        printf("%*s%s", (int)(at - used), "", text);
        used = at + len;
    }
    printf("\n%*s  %s over %s%s\n", Y_LABEL, "", p->y_name, p->x_name, c->is_log_x ? " (logarithmic)" : "");
}

static void print_legend(const struct plot *p, const struct plot_look *look)
{
    for (size_t i = 0; i < p->n; i++) {
        begin_color(look, i);
        if (look->has_colors)
            printf("%*s  %s", Y_LABEL, "", look->is_utf8 ? "\u2501\u2501" : "--");
        else
            printf("%*s  %c", Y_LABEL, "", p->n == 1 ? '*' : letters[i % (sizeof letters - 1)]);
        end_color(look);
        printf(" %s%s\n", p->curves[i].label, p->curves[i].n ? "" : " (no values)");
    }
}

int plot_print(const struct plot *p, const struct plot_look *look, struct err *e)
{
    struct canvas c = {.width = (size_t)(look->width - Y_LABEL - 2),
                       .height = (size_t)(look->height - MARGIN),
                       .is_log_x = p->is_log_x};

    c.cells = calloc(c.width * c.height, sizeof *c.cells);
    if (!c.cells)
        return err_set(e, ERR_NOMEM, "no memory for the plot");
    find_ranges(&c, p);
    for (size_t i = 0; i < p->n; i++)
        draw_curve(&c, &p->curves[i], i);
    for (size_t row = 0; row < c.height; row++)
        print_row(&c, p, look, row);
    print_axis(&c, p, look);
    print_legend(p, look);
    free(c.cells);
    return 0;
}
