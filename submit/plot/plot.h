/* plot -- curves of one or more runs, drawn with characters on stdout, or by gnuplot into a file. */
#ifndef PSGD_SUBMIT_PLOT_H
#define PSGD_SUBMIT_PLOT_H

#include <stdbool.h>
#include <stddef.h>

#include "shared/base/err.h"

enum { PLOT_WIDTH_MAX = 10000, PLOT_HEIGHT_MAX = 10000, PLOT_TICKS = 40, PLOT_NUMBER = 32 };

struct plot_curve {
    const char *label; /* borrowed */
    double *x, *y;     /* (n), finite */
    size_t n, n_held;
};

struct plot {
    struct plot_curve *curves;
    size_t n;
    const char *x_name, *y_name; /* with the unit */
    const char *x_unit, *y_unit; /* of numbers on the axis, as "B"; "": none */
    bool is_log_x;               /* no x is 0 or less */
};

/* ERR_NOMEM. */
int plot_add(struct plot_curve *c, double x, double y, struct err *e);

/* True if one curve ends at more than ten times the x of another: a logarithmic axis shows both better. */
bool plot_is_wide(const struct plot *p);
/* Drops the points with an x of 0 or less, which a logarithmic axis cannot show. */
void plot_drop_without_log(struct plot *p);

/* Fills `out` with round numbers between low and high, at least one and at most `most`; returns their
 * number. */
int plot_ticks(double out[PLOT_TICKS], int most, double low, double high, bool is_log);
/* "132 MB", "11.2 k", "0.05". */
const char *plot_number(char out[PLOT_NUMBER], double v, const char *unit);

struct plot_look {
    int width, height; /* in characters, with axes; at least 20 by 6 */
    bool is_utf8;      /* braille characters; else ASCII */
    bool has_colors;   /* of ANSI; without them each of several curves has its own letter */
};

/* ERR_NOMEM. */
int plot_print(const struct plot *p, const struct plot_look *look, struct err *e);

/* `terminal`: png or svg; width and height in pixels. ERR_NOT_FOUND: gnuplot is not installed. ERR_IO: it
 * failed, or `path` cannot be written. */
int plot_gnuplot(const struct plot *p, const char *terminal, const char *path, int width, int height,
                 struct err *e);

#endif
