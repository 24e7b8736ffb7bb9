/* plot -- curves of one or more runs, drawn with characters on stdout, or by gnuplot into a file. */
#ifndef PSGD_SUBMIT_PLOT_H
#define PSGD_SUBMIT_PLOT_H

#include <stdbool.h>
#include <stddef.h>

#include "shared/err.h"

enum { PLOT_WIDTH_MAX = 10000, PLOT_HEIGHT_MAX = 10000 };

struct plot_curve {
    const char *label; /* borrowed */
    double *x, *y;     /* (n), finite */
    size_t n, n_held;
};

struct plot {
    struct plot_curve *curves;
    size_t n;
    const char *x_name, *y_name; /* with the unit */
};

/* ERR_NOMEM. */
int plot_add(struct plot_curve *c, double x, double y, struct err *e);

struct plot_look {
    int width, height; /* in characters, with axes; at least 20 by 6 */
    bool is_utf8;      /* braille characters; else ASCII */
    bool has_colors;   /* ANSI; without, each of several curves has its own letter */
};

/* ERR_NOMEM. */
int plot_print(const struct plot *p, const struct plot_look *look, struct err *e);

/* `terminal`: png or svg; width and height in pixels. ERR_NOT_FOUND: gnuplot is not installed. ERR_IO: it
 * failed, or `path` cannot be written. */
int plot_gnuplot(const struct plot *p, const char *terminal, const char *path, int width, int height,
                 struct err *e);

#endif
