#include "runner/exchange/aggregators/aggregators.h"

#include <stdlib.h>

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

void aggregate_sort(double *v, int n)
{
    qsort(v, (size_t)n, sizeof *v, compare);
}

aggregate_function *aggregate_of(enum aggregate_kind kind, bool of_statistics)
{
#define ROW(constant, name, a, b, function, statistics) [constant] = {function, statistics},
    static aggregate_function *const functions[AGGREGATE_KINDS][2] = {AGGREGATORS(ROW)};
#undef ROW

    return functions[kind][of_statistics];
}
