#include "shared/records/series_points.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "shared/records/record.h"

static size_t point_size(const struct series_points *p)
{
    return sizeof(struct point) + p->n_names * sizeof(struct point_value);
}

struct point *series_points_at(const struct series_points *p, size_t i)
{
    return (struct point *)((char *)p->points + i * point_size(p));
}

struct point_value *point_values(struct point *b)
{
    return (struct point_value *)(b + 1);
}

void series_points_clear(struct series_points *p)
{
    free(p->points);
    *p = (struct series_points){0};
}

/* Returns the number of the point to which a key belongs. It is rounded up, so that a point keeps the key
 * that is a multiple of 2^shift. */
static uint64_t place_of_key(const struct series_points *p, uint64_t key)
{
    return (key + ((uint64_t)1 << p->shift) - 1) >> p->shift;
}

static void see_extremes(struct point_value *v, double min, double max)
{
    if (isnan(v->min) || min < v->min)
        v->min = min;
    if (isnan(v->max) || max > v->max)
        v->max = max;
}

/* Only the rows of the last key count, so the result does not depend on the order of the rows. */
static void add_value(struct point_value *v, uint64_t key, double value, double weight)
{
    if (v->weight == 0) {
        *v = (struct point_value){key, weight * value, weight, value, value, isnan(value)};
        return;
    }
    see_extremes(v, value, value);
    v->has_nan |= isnan(value);
    if (key > v->key) {
        v->key = key;
        v->sum = weight * value;
        v->weight = weight;
    } else if (key == v->key) {
        v->sum += weight * value;
        v->weight += weight;
    }
}

static void add_point_row(const struct series_points *p, struct point *b, uint64_t key, double x,
                          const double *values, const double *weights)
{
    struct point_value *v = point_values(b);

    if (key > b->key) {
        b->key = key;
        b->x = x;
        b->n = 1;
    } else if (key == b->key) {
        b->x += x;
        b->n++;
    }
    for (size_t k = 0; k < p->n_names; k++)
        if (values[k] != RECORD_MISSING)
            add_value(&v[k], key, values[k], weights ? weights[k] : 1);
}

/* Merges `later`, which has the higher keys, into `to`. */
static void merge_points(const struct series_points *p, struct point *to, struct point *later)
{
    struct point_value *t = point_values(to);
    const struct point_value *l = point_values(later);

    *to = *later;
    for (size_t k = 0; k < p->n_names; k++) {
        const struct point_value before = t[k];

        if (l[k].weight == 0)
            continue;
        t[k] = l[k];
        if (before.weight > 0)
            see_extremes(&t[k], before.min, before.max);
        t[k].has_nan |= before.weight > 0 && before.has_nan;
    }
}

static void halve(struct series_points *p)
{
    size_t n = 0;

    p->shift++;
    for (size_t i = 0; i < p->n; i++) {
        struct point *b = series_points_at(p, i);
        struct point *last = n > 0 ? series_points_at(p, n - 1) : NULL;

        if (last && place_of_key(p, last->key) == place_of_key(p, b->key))
            merge_points(p, last, b);
        else if (n++ < i)
            memcpy(series_points_at(p, n - 1), b, point_size(p));
    }
    p->n = n;
}

void series_points_reduce(struct series_points *p, size_t most)
{
    while (p->n > most)
        halve(p);
}

static bool has_place(const struct series_points *p, size_t i, uint64_t place)
{
    return i < p->n && place_of_key(p, series_points_at(p, i)->key) == place;
}

/* Returns the first point whose place is not before this one, p->n if there is none. */
static size_t find_point(const struct series_points *p, uint64_t place)
{
    size_t low = 0;
    size_t high = p->n;

    for (size_t i = p->last; i <= p->last + 1; i++)
        if (has_place(p, i, place))
            return i;
    if (p->n > 0 && place_of_key(p, series_points_at(p, p->n - 1)->key) < place)
        return p->n;
    while (low < high) {
        size_t middle = (low + high) / 2;

        if (place_of_key(p, series_points_at(p, middle)->key) < place)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Makes room for a point at `at`, all zeros. */
static int insert(struct series_points *p, size_t most, size_t at)
{
    size_t held = p->n_held < 16 ? 16 : p->n_held * 2;

    if (p->n == p->n_held) {
        void *moved;

        held = held > most + 1 && p->n <= most ? most + 1 : held;
        moved = realloc(p->points, held * point_size(p));
        if (!moved)
            return -1;
        p->points = moved;
        p->n_held = held;
    }
    memmove(series_points_at(p, at + 1), series_points_at(p, at), (p->n - at) * point_size(p));
    memset(series_points_at(p, at), 0, point_size(p));
    p->n++;
    return 0;
}

int series_points_put(struct series_points *p, size_t most, uint64_t key, double x, const double *values,
                      const double *weights)
{
    uint64_t place = place_of_key(p, key);
    size_t at = find_point(p, place);

    p->last = at;
    if (has_place(p, at, place)) {
        add_point_row(p, series_points_at(p, at), key, x, values, weights);
        return 0;
    }
    if (insert(p, most, at) < 0)
        return -1;
    series_points_at(p, at)->key = key;
    add_point_row(p, series_points_at(p, at), key, x, values, weights);
    series_points_reduce(p, most);
    return 0;
}
