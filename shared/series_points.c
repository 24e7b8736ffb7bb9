#include "shared/series_points.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "shared/record.h"

static size_t bucket_size(const struct series_points *p)
{
    return sizeof(struct bucket) + p->n_names * sizeof(struct bucket_value);
}

struct bucket *series_points_at(const struct series_points *p, size_t i)
{
    return (struct bucket *)((char *)p->buckets + i * bucket_size(p));
}

struct bucket_value *bucket_values(struct bucket *b)
{
    return (struct bucket_value *)(b + 1);
}

void series_points_clear(struct series_points *p)
{
    free(p->buckets);
    *p = (struct series_points){0};
}

void bucket_value_add(struct bucket_value *v, double value)
{
    bool is_first = v->n++ == 0;

    v->sum = is_first ? value : v->sum + value;
    if (is_first || isnan(v->min) || value < v->min)
        v->min = value;
    if (is_first || isnan(v->max) || value > v->max)
        v->max = value;
}

static void add_row(const struct series_points *p, struct bucket *b, double x, const double *values)
{
    struct bucket_value *v = bucket_values(b);

    b->n++;
    b->x += x;
    for (size_t k = 0; k < p->n_names; k++)
        if (values[k] != RECORD_MISSING)
            bucket_value_add(&v[k], values[k]);
}

static void merge(const struct series_points *p, struct bucket *to, struct bucket *from)
{
    struct bucket_value *t = bucket_values(to);
    const struct bucket_value *f = bucket_values(from);

    to->n += from->n;
    to->x += from->x;
    for (size_t k = 0; k < p->n_names; k++) {
        if (t[k].n == 0) {
            t[k] = f[k];
        } else if (f[k].n > 0) {
            t[k].sum += f[k].sum;
            t[k].n += f[k].n;
            if (isnan(t[k].min) || f[k].min < t[k].min)
                t[k].min = f[k].min;
            if (isnan(t[k].max) || f[k].max > t[k].max)
                t[k].max = f[k].max;
        }
    }
}

/* Each bucket with an even place is merged with the next one. */
static void halve(struct series_points *p)
{
    size_t last = 0;

    for (size_t i = 0; i < p->n; i++) {
        size_t to = (size_t)(((p->first + i) >> 1) - (p->first >> 1));

        if (i > 0 && to == last)
            merge(p, series_points_at(p, to), series_points_at(p, i));
        else if (to != i)
            memmove(series_points_at(p, to), series_points_at(p, i), bucket_size(p));
        last = to;
    }
    p->n = p->n > 0 ? last + 1 : 0;
    p->first >>= 1;
    p->shift++;
}

void series_points_reduce(struct series_points *p, size_t most)
{
    while (p->n > most)
        halve(p);
}

/* Makes room for n empty buckets more before or after those there. */
static int extend(struct series_points *p, size_t most, size_t n, bool is_before)
{
    size_t held = p->n_held;
    void *moved;

    if (p->n + n > held) {
        held = held < 16 ? 16 : held * 2;
        held = held < p->n + n ? p->n + n : held;
        held = held > most && p->n + n <= most ? most : held;
        moved = realloc(p->buckets, held * bucket_size(p));
        if (!moved)
            return -1;
        p->buckets = moved;
        p->n_held = held;
    }
    if (is_before)
        memmove(series_points_at(p, n), p->buckets, p->n * bucket_size(p));
    memset(series_points_at(p, is_before ? 0 : p->n), 0, n * bucket_size(p));
    p->n += n;
    return 0;
}

int series_points_append(struct series_points *p, size_t most, double x, const double *values)
{
    while (p->n == 0 || series_points_at(p, p->n - 1)->n >> p->shift > 0) {
        if (p->n >= most)
            halve(p);
        else if (extend(p, most, 1, false) < 0)
            return -1;
    }
    add_row(p, series_points_at(p, p->n - 1), x, values);
    return 0;
}

/* The place of a key among the buckets, which are extended to it or merged until it is near enough. */
static int find(size_t *place, struct series_points *p, size_t most, uint64_t key)
{
    for (;; halve(p)) {
        uint64_t k = key >> p->shift;

        if (p->n == 0)
            p->first = k;
        if (k < p->first && p->first - k + p->n <= most) {
            if (extend(p, most, (size_t)(p->first - k), true) < 0)
                return -1;
            p->first = k;
        } else if (k >= p->first + p->n && k - p->first < most) {
            if (extend(p, most, (size_t)(k - p->first) + 1 - p->n, false) < 0)
                return -1;
        }
        if (k >= p->first && k < p->first + p->n) {
            *place = (size_t)(k - p->first);
            return 0;
        }
    }
}

int series_points_put(struct series_points *p, size_t most, uint64_t key, double x, const double *values)
{
    size_t place;

    if (find(&place, p, most, key) < 0)
        return -1;
    add_row(p, series_points_at(p, place), x, values);
    return 0;
}
