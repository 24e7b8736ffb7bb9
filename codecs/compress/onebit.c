/* onebit -- the sign of each value, and for each bucket the means of its nonnegative and of its negative
 * values.
 *
 * Seide et al., "1-Bit Stochastic Gradient Descent and its Application to Data-Parallel Distributed
 * Training of Speech DNNs", Interspeech 2014, section 3: there a bucket is a column of a matrix, and error
 * feedback is always on. */
#include "codecs/compress/compress.h"

#include <math.h>
#include <string.h>

struct onebit {
    int bucket;
};

static int onebit_alphabet(const void *o)
{
    (void)o;
    return 2;
}

static size_t n_scales(const void *o, size_t n)
{
    return 2 * compress_groups(n, (size_t)((const struct onebit *)o)->bucket);
}

static void onebit_encode(const void *o, struct compress_work *w, const float *v, size_t n, float *scales,
                          void *items)
{
    size_t bucket = (size_t)((const struct onebit *)o)->bucket;
    uint8_t *q = items;

    for (size_t at = 0; at < n; at += bucket, scales += 2) {
        size_t k = n - at < bucket ? n - at : bucket, n_negative = w->loops->signs(q + at, v + at, k);
        float most = w->loops->largest(v + at, k);
        double positive, negative;

        w->loops->sums_by_sign(v + at, k, &positive, &negative);
        scales[0] = k > n_negative ? (float)(positive / (double)(k - n_negative)) : 0;
        scales[1] = n_negative > 0 ? (float)(negative / (double)n_negative) : 0;
        if (most < COMPRESS_TINY || !isfinite(most))
            scales[0] = scales[1] = most < COMPRESS_TINY ? 0 : NAN;
    }
}

static void onebit_decode(const void *o, struct compress_work *w, const float *scales, const void *items,
                          float *out, size_t n)
{
    size_t bucket = (size_t)((const struct onebit *)o)->bucket;
    const uint8_t *q = items;

    for (size_t at = 0; at < n; at += bucket, scales += 2)
        w->loops->unsign(out + at, q + at, n - at < bucket ? n - at : bucket, scales[0], scales[1]);
}

static const struct codec_option options[] = {
    CODEC_OPTION(struct onebit, bucket, 512, 16, 1 << 20, "values that share the two means"),
    {0},
};

const struct compressor compress_onebit = {
    .name = "onebit",
    .help = "signs, and two means for each bucket",
    .source = "Seide et al., Interspeech 2014",
    .bound = "|C(v) - v|^2 = |v|^2 - |C(v)|^2 <= (1 - 1 / bucket) |v|^2",
    .kind = COMPRESS_VALUES,
    .options = options,
    .alphabet = onebit_alphabet,
    .n_scales = n_scales,
    .encode = onebit_encode,
    .decode = onebit_decode,
};
