#include "nn/kernels/strip.h"

#include <string.h>

#include "nn/kernels/cpu.h"
#include "nn/kernels/lanes.h"

enum { PARTS = STRIP_COLS / LANES };

/* c (rows, parts x LANES). `rows` and `parts` are constants in every call: 6 x 2 sums of eight lanes hide the
 * latency of additions and fit sixteen registers, as in matmul.c. */
FUSED INLINE void tile(const size_t rows, const size_t parts, size_t k, struct strip_operand a,
                       const float *b, size_t ldb, float *c, size_t ldc)
{
    lanes sum[STRIP_ROWS][PARTS] = {0}, v[PARTS], w;

    _Pragma("GCC unroll 1") for (size_t p = 0; p < k; p++, b += ldb, a.at += a.col)
    {
        for (size_t q = 0; q < parts; q++) {
            LANES_READ(v[q], b + q * LANES);
            ONCE(v[q]);
        }
        for (size_t i = 0; i < rows; i++) {
            w = a.at[i * a.row] - (lanes){0};
            ONCE(w);
            for (size_t q = 0; q < parts; q++)
                sum[i][q] += w * v[q];
        }
    }
    for (size_t i = 0; i < rows; i++)
        for (size_t q = 0; q < parts; q++)
            LANES_WRITE(c + i * ldc + q * LANES, sum[i][q]);
}

/* One column of c. */
FUSED INLINE void column(size_t rows, size_t k, struct strip_operand a, const float *b, size_t ldb, float *c,
                         size_t ldc)
{
    for (size_t i = 0; i < rows; i++) {
        float sum = 0;

        for (size_t p = 0; p < k; p++)
            sum += a.at[i * a.row + p * a.col] * b[p * ldb];
        c[i * ldc] = sum;
    }
}

FUSED INLINE void strip(const size_t rows, size_t n, size_t k, struct strip_operand a, struct strip_operand b,
                        float *c, size_t ldc)
{
    size_t j = 0;

    for (; j + STRIP_COLS <= n; j += STRIP_COLS)
        tile(rows, PARTS, k, a, b.at + j, b.row, c + j, ldc);
    for (; j + LANES <= n; j += LANES)
        tile(rows, 1, k, a, b.at + j, b.row, c + j, ldc);
    for (; j < n; j++)
        column(rows, k, a, b.at + j, b.row, c + j, ldc);
}

typedef void (*strip_fn)(size_t rows, size_t n, size_t k, struct strip_operand a, struct strip_operand b,
                         float *c, size_t ldc);

FUSED static void fused_strip(size_t rows, size_t n, size_t k, struct strip_operand a, struct strip_operand b,
                              float *c, size_t ldc)
{
    if (rows == STRIP_ROWS)
        strip(STRIP_ROWS, n, k, a, b, c, ldc);
    else
        for (size_t i = 0; i < rows; i++, a.at += a.row)
            strip(1, n, k, a, b, c + i * ldc, ldc);
}

/* For processors without fused operations. */
static void plain_strip(size_t rows, size_t n, size_t k, struct strip_operand a, struct strip_operand b,
                        float *c, size_t ldc)
{
    for (size_t i = 0; i < rows; i++, a.at += a.row, c += ldc) {
        memset(c, 0, n * sizeof *c);
        for (size_t p = 0; p < k; p++) {
            const float *restrict row = b.at + p * b.row;
            const float w = a.at[p * a.col];

            for (size_t j = 0; j < n; j++)
                c[j] += w * row[j];
        }
    }
}

static inline size_t at_most(size_t a, size_t b)
{
    return a < b ? a : b;
}

void strip_matmul(enum strip_part part, size_t m, size_t n, size_t k, struct strip_operand a,
                  struct strip_operand b, float *c, size_t ldc)
{
    const strip_fn run = cpu_fuses() ? fused_strip : plain_strip;

    for (size_t i = 0; i < m; i += STRIP_ROWS) {
        size_t end = at_most(m, i + STRIP_ROWS), from = part == STRIP_A_UPPER ? at_most(i, k) : 0;
        size_t depth = (part == STRIP_A_LOWER ? at_most(k, end) : k) - from;
        size_t cols = part == STRIP_C_LOWER ? at_most(n, (end + STRIP_COLS - 1) / STRIP_COLS * STRIP_COLS)
                                            : n;

        run(end - i, cols, depth, (struct strip_operand){a.at + i * a.row + from * a.col, a.row, a.col},
            (struct strip_operand){b.at + from * b.row, b.row, b.col}, c + i * ldc, ldc);
    }
}
