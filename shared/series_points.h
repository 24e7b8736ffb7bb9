/* series_points -- a curve of at most so many buckets, however many rows it is made of: when they are full,
 * neighbours are merged. */
#ifndef PSGD_SERIES_POINTS_H
#define PSGD_SERIES_POINTS_H

#include <stddef.h>
#include <stdint.h>

/* `{0}` has no buckets. */
struct series_points {
    struct bucket *buckets; /* n of them, of n_names values each */
    size_t n, n_held, n_names;
    uint64_t first; /* of points by key: the first bucket's key >> shift */
    unsigned shift; /* a bucket has up to 2^shift rows, or keys */
};

struct bucket_value {
    double sum, min, max; /* over rows; min and max without NaN, unless all are */
    uint64_t n;           /* 0: missing */
};

/* A bucket is followed by its values. */
struct bucket {
    uint64_t n; /* rows */
    double x;   /* their sum */
};

void series_points_clear(struct series_points *p);

/* Adds a row of n_names values; RECORD_MISSING is none. `most`, at least 2, is the number of buckets allowed.
 * By count: into the last bucket. By key: into that of the key, at most 2^63. Both return a negative number
 * without memory. */
int series_points_append(struct series_points *p, size_t most, double x, const double *values);
int series_points_put(struct series_points *p, size_t most, uint64_t key, double x, const double *values);
/* Merges neighbours until there are at most `most` buckets. */
void series_points_reduce(struct series_points *p, size_t most);

/* A bucket; one of points by key may have no rows. */
struct bucket *series_points_at(const struct series_points *p, size_t i);
struct bucket_value *bucket_values(struct bucket *b);

/* Adds a value to those of a bucket. */
void bucket_value_add(struct bucket_value *v, double value);

#endif
