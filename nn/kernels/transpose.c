#include "nn/kernels/transpose.h"

#include "nn/kernels/lanes.h"
#include "shared/base/compiler.h"

#ifndef FOUR_LANES
/* to (LANES, LANES) = transpose of from: exchanges neighbors, then pairs, then halves. */
INLINE void block(float *to, size_t ldt, const float *from, size_t ldf)
{
    lanes v[LANES], w[LANES];

    for (size_t i = 0; i < LANES; i++)
        LANES_READ(v[i], from + i * ldf);
    for (size_t i = 0; i < LANES; i += 2) {
        w[i] = SHUFFLE(v[i], v[i + 1], 0, 8, 2, 10, 4, 12, 6, 14);
        w[i + 1] = SHUFFLE(v[i], v[i + 1], 1, 9, 3, 11, 5, 13, 7, 15);
    }
    for (size_t i = 0; i < LANES; i += 4)
        for (size_t q = i; q < i + 2; q++) {
            v[q] = SHUFFLE(w[q], w[q + 2], 0, 1, 8, 9, 4, 5, 12, 13);
            v[q + 2] = SHUFFLE(w[q], w[q + 2], 2, 3, 10, 11, 6, 7, 14, 15);
        }
    for (size_t i = 0; i < LANES / 2; i++) {
        w[i] = SHUFFLE(v[i], v[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
        w[i + 4] = SHUFFLE(v[i], v[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    }
    for (size_t i = 0; i < LANES; i++)
        LANES_WRITE(to + i * ldt, w[i]);
}
#else
/* Exchanges neighbors, then pairs. */
INLINE void block(float *to, size_t ldt, const float *from, size_t ldf)
{
    lanes v[LANES], w[LANES];

    for (size_t i = 0; i < LANES; i++)
        LANES_READ(v[i], from + i * ldf);
    for (size_t i = 0; i < LANES; i += 2) {
        w[i] = SHUFFLE(v[i], v[i + 1], 0, 4, 2, 6);
        w[i + 1] = SHUFFLE(v[i], v[i + 1], 1, 5, 3, 7);
    }
    for (size_t i = 0; i < 2; i++) {
        v[i] = SHUFFLE(w[i], w[i + 2], 0, 1, 4, 5);
        v[i + 2] = SHUFFLE(w[i], w[i + 2], 2, 3, 6, 7);
    }
    for (size_t i = 0; i < LANES; i++)
        LANES_WRITE(to + i * ldt, v[i]);
}
#endif

/* Reads whole cache lines; written lines stay in the first-level cache until they are full. */
FAST void transpose(float *restrict to, size_t ldt, const float *restrict from, size_t ldf, size_t rows,
                    size_t cols)
{
    for (size_t p = 0; p < cols; p += TRANSPOSE_COLS)
        for (size_t i = 0; i < rows; i += LANES)
            for (size_t q = p; q < p + TRANSPOSE_COLS; q += LANES)
                block(to + q * ldt + i, ldt, from + i * ldf + q, ldf);
}
