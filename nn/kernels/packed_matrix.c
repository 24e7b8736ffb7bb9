#include "nn/kernels/packed_matrix.h"

#include <string.h>

#include "nn/kernels/blas.h"
#include "nn/kernels/cpu.h"
#include "nn/kernels/lanes.h"
#include "nn/kernels/matmul.h"

/* Twelve sums of eight lanes hide the latency of additions and fit sixteen registers with two vectors of b
 * and a value of a. With four lanes there are 24 sums in 32 registers. */
enum { ROWS = 6, COLS = 16, PARTS = COLS / LANES };

/* Several threads, and AVX-512 where its vectors are twice as fast, are left to the libraries. On
 * processors that halve AVX-512, oneDNN's loop is a little faster, but slow for a transposed operand. */
static bool takes(bool b_t)
{
    if (!cpu_fuses() || blas_threads() > 1)
        return false;
    return !cpu_has_avx512() || (cpu_halves_avx512() && (b_t || !blas_allows_onednn()));
}

/* Rounded up to whole panels. */
static size_t panels_size(size_t n, size_t k)
{
    return (n + COLS - 1) / COLS * COLS * k;
}

size_t packed_matrix_size(int n, int k)
{
    size_t plain = panels_size((size_t)n, (size_t)k), transposed = panels_size((size_t)k, (size_t)n);

    return plain > transposed ? plain : transposed;
}

void packed_matrix_pack(struct packed_matrix *f, bool b_t, int n, int k, const float *b, float *space)
{
    size_t cols = (size_t)n, depth = (size_t)k;
    size_t down = b_t ? 1 : cols, right = b_t ? depth : 1;

    *f = (struct packed_matrix){.is_t = b_t, .n = n, .k = k, .b = b, .panels = takes(b_t) ? space : NULL};
    for (size_t j = 0; f->panels && j < cols; j += COLS)
        for (size_t p = 0; p < depth; p++)
            for (size_t q = 0; q < COLS; q++)
                *space++ = j + q < cols ? b[p * down + (j + q) * right] : 0;
}

/* c (rows, COLS), its rows `ldc` apart. `rows` is a constant in every call. */
FUSED INLINE void tile(const size_t rows, size_t k, const float *a, const float *panel, bool adds, float *c,
                       size_t ldc)
{
    lanes sum[ROWS][PARTS] = {0}, v[PARTS], w;

    for (size_t i = 0; adds && i < rows; i++)
        for (size_t q = 0; q < PARTS; q++)
            LANES_READ(sum[i][q], c + i * ldc + q * LANES);
    _Pragma("GCC unroll 1") for (size_t p = 0; p < k; p++, panel += COLS)
    {
        for (size_t q = 0; q < PARTS; q++) {
            LANES_READ(v[q], panel + q * LANES);
            ONCE(v[q]);
        }
        for (size_t i = 0; i < rows; i++) {
            w = a[i * k + p] - (lanes){0};
            ONCE(w);
            for (size_t q = 0; q < PARTS; q++)
                sum[i][q] += w * v[q];
        }
    }
    for (size_t i = 0; i < rows; i++)
        for (size_t q = 0; q < PARTS; q++)
            LANES_WRITE(c + i * ldc + q * LANES, sum[i][q]);
}

#define TILE_OF(n)                                                                                           \
    FUSED static void tile_##n(size_t k, const float *a, const float *panel, bool adds, float *c,            \
                               size_t ldc)                                                                   \
    {                                                                                                        \
        tile(n, k, a, panel, adds, c, ldc);                                                                  \
    }
TILE_OF(1)
TILE_OF(2)
TILE_OF(3)
TILE_OF(4)
TILE_OF(5)
TILE_OF(6)
static void (*const tiles[ROWS])(size_t k, const float *a, const float *panel, bool adds, float *c,
                                 size_t ldc) = {tile_1, tile_2, tile_3, tile_4, tile_5, tile_6};

/* Computes the last columns of c, which fill only a part of a panel. */
static void narrow_tile(size_t rows, size_t cols, size_t k, const float *a, const float *panel, bool adds,
                        float *c, size_t ldc)
{
    float out[ROWS * COLS] = {0};

    for (size_t i = 0; adds && i < rows; i++)
        memcpy(out + i * COLS, c + i * ldc, cols * sizeof *c);
    tiles[rows - 1](k, a, panel, adds, out, COLS);
    for (size_t i = 0; i < rows; i++)
        memcpy(c + i * ldc, out + i * COLS, cols * sizeof *c);
}

void packed_matrix_multiply(const struct packed_matrix *f, int m, const float *a, float beta, float *c)
{
    size_t k = (size_t)f->k, n = (size_t)f->n;
    const float *panel = f->panels;

    if (!panel) {
        matmul(false, f->is_t, m, f->n, f->k, a, f->b, beta, c);
        return;
    }
    for (size_t j = 0; j < n; j += COLS, panel += k * COLS)
        for (size_t i = 0, rows; i < (size_t)m; i += rows) {
            rows = (size_t)m - i < ROWS ? (size_t)m - i : ROWS;
            if (n - j < COLS)
                narrow_tile(rows, n - j, k, a + i * k, panel, beta != 0, c + i * n + j, n);
            else
                tiles[rows - 1](k, a + i * k, panel, beta != 0, c + i * n + j, n);
        }
}
