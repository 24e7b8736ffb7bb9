/* bf16 -- the upper half of a float: 8 bits of exponent, 8 of precision.
 * A value that rounding would make infinite becomes the largest finite number. Where N workers' values are
 * added, each is first multiplied by the largest power of two that is at most 1 / N, so that no sum does. */
#include <math.h>

#include "codecs/compress/compress.h"

static int shift(const struct compress_work *w)
{
    int n_bits = 0;

    while (w->n_summed > 1 << n_bits && n_bits < 30)
        n_bits++;
    return n_bits;
}

static void bf16_encode(const void *o, struct compress_work *w, const float *v, size_t n, float *scales,
                        void *items)
{
    (void)o;
    (void)scales;
    compress_halves_encode(items, v, n, ldexpf(1, -shift(w)), w->loops->to_bf16);
}

static void bf16_decode(const void *o, struct compress_work *w, const float *scales, const void *items,
                        float *out, size_t n)
{
    (void)o;
    (void)scales;
    compress_halves_decode(out, items, n, ldexpf(1, shift(w)), w->loops->from_bf16);
}

static void bf16_sum(const struct compress_work *w, void *out, const void *const *in, int n_in, size_t n,
                     float scale)
{
    compress_halves_sum(out, in, n_in, n, scale, w->loops->from_bf16, w->loops->to_bf16);
}

const struct compressor compress_bf16 = {
    .name = "bf16",
    .help = "a float's upper half, 16 bits each",
    .source = "Kalamkar et al., \"A Study of BFLOAT16 for Deep Learning Training\", 2019",
    .bound = "each value moves by at most 2^-8 of itself, one below 2^-126 by at most 2^-134",
    .kind = COMPRESS_VALUES,
    .item_bytes = sizeof(uint16_t),
    .encode = bf16_encode,
    .decode = bf16_decode,
    .sum = bf16_sum,
};
