#include "nn/layers/dropout_mask.h"

#include "shared/base/compiler.h"

enum { DRAWN = 256 }; /* values at once */

static void draw_bits(uint16_t bits[DRAWN], struct rng *r)
{
    for (int i = 0; i < DRAWN; i += 4) {
        uint64_t word = rng_u64(r);

        for (int k = 0; k < 4; k++)
            bits[i + k] = (uint16_t)(word >> 16 * k);
    }
}

FAST static void drop(float *restrict m, const uint16_t *restrict bits, size_t n, int threshold, float scale)
{
    for (size_t i = 0; i < n; i++)
        m[i] = bits[i] < threshold ? 0 : scale;
}

void dropout_mask(float *m, size_t n, float rate, struct rng *r)
{
    const int threshold = (int)(rate * 0x1p16f + 0.5f);
    const float scale = 0x1p16f / (float)(0x10000 - threshold);

    for (size_t i = 0; i < n; i += DRAWN) {
        uint16_t bits[DRAWN];

        draw_bits(bits, r);
        drop(m + i, bits, n - i < DRAWN ? n - i : DRAWN, threshold, scale);
    }
}
