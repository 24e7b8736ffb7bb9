#include "nn/kernels/matmul.h"

#include <cblas.h>
#include <stddef.h>

#include "nn/kernels/blas.h"
#include "nn/kernels/cpu.h"
#include "nn/kernels/narrow.h"
#include "nn/kernels/onednn.h"

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
