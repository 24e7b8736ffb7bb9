#include "nn/kernels/rows.h"

#include <string.h>

#include "shared/base/fast.h"

void rows_repeat(float *out, const float *row, size_t n, size_t width)
{
    for (size_t i = 0; i < n; i++)
        memcpy(out + i * width, row, width * sizeof *out);
}

FAST void rows_add(float *restrict sum, const float *restrict a, size_t n, size_t width)
{
    for (size_t i = 0; i < n; i++, a += width)
        for (size_t k = 0; k < width; k++)
            sum[k] += a[k];
}
