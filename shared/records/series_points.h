/* series_points -- a curve of at most so many points, however many rows it is made of: when they are too
 * many, neighbours are merged, and of two the later one's values remain. So each value is one that a row
 * has, not a mean of neighbours, and the last row is always among the points. */
#ifndef PSGD_SERIES_POINTS_H
#define PSGD_SERIES_POINTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* `{0}` has no points. */
struct series_points {
    struct point *points; /* n of them, of n_names values each, in the order of their keys */
    size_t n, n_held, n_names;
    size_t last;    /* the point of the last row: the next one mostly belongs to it, or to the one behind */
    unsigned shift; /* a point has the last of up to 2^shift keys, those of equal ceil(key / 2^shift) */
};

struct point_value {
    uint64_t key;    /* the last key of the point that has a value */
    double sum;      /* over the rows of that key, times their weights */
    double weight;   /* of those rows; 0: missing */
    double min, max; /* over the rows of all its keys; without NaN, unless all are */
    bool has_nan;    /* one of these rows is NaN: the point's value is, too, so that it is not overlooked */
};

/* A point is followed by its values. */
struct point {
    uint64_t key; /* the last one */
    double x;     /* the sum over the rows of that key */
    uint64_t n;   /* those rows */
};

void series_points_clear(struct series_points *p);

/* Adds a row of n_names values; RECORD_MISSING is none. Rows may come in any order of their keys, at most
 * 2^62, and those of one key are added up, each value with its weight, above 0 (NULL: all 1). `most`, at
 * least 2, is the number of points allowed. Returns a negative number without memory. */
int series_points_put(struct series_points *p, size_t most, uint64_t key, double x, const double *values,
                      const double *weights);
/* Merges neighbours until there are at most `most` points. */
void series_points_reduce(struct series_points *p, size_t most);

struct point *series_points_at(const struct series_points *p, size_t i);
struct point_value *point_values(struct point *b);

#endif
