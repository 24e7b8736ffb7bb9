#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "submit/plot/plot.h"

enum { DOTS_X = 2, DOTS_Y = 4, Y_LABEL = 10, MARGIN = 4 /* lines besides the canvas */ };

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
    widen(&c->low_x, &c->high_x);
    widen(&c->low_y, &c->high_y);
}

/* The place of v among n dots. Halves, as the range may overflow; those of the smallest numbers are 0. */
static double place(double v, double low, double high, size_t n)
{
    double range = high / 2 - low / 2;

    return range > 0 ? (v / 2 - low / 2) / range * (double)(n - 1) : 0;
}

static void put_dot(struct canvas *c, double x, double y, size_t curve)
{
    static const uint8_t dot[DOTS_Y][DOTS_X] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
    size_t column = (size_t)(x + 0.5), row = c->height * DOTS_Y - 1 - (size_t)(y + 0.5);
    struct cell *cell = &c->cells[row / DOTS_Y * c->width + column / DOTS_X];

    cell->dots |= dot[row % DOTS_Y][column % DOTS_X];
    cell->curve = (uint16_t)(curve + 1);
}

static void draw(struct canvas *c, const struct plot_curve *p, size_t curve)
{
    double last_x = 0, last_y = 0;

    for (size_t i = 0; i < p->n; i++) {
        double x = place(p->x[i], c->low_x, c->high_x, c->width * DOTS_X);
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

static double value_of_row(const struct canvas *c, size_t row)
{
    double part = (double)row / (double)(c->height - 1);

    return c->high_y * (1 - part) + c->low_y * part;
}

static void print_row(const struct canvas *c, const struct plot *p, const struct plot_look *look, size_t row)
{
    const char *bar = look->is_utf8 ? "\u2502" : "|";

    if (row == 0 || row + 1 == c->height || row == c->height / 2)
        printf("%*.4g %s", Y_LABEL, value_of_row(c, row), bar);
    else
        printf("%*s %s", Y_LABEL, "", bar);
    for (size_t i = 0; i < c->width; i++) {
        const struct cell *cell = &c->cells[row * c->width + i];

        if (cell->curve)
            print_mark(p, look, cell);
        else
            putchar(' ');
    }
    putchar('\n');
}

static void print_axis(const struct canvas *c, const struct plot *p, const struct plot_look *look)
{
    char low[32], high[32];

    printf("%*s %s", Y_LABEL, "", look->is_utf8 ? "\u2514" : "+");
    for (size_t i = 0; i < c->width; i++)
        printf("%s", look->is_utf8 ? "\u2500" : "-");
    snprintf(low, sizeof low, "%.4g", c->low_x);
    snprintf(high, sizeof high, "%.4g", c->high_x);
    printf("\n%*s  %s%*s\n", Y_LABEL, "", low, (int)(c->width - strlen(low)), high);
    printf("%*s  %s over %s\n", Y_LABEL, "", p->y_name, p->x_name);
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
                       .height = (size_t)(look->height - MARGIN)};

    c.cells = calloc(c.width * c.height, sizeof *c.cells);
    if (!c.cells)
        return err_set(e, ERR_NOMEM, "no memory for the plot");
    find_ranges(&c, p);
    for (size_t i = 0; i < p->n; i++)
        draw(&c, &p->curves[i], i);
    for (size_t row = 0; row < c.height; row++)
        print_row(&c, p, look, row);
    print_axis(&c, p, look);
    print_legend(p, look);
    free(c.cells);
    return 0;
}
