#include "submit/plot/plot.h"

#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shared/base/child.h"
#include "shared/base/file.h"

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

/* If the curves end further apart than this factor, a linear axis has all but one at its edge. */
static const double WIDE = 10;

bool plot_is_wide(const struct plot *p)
{
    double least = INFINITY, most = 0;

    for (size_t i = 0; i < p->n; i++) {
        double end = p->curves[i].n > 0 ? p->curves[i].x[p->curves[i].n - 1] : 0;

        if (end > 0) {
            least = fmin(least, end);
            most = fmax(most, end);
        }
    }
    return most > WIDE * least;
}

void plot_drop_without_log(struct plot *p)
{
    for (size_t i = 0; i < p->n; i++) {
        struct plot_curve *c = &p->curves[i];
        size_t n = 0;

        for (size_t k = 0; k < c->n; k++)
            if (c->x[k] > 0) {
                c->x[n] = c->x[k];
                c->y[n++] = c->y[k];
            }
        c->n = n;
    }
}

/* Axis 'x' or 'y': from the least to the greatest value of all curves. */
static void find_range(double *low, double *high, const struct plot *p, char axis)
{
    *low = INFINITY;
    *high = -INFINITY;
    for (size_t i = 0; i < p->n; i++)
        for (size_t k = 0; k < p->curves[i].n; k++) {
            double v = axis == 'x' ? p->curves[i].x[k] : p->curves[i].y[k];

            *low = fmin(*low, v);
            *high = fmax(*high, v);
        }
}

/* The distance of about `n` ticks: 1, 2 or 5 times a power of ten. */
static double tick_distance(double span, int n)
{
    static const double nice[] = {1, 2, 5};
    double rough = span / n, power = pow(10, floor(log10(rough)));

    for (size_t i = 0; i < sizeof nice / sizeof *nice; i++)
        if (nice[i] * power >= rough * 0.999)
            return nice[i] * power;
    return 10 * power;
}

static int linear_ticks(double *out, int most, double low, double high)
{
    double step = tick_distance(high - low, most > 1 ? most - 1 : 1);
    double last = fmin(high + step * 1e-9, DBL_MAX); /* `high` may be the largest number */
    int n = 0;

    for (double k = ceil(low / step - 1e-9); k * step <= last && n < most; k++)
        out[n++] = k * step + 0.0; /* no -0 */
    return n;
}

/* Powers of ten, with twice and five times each where there is room. */
static int log_ticks(double *out, int most, double low, double high)
{
    double decades = log10(high / low);
    bool has_room = 3 * decades + 1 <= most;
    double every = ceil((decades + 1) / most);
    int n = 0;

    for (double e = floor(log10(low)); e <= log10(high) + 1e-9; e += has_room ? 1 : every)
        for (int m = 1; m <= 5; m += m == 1 ? 1 : 3) {
            double v = m * pow(10, e);

            if ((m == 1 || has_room) && v >= low * 0.9999 && v <= high * 1.0001 && n < most)
                out[n++] = v;
        }
    return n;
}

int plot_ticks(double out[PLOT_TICKS], int most, double low, double high, bool is_log)
{
    int n;

    most = most > PLOT_TICKS ? PLOT_TICKS : most < 2 ? 2 : most;
    if (!isfinite(high - low) || !(high > low)) {
        out[0] = low;
        return 1;
    }
    n = is_log ? log_ticks(out, most, low, high) : 0;
    return n >= 2 ? n : linear_ticks(out, most, low, high); /* a range within a power of ten */
}

const char *plot_number(char out[PLOT_NUMBER], double v, const char *unit)
{
    static const char *const small[] = {"", "k", "M", "G", "T", "P", "E"};
    bool is_scaled = unit[0] ? fabs(v) >= 999.5 : fabs(v) >= 9999.5;
    int u = 0;

    if (fabs(v) >= 1e21) {
        snprintf(out, PLOT_NUMBER, "%.4g%s%s", v, unit[0] ? " " : "", unit);
        return out;
    }
    for (; is_scaled && (u == 0 || fabs(v) >= 999.5) && small[u + 1]; u++)
        v /= 1000;
    snprintf(out, PLOT_NUMBER, "%.4g%s%s%s", v, u > 0 || unit[0] ? " " : "", small[u], unit);
    return out;
}

enum {
    DOTS_X = 2, /* of a braille character */
    DOTS_Y = 4,
    Y_LABEL = 10,
    MARGIN = 4,  /* lines below the canvas: axis, its numbers, its name, a legend */
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

static void widen_range(double *low, double *high)
{
    double room = fabs(*low) > 0 ? fabs(*low) * 0.05 : 1;

    if (!(*high > *low)) {
        *low = fmax(*low - room, -DBL_MAX);
        *high = fmin(*high + room, DBL_MAX);
    }
}

static void find_ranges(struct canvas *c, const struct plot *p)
{
    find_range(&c->low_x, &c->high_x, p, 'x');
    find_range(&c->low_y, &c->high_y, p, 'y');
    if (c->is_log_x && !(c->high_x > c->low_x)) {
        c->low_x /= 2;
        c->high_x *= 2;
    }
    widen_range(&c->low_x, &c->high_x);
    widen_range(&c->low_y, &c->high_y);
}

/* The position of v among n dots. Computed from halves, because high - low may overflow; half of the smallest
 * number is 0. */
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

enum { PICTURE_MAX = 256 << 20, X_PIXELS = 120, Y_PIXELS = 60 /* for one tick */ };

/* Between gnuplot's single quotes only the quote itself is special, so no label becomes a command. */
static void put_quoted(FILE *f, const char *text)
{
    fputc('\'', f);
    for (; *text; text++)
        if (*text == '\'')
            fputs("''", f);
        else if ((unsigned char)*text >= ' ')
            fputc(*text, f);
    fputc('\'', f);
}

/* The ticks are those of the terminal: gnuplot's own have many digits and overlap. */
static void put_ticks(FILE *f, const struct plot *p, char axis, int most)
{
    double low, high, ticks[PLOT_TICKS];
    char text[PLOT_NUMBER];
    int n;

    find_range(&low, &high, p, axis);
    n = plot_ticks(ticks, most, low, high, axis == 'x' && p->is_log_x);
    if (high > low && axis == 'x')
        fprintf(f, "set xrange [%.17g:%.17g]\n", low, high);
    fprintf(f, "set %ctics (", axis);
    for (int i = 0; i < n; i++) {
        fputs(i > 0 ? ", " : "", f);
        put_quoted(f, plot_number(text, ticks[i], axis == 'x' ? p->x_unit : p->y_unit));
        fprintf(f, " %.17g", ticks[i]);
    }
    fputs(")\n", f);
}

static void put_script(FILE *f, const struct plot *p, const char *terminal, int width, int height)
{
    const char *comma = "";

    fprintf(f, "set terminal %s size %d,%d noenhanced\nset key above\nset grid\n%s", terminal, width, height,
            p->is_log_x ? "set logscale x\n" : "");
    put_ticks(f, p, 'x', width / X_PIXELS);
    put_ticks(f, p, 'y', height / Y_PIXELS);
    fputs("set xlabel ", f);
    put_quoted(f, p->x_name);
    fprintf(f, "%s\nset ylabel ", p->is_log_x ? ".' (logarithmic)'" : "");
    put_quoted(f, p->y_name);
    fputs("\nplot ", f);
    for (size_t i = 0; i < p->n; i++) {
        if (p->curves[i].n == 0)
            continue;
        fprintf(f, "%s'-' with lines linewidth 2 title ", comma);
        put_quoted(f, p->curves[i].label);
        comma = ", ";
    }
    fputc('\n', f);
    for (size_t i = 0; i < p->n; i++) {
        for (size_t k = 0; k < p->curves[i].n; k++)
            fprintf(f, "%.17g %.17g\n", p->curves[i].x[k], p->curves[i].y[k]);
        if (p->curves[i].n > 0)
            fputs("e\n", f);
    }
}

/* *fd: a file in memory with the script; the caller closes it. */
static int make_script(int *fd, const struct plot *p, const char *terminal, int width, int height,
                       struct err *e)
{
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);

    if (!f)
        return err_set(e, ERR_NOMEM, "no memory for the plot");
    put_script(f, p, terminal, width, height);
    *fd = fclose(f) == 0 ? file_make_in_memory(text, size, e)
                         : err_set(e, ERR_NOMEM, "no memory for the plot");
    free(text);
    return *fd < 0 ? e->code : 0;
}

/* gnuplot reads and writes files in memory: the result's name is in no command, and a full disk, which
 * gnuplot does not report, cannot leave half a picture. */
static int draw_picture(int script, int picture, struct err *e)
{
    char program[] = "gnuplot", name[] = "/proc/self/fd/3";
    char *argv[] = {program, name, NULL};
    struct child_how how = {.argv = argv, .folder = "/", .out = picture, .err = 2, .extra = script};
    struct child c;

    if (child_start(&c, &how, e) < 0) {
        err_set(e, ERR_NOT_FOUND, "gnuplot draws --png and --svg, and is not installed");
        return err_hint(e, "apt-get install gnuplot-nox; without these options the plot is drawn here.");
    }
    return child_wait(&c) == 0 ? 0 : err_set(e, ERR_IO, "gnuplot failed");
}

int plot_gnuplot(const struct plot *p, const char *terminal, const char *path, int width, int height,
                 struct err *e)
{
    int script = -1, picture = file_make_in_memory("", 0, e);
    char name[FILE_FD_PATH];
    char *bytes = NULL;
    size_t len = 0;
    int rc;

    if (picture < 0)
        return picture;
    file_fd_path(name, picture);
    rc = make_script(&script, p, terminal, width, height, e);
    if (rc == 0)
        rc = draw_picture(script, picture, e);
    if (rc == 0)
        rc = file_read(&bytes, &len, name, PICTURE_MAX, e);
    if (rc == 0)
        rc = file_write(path, bytes, len, 0644, e);
    free(bytes);
    close(picture);
    if (script >= 0)
        close(script);
    return rc;
}
