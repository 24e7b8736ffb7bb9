#include "nn/kernels/strip.h"

#include <string.h>

#include "nn/kernels/cpu.h"
#include "nn/kernels/lanes.h"

enum { PARTS = STRIP_COLS / LANES, FUSED_ROWS = 6, FEW_ROWS = 2 };

#ifdef __x86_64__
/* Sixteen lanes, for processors whose vectors of AVX-512 are twice as fast as those of AVX2. A value is
 * summed in the same order in every form, so that the bits are the same. */
enum { WIDE = 16, WIDE_PARTS = 2, WIDE_ROWS = 8 };
typedef float wide_lanes __attribute__((vector_size(WIDE * sizeof(float))));
#define FUSED_WIDE __attribute__((target("avx512f,avx2,fma")))
#endif

/* Defines tile(rows, parts, ...): c (rows, parts vectors). `rows` and `parts` are constants in every call:
 * twelve sums, or sixteen in the 32 registers of AVX-512, hide the latency of additions, as in matmul.c. */
#define TILE(tile, FUSED_FOR, vector, ROWS, PARTS)                                                           \
    FUSED_FOR INLINE void tile(const size_t rows, const size_t parts, size_t k, struct strip_operand a,      \
                               const float *b, size_t ldb, float *c, size_t ldc)                             \
    {                                                                                                        \
        enum { WIDTH = sizeof(vector) / sizeof(float) };                                                     \
        vector sum[ROWS][PARTS] = {0}, v[PARTS], w;                                                          \
                                                                                                             \
        _Pragma("GCC unroll 1") for (size_t p = 0; p < k; p++, b += ldb, a.at += a.col)                      \
        {                                                                                                    \
            for (size_t q = 0; q < parts; q++) {                                                             \
                LANES_READ(v[q], b + q * WIDTH);                                                             \
                ONCE(v[q]);                                                                                  \
            }                                                                                                \
            for (size_t i = 0; i < rows; i++) {                                                              \
                w = a.at[i * a.row] - (vector){0};                                                           \
                ONCE(w);                                                                                     \
                for (size_t q = 0; q < parts; q++)                                                           \
                    sum[i][q] += w * v[q];                                                                   \
            }                                                                                                \
        }                                                                                                    \
        for (size_t i = 0; i < rows; i++)                                                                    \
            for (size_t q = 0; q < parts; q++)                                                               \
                LANES_WRITE(c + i * ldc + q * WIDTH, sum[i][q]);                                             \
    }
TILE(tile, FUSED, lanes, FUSED_ROWS, PARTS)
#ifdef __x86_64__
TILE(wide_tile, FUSED_WIDE, wide_lanes, WIDE_ROWS, WIDE_PARTS)
#endif

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

FUSED static void fused_strip(size_t rows, size_t n, size_t k, struct strip_operand a, struct strip_operand b,
                              float *c, size_t ldc)
{
    if (rows == FUSED_ROWS) {
        strip(FUSED_ROWS, n, k, a, b, c, ldc);
        return;
    }
    for (; rows >= FEW_ROWS; rows -= FEW_ROWS, a.at += FEW_ROWS * a.row, c += FEW_ROWS * ldc)
        strip(FEW_ROWS, n, k, a, b, c, ldc);
    for (; rows > 0; rows--, a.at += a.row, c += ldc)
        strip(1, n, k, a, b, c, ldc);
}

#ifdef __x86_64__
FUSED_WIDE static void wide_strip(size_t rows, size_t n, size_t k, struct strip_operand a,
                                  struct strip_operand b, float *c, size_t ldc)
{
    size_t j = 0;

    if (rows == WIDE_ROWS) {
        for (; j + WIDE_PARTS * WIDE <= n; j += WIDE_PARTS * WIDE)
            wide_tile(WIDE_ROWS, WIDE_PARTS, k, a, b.at + j, b.row, c + j, ldc);
        for (; j + WIDE <= n; j += WIDE)
            wide_tile(WIDE_ROWS, 1, k, a, b.at + j, b.row, c + j, ldc);
    }
    b.at += j;
    if (j < n)
        fused_strip(rows, n - j, k, a, b, c + j, ldc);
}
#endif

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

struct strip_form {
    size_t rows;
    void (*run)(size_t rows, size_t n, size_t k, struct strip_operand a, struct strip_operand b, float *c,
                size_t ldc);
};

static struct strip_form form_of_processor(void)
{
#ifdef __x86_64__
    if (cpu_fuses() && cpu_has_avx512() && !cpu_halves_avx512())
        return (struct strip_form){WIDE_ROWS, wide_strip};
#endif
    return (struct strip_form){FUSED_ROWS, cpu_fuses() ? fused_strip : plain_strip};
}

void strip_matmul(enum strip_part part, size_t m, size_t n, size_t k, struct strip_operand a,
                  struct strip_operand b, float *c, size_t ldc)
{
    const struct strip_form form = form_of_processor();

    for (size_t i = 0; i < m; i += form.rows) {
        size_t end = at_most(m, i + form.rows), from = part == STRIP_A_UPPER ? at_most(i, k) : 0;
        size_t depth = (part == STRIP_A_LOWER ? at_most(k, end) : k) - from;
        size_t cols = part == STRIP_C_LOWER ? at_most(n, (end + STRIP_COLS - 1) / STRIP_COLS * STRIP_COLS)
                                            : n;

        form.run(end - i, cols, depth, (struct strip_operand){a.at + i * a.row + from * a.col, a.row, a.col},
                 (struct strip_operand){b.at + from * b.row, b.row, b.col}, c + i * ldc, ldc);
    }
}
