/* series_points -- a curve with a bounded number of points, made of any number of rows: when there are too
 * many points, neighbours are merged, and the merged point has the values of the later one. So each value of
 * a point is a row's value, not a mean of neighbours, and the last row is always among the points. */
#ifndef PSGD_SERIES_POINTS_H
#define PSGD_SERIES_POINTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* `{0}` has no points. */
struct series_points {
    struct point *points; /* n of them, of n_names values each, in the order of their keys */
    size_t n, n_held, n_names;
    size_t last; /* the point of the last row: the next row mostly belongs to it, or to the point after it */
    unsigned shift; /* a point has the last of up to 2^shift keys: those with the same ceil(key / 2^shift) */
};

struct point_value {
    uint64_t key;    /* the last key of the point that has a value */
    double sum;      /* of the values in the rows of that key, times their weights */
    double weight;   /* sum of these weights; 0: no value */
    double min, max; /* of the values in the rows of all its keys; NaN only if all are */
    bool has_nan;    /* a value in these rows is NaN, and the point's value is then NaN, too */
};

/* Its values, struct point_value, follow it in memory. */
struct point {
    uint64_t key; /* the last of its keys */
    double x;     /* the sum over the rows of that key */
    uint64_t n;   /* the number of these rows */
};

void series_points_clear(struct series_points *p);

/* Adds a row of n_names values, of which RECORD_MISSING stands for no value. Rows may come in any order of
 * their keys, which are at most 2^62. Rows of one key are added up, each value times its weight, above 0
 * (NULL: all weights are 1). `most`, at least 2, limits the number of points. Returns a negative number if
 * memory is short. */
int series_points_put(struct series_points *p, size_t most, uint64_t key, double x, const double *values,
                      const double *weights);
/* Merges neighbours until there are at most `most` points. */
void series_points_reduce(struct series_points *p, size_t most);

struct point *series_points_at(const struct series_points *p, size_t i);
struct point_value *point_values(struct point *b);

#endif
