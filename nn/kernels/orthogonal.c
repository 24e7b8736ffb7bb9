#include "nn/kernels/orthogonal.h"

#include <math.h>
#include <string.h>

#include "nn/kernels/matmul.h"
#include "shared/base/compiler.h"

enum { STEPS = 5 };

static size_t packed_size(size_t high, size_t wide)
{
    size_t most = matmul_pack_size((int)high, (int)wide), square = matmul_pack_size((int)high, (int)high);

    return most > square ? most : square;
}

/* The matrix and its successor, their products with themselves, and what matmul_exact() packs. */
size_t orthogonal_work(size_t rows, size_t cols)
{
    size_t high = rows < cols ? rows : cols, wide = rows < cols ? cols : rows;

    return 2 * high * wide + 2 * high * high + packed_size(high, wide);
}

/* y = s x + t y */
FAST static void add_scaled(float *restrict y, const float *restrict x, size_t n, float s, float t)
{
    for (size_t i = 0; i < n; i++)
        y[i] = s * x[i] + t * y[i];
}

FAST static void scale_matrix(float *x, size_t n, float by)
{
    for (size_t i = 0; i < n; i++)
        x[i] *= by;
}

static void turn_matrix(float *to, const float *from, size_t rows, size_t cols)
{
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < cols; j++)
            to[j * rows + i] = from[i * cols + j];
}

static double square_sum(const float *x, size_t n)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += (double)x[i] * (double)x[i];
    return sum;
}

void orthogonal_replace(float *x, size_t rows, size_t cols, float *work)
{
    size_t high = rows < cols ? rows : cols, wide = rows < cols ? cols : rows, n = rows * cols;
    float *now = work, *next = now + n, *a = next + n, *aa = a + high * high, *space = aa + high * high;
    int h = (int)high, w = (int)wide;

    if (rows > cols)
        turn_matrix(now, x, rows, cols);
    else
        memcpy(now, x, n * sizeof *now);
    scale_matrix(now, n, (float)(1 / (sqrt(square_sum(now, n)) + 1e-7)));
    for (int t = 0; t < STEPS; t++) {
        float *old = now;

        matmul_exact(true, true, h, h, w, now, now, space, a);
        matmul_exact(false, true, h, h, h, a, a, space, aa);
        add_scaled(aa, a, high * high, -4.7750f, 2.0315f);
        matmul_exact(false, false, h, w, h, aa, now, space, next);
        add_scaled(next, now, n, 3.4445f, 1);
        now = next;
        next = old;
    }
    if (rows > cols)
        turn_matrix(x, now, cols, rows);
    else
        memcpy(x, now, n * sizeof *x);
}
