/* row_mean -- means over one row, for the layers that normalize rows. Sums have the same number of lanes on
 * every processor, for the same bits. */
#ifndef PSGD_ROW_MEAN_H
#define PSGD_ROW_MEAN_H

#include <stddef.h>

enum { ROW_LANES = 16 };

static inline float row_mean_of(const float lane[ROW_LANES], size_t n)
{
    float sum = 0;

    for (size_t k = 0; k < ROW_LANES; k++)
        sum += lane[k];
    return sum / (float)n;
}

static inline float row_mean(const float *x, size_t n)
{
    float lane[ROW_LANES] = {0};
    size_t i = 0;

    for (; i + ROW_LANES <= n; i += ROW_LANES)
        for (size_t k = 0; k < ROW_LANES; k++)
            lane[k] += x[i + k];
    for (; i < n; i++)
        lane[i % ROW_LANES] += x[i];
    return row_mean_of(lane, n);
}

static inline float row_mean_product(const float *x, const float *y, size_t n)
{
    float lane[ROW_LANES] = {0};
    size_t i = 0;

    for (; i + ROW_LANES <= n; i += ROW_LANES)
        for (size_t k = 0; k < ROW_LANES; k++)
            lane[k] += x[i + k] * y[i + k];
    for (; i < n; i++)
        lane[i % ROW_LANES] += x[i] * y[i];
    return row_mean_of(lane, n);
}

#endif
