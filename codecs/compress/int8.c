/* int8 -- 127 steps on each side of 0 up to the largest magnitude of each block, rounded to the nearest:
 *     scale = max |v| / 127,  q = round(v / scale)
 * Dettmers, "8-Bit Approximations for Parallelism in Deep Learning", ICLR 2016, in the linear form that is
 * usual now, with a scale for each block. */
#include "codecs/compress/compress.h"

#include <string.h>

enum { STEPS = 127, ZERO = 128 /* the symbol of 0 */ };

struct int8 {
    int block;
};

static int int8_alphabet(const void *o)
{
    (void)o;
    return 256;
}

static size_t n_scales(const void *o, size_t n)
{
    return compress_groups(n, (size_t)((const struct int8 *)o)->block);
}

static void int8_encode(const void *o, struct compress_work *w, const float *v, size_t n, float *scales,
                        void *items)
{
    size_t block = (size_t)((const struct int8 *)o)->block;
    uint8_t *q = items;

    for (size_t at = 0; at < n; at += block, scales++) {
        size_t k = n - at < block ? n - at : block;
        float most = w->loops->largest(v + at, k);

        *scales = compress_scale(most, most / (float)STEPS);
        if (*scales > 0)
            w->loops->round_nearest(q + at, v + at, k, (float)STEPS / most, ZERO);
        else
            memset(q + at, ZERO, k);
    }
}

static void int8_decode(const void *o, struct compress_work *w, const float *scales, const void *items,
                        float *out, size_t n)
{
    size_t block = (size_t)((const struct int8 *)o)->block;
    const uint8_t *q = items;

    for (size_t at = 0; at < n; at += block, scales++)
        w->loops->unround(out + at, q + at, n - at < block ? n - at : block, *scales, ZERO);
}

static const struct codec_option options[] = {
    CODEC_OPTION(struct int8, block, 256, 16, 16384, "values that share a scale"),
    {0},
};

const struct compressor compress_int8 = {
    .name = "int8",
    .help = "integers of 8 bits, scaled by the largest magnitude of each block",
    .source = "Dettmers, \"8-Bit Approximations for Parallelism in Deep Learning\", ICLR 2016",
    .bound = "|C(v) - v|^2 <= block / 64516 |v|^2",
    .kind = COMPRESS_VALUES,
    .options = options,
    .alphabet = int8_alphabet,
    .n_scales = n_scales,
    .encode = int8_encode,
    .decode = int8_decode,
};
