#include "nn/kernels/matmul.h"

#include <cblas.h>
#include <math.h>
#include <string.h>

#include "nn/kernels/blas.h"
#include "nn/kernels/cpu.h"
#include "nn/kernels/lanes.h"
#include "nn/kernels/narrow.h"
#include "nn/kernels/onednn.h"
#include "nn/kernels/parallel.h"
#include "shared/base/compiler.h"

/* On other processors than x86-64, oneDNN's products are loops in C++, and OpenBLAS' are assembly. */
static bool has_onednn(void)
{
    return CPU_IS_X86 && blas_allows_onednn();
}

/* On AVX-512 OpenBLAS has special kernels for these, which copy neither operand. */
static bool is_small(int m, int n, int k)
{
    return (double)m * n * k <= 1e6;
}

/* is_narrow() for processors with AVX-512 on which AVX2 loops reach full speed. */
static bool is_narrow_on_avx512(bool a_t, int m, int n, int k)
{
    if (is_small(m, n, k))
        return !a_t && n >= 9 && n <= 11 && m >= 64 && k >= 512 && k <= NARROW_DEPTH;
    return (n > 1 || !has_onednn()) && k >= (a_t ? 32 : 128);
}

/* From these k on the loops of narrow.h are faster than OpenBLAS, or than both libraries; a single column
 * is faster with oneDNN (docs/notes/engine.md has the figures). */
static bool is_narrow(bool a_t, int m, int n, int k)
{
    if (blas_threads() > 1 || m < NARROW_ROWS || n > NARROW_COLS)
        return false;
    if (cpu_has_avx512())
        return cpu_halves_avx512() && is_narrow_on_avx512(a_t, m, n, k);
    if (!has_onednn())
        return k >= (a_t ? 16 : 64);
    return n > 1 && k >= (a_t ? 16 : n <= 5 ? 128 : 512);
}

/* oneDNN reads rows without packing them, unless the product is large. On AVX2, rows of 512, 1024, ...
 * floats map to the same few sets of the first-level cache. */
static bool rows_collide(bool a_t, bool b_t, int m, int n)
{
    if (cpu_has_avx512())
        return false;
    return a_t && !b_t && (m % 512 == 0 || n % 512 == 0) && (n < 384 || m <= 512 * 512 / n);
}

/* If b is transposed, rows collide on AVX-512, too. For few rows of a, a transposed copy of b costs more
 * than it saves; for many it saves little. */
static bool is_transposed_first(bool a_t, bool b_t, int m, int n, int k)
{
    return cpu_halves_avx512() && blas_threads() == 1 && !a_t && b_t && m >= 16 && m <= 128 && n > 16 &&
           k % 512 == 0;
}

/* OpenBLAS, which packs, is up to 1.6 times as fast if rows collide, or if many long columns are summed.
 * Otherwise oneDNN is 1.1 to 1.3 times as fast, and 2 times for k = 10. On AVX-512 OpenBLAS is the faster
 * one for small products, unless b is transposed and has many rows or short ones, and for large ones of two
 * to twelve columns (docs/notes/engine.md has the figures). */
static bool is_onednns(bool a_t, bool b_t, int m, int n, int k)
{
    if (cpu_has_avx512())
        return is_small(m, n, k) ? b_t && (n > 64 || k <= 16) : n == 1 || n > 12 || k <= 16;
    if (a_t)
        return k <= 512 && !rows_collide(a_t, b_t, m, n);
    return k <= 64 || (b_t ? k % 1024 : n % 512) != 0;
}

void matmul(bool a_t, bool b_t, int m, int n, int k, const float *a, const float *b, float beta, float *c)
{
    if (is_narrow(a_t, m, n, k) && narrow_matmul(a_t, b_t, m, n, k, a, b, beta, c))
        return;
    if (has_onednn() && is_transposed_first(a_t, b_t, m, n, k) &&
        onednn_matmul_transposed(m, n, k, a, b, beta, c))
        return;
    if (has_onednn() && is_onednns(a_t, b_t, m, n, k) && onednn_matmul(a_t, b_t, m, n, k, a, b, beta, c))
        return;
    if (has_onednn() && rows_collide(a_t, b_t, m, n) && onednn_matmul_copied(m, n, k, a, b, beta, c))
        return;
    cblas_sgemm(CblasRowMajor, a_t ? CblasTrans : CblasNoTrans, b_t ? CblasTrans : CblasNoTrans, m, n, k, 1,
                a, a_t ? m : k, b, b_t ? k : n, beta, c, n);
}

void matmul_repeat_row(float *out, const float *row, size_t n, size_t width)
{
    for (size_t i = 0; i < n; i++)
        memcpy(out + i * width, row, width * sizeof *out);
}

FAST void matmul_add_rows(float *restrict sum, const float *restrict a, size_t n, size_t width)
{
    for (size_t i = 0; i < n; i++, a += width)
        for (size_t k = 0; k < width; k++)
            sum[k] += a[k];
}

/* Twelve sums of eight lanes hide the latency of additions and fit sixteen registers with two vectors of b
 * and a value of a. With four lanes there are 24 sums in 32 registers. */
enum { ROWS = 6, COLS = 16, PARTS = COLS / LANES };
enum { PARALLEL_PRODUCTS = 1 << 19 /* they take as long as starting threads some ten times */ };

/* Several threads, and AVX-512 where its vectors are twice as fast, are left to the libraries. On processors
 * that halve AVX-512, oneDNN's loop is a little faster, but slow for a transposed operand. */
static bool is_packed(bool b_t)
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

size_t matmul_pack_size(int n, int k)
{
    size_t plain = panels_size((size_t)n, (size_t)k), transposed = panels_size((size_t)k, (size_t)n);

    return plain > transposed ? plain : transposed;
}

/* Columns j .. j + COLS - 1 of op(b) (depth, cols). */
static void pack_panel(bool b_t, size_t j, size_t cols, size_t depth, const float *b, float *panel)
{
    size_t down = b_t ? 1 : cols, right = b_t ? depth : 1;

    for (size_t p = 0; p < depth; p++)
        for (size_t q = 0; q < COLS; q++)
            *panel++ = j + q < cols ? b[p * down + (j + q) * right] : 0;
}

void matmul_pack(struct matmul_packed *packed, bool b_t, int n, int k, const float *b, float *space)
{
    *packed = (struct matmul_packed){
        .is_t = b_t, .n = n, .k = k, .b = b, .panels = is_packed(b_t) ? space : NULL};
    for (size_t j = 0; packed->panels && j < (size_t)n; j += COLS)
        pack_panel(b_t, j, (size_t)n, (size_t)k, b, space + j * (size_t)k);
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

/* Columns j .. j + COLS - 1 of c (rows, n), of which `panel` are those of the second operand. */
static void one_panel(size_t rows, size_t j, size_t n, size_t k, const float *a, const float *panel,
                      bool adds, float *c)
{
    for (size_t i = 0, high; i < rows; i += high) {
        high = rows - i < ROWS ? rows - i : ROWS;
        if (n - j < COLS)
            narrow_tile(high, n - j, k, a + i * k, panel, adds, c + i * n + j, n);
        else
            tiles[high - 1](k, a + i * k, panel, adds, c + i * n + j, n);
    }
}

void matmul_by_packed(const struct matmul_packed *packed, int m, const float *a, float beta, float *c)
{
    size_t k = (size_t)packed->k, n = (size_t)packed->n;
    const float *panel = packed->panels;

    if (!panel) {
        matmul(false, packed->is_t, m, packed->n, packed->k, a, packed->b, beta, c);
        return;
    }
    for (size_t j = 0; j < n; j += COLS, panel += k * COLS)
        one_panel((size_t)m, j, n, k, a, panel, beta != 0, c);
}

void matmul_exact_loop(bool b_t, int m, int n, int k, const float *a, const float *b, float *c)
{
    size_t cols = (size_t)n, depth = (size_t)k;
    size_t down = b_t ? 1 : cols, right = b_t ? depth : 1;

    for (size_t i = 0; i < (size_t)m; i++)
        for (size_t j = 0; j < cols; j++) {
            float sum = 0;

            for (size_t p = 0; p < depth; p++)
                sum = fmaf(a[i * depth + p], b[p * down + j * right], sum);
            c[i * cols + j] = sum;
        }
}

struct exact_product {
    bool b_t, is_symmetric;
    size_t m, n, k;
    const float *a, *b;
    float *panels, *c;
};

/* Columns of c: those of panels `from` .. `to` - 1. */
static void exact_panels(void *arg, int k, size_t from, size_t to)
{
    const struct exact_product *x = arg;

    (void)k;
    for (size_t t = from; t < to; t++) {
        size_t j = t * COLS;
        float *panel = x->panels + j * x->k;

        pack_panel(x->b_t, j, x->n, x->k, x->b, panel);
        one_panel(x->is_symmetric && j + COLS < x->m ? j + COLS : x->m, j, x->n, x->k, x->a, panel, false,
                  x->c);
        for (size_t i = 0; x->is_symmetric && i < j; i++)
            for (size_t q = j; q < j + COLS && q < x->n; q++)
                x->c[q * x->n + i] = x->c[i * x->n + q];
    }
}

void matmul_exact(bool b_t, bool is_symmetric, int m, int n, int k, const float *a, const float *b,
                  float *space, float *c)
{
    struct exact_product x = {.b_t = b_t,
                              .is_symmetric = is_symmetric,
                              .m = (size_t)m,
                              .n = (size_t)n,
                              .k = (size_t)k,
                              .a = a,
                              .b = b,
                              .panels = space,
                              .c = c};
    size_t n_panels = (x.n + COLS - 1) / COLS;

    if (!cpu_fuses())
        matmul_exact_loop(b_t, m, n, k, a, b, c);
    else if ((double)m * n * k >= PARALLEL_PRODUCTS)
        parallel_for(n_panels, PARALLEL_MOST, exact_panels, &x);
    else
        exact_panels(&x, 0, 0, n_panels);
}
