#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/child.h"
#include "shared/file.h"
#include "submit/plot/plot.h"
#include "submit/temp.h"

enum { PICTURE_MAX = 256 << 20 };

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

static void put_script(FILE *f, const struct plot *p, const char *terminal, int width, int height)
{
    const char *comma = "";

    fprintf(f,
            "set terminal %s size %d,%d noenhanced\nset output 'picture'\nset key outside bottom\nset grid\n",
            terminal, width, height);
    fputs("set xlabel ", f);
    put_quoted(f, p->x_name);
    fputs("\nset ylabel ", f);
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

static int write_script(const char *path, const struct plot *p, const char *terminal, int width, int height,
                        struct err *e)
{
    FILE *f = fopen(path, "we");

    if (!f)
        return err_errno(e, ERR_IO, "%s", path);
    put_script(f, p, terminal, width, height);
    return fclose(f) == 0 ? 0 : err_errno(e, ERR_IO, "%s", path);
}

/* It reads and writes in a folder of its own, so that the name of the result is in no command. */
static int draw(const char *folder, const char *path, struct err *e)
{
    char program[] = "gnuplot", script[] = "script", picture[PATH_MAX];
    char *argv[] = {program, script, NULL};
    struct child_how how = {.argv = argv, .folder = folder, .out = -1, .err = 2};
    struct child c;
    size_t len;
    char *bytes;
    int rc;

    if (child_start(&c, &how, e) < 0) {
        err_set(e, ERR_NOT_FOUND, "gnuplot draws --png and --svg, and is not installed");
        return err_hint(e, "apt-get install gnuplot-nox; without these options the plot is drawn here.");
    }
    if (child_wait(&c) != 0)
        return err_set(e, ERR_IO, "gnuplot failed");
    if (file_join(picture, sizeof picture, folder, "picture", e) < 0 ||
        file_read(&bytes, &len, picture, PICTURE_MAX, e) < 0)
        return e->code;
    rc = file_write(path, bytes, len, 0644, e);
    free(bytes);
    return rc;
}

int plot_gnuplot(const struct plot *p, const char *terminal, const char *path, int width, int height,
                 struct err *e)
{
    char script[PATH_MAX];
    struct temp t;
    int rc;

    if (temp_open(&t, e) < 0)
        return e->code;
    rc = file_join(script, sizeof script, t.path, "script", e) < 0 ||
                 write_script(script, p, terminal, width, height, e) < 0 || draw(t.path, path, e) < 0
             ? e->code
             : 0;
    temp_close(&t);
    return rc;
}
