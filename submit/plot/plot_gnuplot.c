#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "shared/base/child.h"
#include "shared/base/file.h"
#include "shared/base/memory_file.h"
#include "submit/plot/plot.h"

enum { PICTURE_MAX = 256 << 20, X_PIXELS = 120, Y_PIXELS = 60 /* for one tick */ };

/* In gnuplot's single quotes, where only these are special: no name becomes a command. */
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

/* The same ticks as on the terminal: gnuplot's own, of many digits, run into each other. */
static void put_ticks(FILE *f, const struct plot *p, char axis, int most)
{
    double low = INFINITY, high = -INFINITY, ticks[PLOT_TICKS];
    char text[PLOT_NUMBER];
    int n;

    for (size_t i = 0; i < p->n; i++)
        for (size_t k = 0; k < p->curves[i].n; k++) {
            double v = axis == 'x' ? p->curves[i].x[k] : p->curves[i].y[k];

            low = fmin(low, v);
            high = fmax(high, v);
        }
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

/* A file in memory with the script. */
static int make_script(int *fd, const struct plot *p, const char *terminal, int width, int height,
                       struct err *e)
{
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);

    if (!f)
        return err_set(e, ERR_NOMEM, "no memory for the plot");
    put_script(f, p, terminal, width, height);
    *fd = fclose(f) == 0 ? memory_file_make(text, size, e) : err_set(e, ERR_NOMEM, "no memory for the plot");
    free(text);
    return *fd < 0 ? e->code : 0;
}

/* It reads and writes files in memory: the name of the result is in no command, and no full disk makes half a
 * picture, of which gnuplot says nothing. */
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
    int script = -1, picture = memory_file_make("", 0, e);
    char name[MEMORY_FILE_PATH];
    char *bytes = NULL;
    size_t len = 0;
    int rc;

    if (picture < 0)
        return picture;
    memory_file_path(name, picture);
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
