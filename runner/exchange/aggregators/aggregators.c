#include "runner/exchange/aggregators/aggregators.h"

#include <stdlib.h>

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

void aggregate_sort(double *v, int n)
{
    qsort(v, (size_t)n, sizeof *v, compare_doubles);
}

aggregate_function *aggregate_of(enum aggregate_kind kind, bool of_statistics)
{
#define ROW(constant, name, a, b, function, statistics) [constant] = {function, statistics},
    static aggregate_function *const functions[AGGREGATE_KINDS][2] = {AGGREGATORS(ROW)};
#undef ROW

    return functions[kind][of_statistics];
}

static const struct aggregate_halves krum = {aggregate_krum_measure, aggregate_krum_take},
                                     geomedian = {aggregate_geomedian_measure, aggregate_geomedian_take};

const struct aggregate_halves *aggregate_halves(enum aggregate_kind kind)
{
    static const struct aggregate_halves *const halves[AGGREGATE_KINDS] = {
        [AGGREGATE_KRUM] = &krum, [AGGREGATE_GEOMEDIAN] = &geomedian};

    return halves[kind];
}

/* The measure is stored in `work`, before the room that `take` needs. */
static void measure_and_take(const struct aggregate_halves *h, float *out, const struct aggregate_input *in)
{
    struct aggregate_input rest = *in;

    rest.work += (size_t)in->n * (size_t)in->n;
    h->measure(in->work, out, &rest);
    h->take(out, &rest, in->work);
}

void aggregate_krum(float *out, const struct aggregate_input *in)
{
    measure_and_take(&krum, out, in);
}

void aggregate_geomedian(float *out, const struct aggregate_input *in)
{
    measure_and_take(&geomedian, out, in);
}
