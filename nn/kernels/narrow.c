#include "nn/kernels/narrow.h"

#include <stddef.h>
#include <string.h>

#include "nn/kernels/cpu.h"
#include "nn/kernels/lanes.h"

/* A tile has sixteen sums for each of five columns, two vectors of eight lanes: enough to hide the latency
 * of additions, and sixteen registers hold the operands, too. With vectors of four lanes there are 32
 * registers. */
enum { COLS = 5, VECTORS = SUMS / LANES };

#ifndef FOUR_LANES
/* (a0 + a1, a2 + a3, b0 + b1, b2 + b3, a4 + a5, a6 + a7, b4 + b5, b6 + b7) */
#define SUM_PAIRS(a, b) (SHUFFLE(a, b, 0, 2, 8, 10, 4, 6, 12, 14) + SHUFFLE(a, b, 1, 3, 9, 11, 5, 7, 13, 15))
/* Reduces the sums of two rows to four each; adds the halves of such vectors. */
#define SUM_FOURS(s)  SUM_PAIRS((s)[0][0], (s)[1][0])
#define SUM_HALVES(v) ((v) + SHUFFLE(v, v, 4, 5, 6, 7, 0, 1, 2, 3))
#else
#define SUM_PAIRS(a, b) (SHUFFLE(a, b, 0, 2, 4, 6) + SHUFFLE(a, b, 1, 3, 5, 7))
/* Reduces two vectors of four sums of each row to two sums each. */
#define SUM_FOURS(s)    SUM_PAIRS(SUM_PAIRS((s)[0][0], (s)[0][1]), SUM_PAIRS((s)[1][0], (s)[1][1]))
#define SUM_HALVES(v)   (v)
#endif

/* out (n, 2) = w (n, k) times two rows of x, `ldx` apart. `n` is a constant in every call. */
FUSED INLINE void two_rows(const size_t n, const float *x, size_t ldx, const float *w, size_t ldw, size_t k,
                           float *out)
{
    const float *next = x + ldx;
    size_t whole = k / SUMS * SUMS;
    lanes sum[COLS][2][VECTORS], fours[COLS + 1], v, v0, v1;

    for (size_t j = 0; j < n; j++)
        for (size_t q = 0; q < VECTORS; q++)
            sum[j][0][q] = sum[j][1][q] = (lanes){0};
    _Pragma("GCC unroll 1") for (size_t p = 0; p < whole; p += SUMS)
    {
        for (size_t q = 0; q < VECTORS; q++) {
            LANES_READ(v0, x + p + q * LANES);
            LANES_READ(v1, next + p + q * LANES);
            ONCE(v0);
            ONCE(v1);
            for (size_t j = 0; j < n; j++) {
                LANES_READ(v, w + j * ldw + p + q * LANES);
                ONCE(v);
                sum[j][0][q] += v * v0;
                sum[j][1][q] += v * v1;
            }
        }
    }
    for (size_t j = 0; j < n; j++)
        fours[j] = SUM_FOURS(sum[j]);
    fours[n] = (lanes){0};
    for (size_t j = 0; j < n; j += 2) {
        v = SUM_PAIRS(fours[j], fours[j + 1]);
        v = SUM_HALVES(v);
        memcpy(out + 2 * j, &v, 4 * sizeof *out);
    }
    for (size_t j = 0; j < n; j++)
        for (size_t p = whole; p < k; p++) {
            out[2 * j] += w[j * ldw + p] * x[p];
            out[2 * j + 1] += w[j * ldw + p] * next[p];
        }
}

/* out (n, NARROW_ROWS) = transpose of w (k, n) times NARROW_ROWS columns of x (k, ldx) */
FUSED INLINE void some_columns(const size_t n, const float *x, size_t ldx, const float *w, size_t ldw,
                               size_t k, float *out)
{
    lanes sum[COLS][2 * VECTORS], along[2 * VECTORS], v;

    for (size_t j = 0; j < n; j++)
        for (size_t q = 0; q < 2 * VECTORS; q++)
            sum[j][q] = (lanes){0};
    _Pragma("GCC unroll 1") for (size_t p = 0; p < k; p++, x += ldx, w += ldw)
    {
        for (size_t q = 0; q < 2 * VECTORS; q++) {
            LANES_READ(along[q], x + q * LANES);
            ONCE(along[q]);
        }
        for (size_t j = 0; j < n; j++) {
            v = w[j] - (lanes){0};
            ONCE(v);
            for (size_t q = 0; q < 2 * VECTORS; q++)
                sum[j][q] += v * along[q];
        }
    }
    memcpy(out, sum, n * sizeof *sum);
}

typedef void tile(const float *x, size_t ldx, const float *w, size_t ldw, size_t k, float *out);

#define TILE_OF(name, n)                                                                                     \
    FUSED static void name##_##n(const float *x, size_t ldx, const float *w, size_t ldw, size_t k,           \
                                 float *out)                                                                 \
    {                                                                                                        \
        name(n, x, ldx, w, ldw, k, out);                                                                     \
    }
#define TILES(name)                                                                                          \
    TILE_OF(name, 1)                                                                                         \
    TILE_OF(name, 2)                                                                                         \
    TILE_OF(name, 3)                                                                                         \
    TILE_OF(name, 4)                                                                                         \
    TILE_OF(name, 5)                                                                                         \
    static tile *const name##_of[COLS] = {name##_1, name##_2, name##_3, name##_4, name##_5};
TILES(two_rows)
TILES(some_columns)

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Computes c (m, n) in tiles of `high` rows, which are `down` apart in a, and up to COLS columns, which are
 * `right` apart in b. The last tile overlaps the one before it. `high` is a constant in every call. */
INLINE void cover(tile *const tiles[], size_t high, size_t m, size_t n, size_t k, const float *a, size_t down,
                  size_t lda, const float *b, size_t right, size_t ldb, bool adds, float *c)
{
    size_t n_tiles = (n + COLS - 1) / COLS, wide = (n + n_tiles - 1) / n_tiles;
    float out[COLS * NARROW_ROWS];

    for (size_t j = 0; j < n; j += wide)
        for (size_t i = 0; i < m; i += high) {
            size_t cols = least(n - j, wide), first = least(i, m - high);

            tiles[cols - 1](a + first * down, lda, b + j * right, ldb, k, out);
            for (size_t r = i - first; r < high; r++)
                for (size_t q = 0; q < cols; q++) {
                    float *to = c + (first + r) * n + j + q;

                    *to = out[q * high + r] + (adds ? *to : 0);
                }
        }
}

/* Multiplies eight values of a row of a at a time, after transposing b. */
static void along_rows(size_t m, size_t n, size_t k, const float *a, size_t lda, const float *b, bool adds,
                       float *c)
{
    float b_t[NARROW_COLS * NARROW_DEPTH] __attribute__((aligned(64)));
    size_t ldb = (k + SUMS - 1) / SUMS * SUMS;

    for (size_t p = 0; p < k; p++)
        for (size_t j = 0; j < n; j++)
            b_t[j * ldb + p] = *b++;
    cover(two_rows_of, 2, m, n, k, a, lda, lda, b_t, ldb, ldb, adds, c);
}

bool narrow_matmul(bool a_t, bool b_t, int m, int n, int k, const float *a, const float *b, float beta,
                   float *c)
{
    size_t rows = (size_t)m, cols = (size_t)n, depth = (size_t)k;
    size_t n_parts = (depth + NARROW_DEPTH - 1) / NARROW_DEPTH, part;

    if (n > NARROW_COLS || b_t || m < NARROW_ROWS || k == 0 || (beta != 0 && beta != 1) || !cpu_fuses())
        return false;
    part = (depth + n_parts - 1) / n_parts;
    if (a_t)
        cover(some_columns_of, NARROW_ROWS, rows, cols, depth, a, 1, rows, b, 1, cols, beta == 1, c);
    else
        for (size_t p = 0; p < depth; p += part)
            along_rows(rows, cols, least(depth - p, part), a + p, depth, b + p * cols, beta == 1 || p > 0, c);
    return true;
}
