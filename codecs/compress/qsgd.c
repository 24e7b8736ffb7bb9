/* qsgd -- s levels on each side of 0 up to the norm of each bucket, rounded at random to one of the two
 * neighbors so that the mean is the value:
 *     Q(v_i) = |v|_2 sgn(v_i) xi_i,  xi_i = l/s or (l + 1)/s,  E xi_i = |v_i| / |v|_2,  s = 2^(bits - 1) - 1
 *
 * Alistarh et al., "QSGD: Communication-Efficient SGD via Gradient Quantization and Encoding", NeurIPS
 * 2017, section 3.1; norm=max is the scale of their experiments: a smaller error, more nonzeros. Levels are
 * written with a fixed number of bits or by huffman, not in Elias's code. */
#include "codecs/compress/compress.h"

#include <math.h>
#include <string.h>

struct qsgd {
    int bits, bucket;
    int norm; /* l2, max */
};

static int levels(const struct qsgd *o)
{
    return (1 << (o->bits - 1)) - 1;
}

static int qsgd_alphabet(const void *o)
{
    return 2 * levels(o) + 1;
}

static bool is_unbiased(const void *o)
{
    (void)o;
    return true;
}

static size_t n_scales(const void *o, size_t n)
{
    return compress_groups(n, (size_t)((const struct qsgd *)o)->bucket);
}

static void qsgd_encode(const void *opt, struct compress_work *w, const float *v, size_t n, float *scales,
                        void *items)
{
    const struct qsgd *o = opt;
    size_t bucket = (size_t)o->bucket;
    struct random_lanes r;
    uint8_t *q = items;
    int s = levels(o);

    random_lanes_init(&r, w->rng);
    for (size_t at = 0; at < n; at += bucket, scales++) {
        size_t k = n - at < bucket ? n - at : bucket;
        float most = w->loops->largest(v + at, k);
        float norm = o->norm == 0 ? (float)sqrt(w->loops->dot(v + at, v + at, k)) : most;

        *scales = compress_scale(most, norm / (float)s);
        if (*scales > 0)
            w->loops->round_random(q + at, v + at, k, (float)s / norm, s, &r);
        else
            memset(q + at, s, k);
    }
}

static void qsgd_decode(const void *opt, struct compress_work *w, const float *scales, const void *items,
                        float *out, size_t n)
{
    const struct qsgd *o = opt;
    size_t bucket = (size_t)o->bucket;
    const uint8_t *q = items;

    for (size_t at = 0; at < n; at += bucket, scales++)
        w->loops->unround(out + at, q + at, n - at < bucket ? n - at : bucket, *scales, levels(o));
}

static const struct codec_option options[] = {
    CODEC_OPTION(struct qsgd, bits, 4, 2, 8, "bits per value: 2^(bits - 1) - 1 levels and the sign"),
    CODEC_OPTION(struct qsgd, bucket, 512, 16, 1 << 20, "values that share a norm"),
    CODEC_OPTION_CHOICE(struct qsgd, norm, "l2|max",
                        "the highest level: the Euclidean norm of the bucket, or its largest magnitude"),
    {0},
};

const struct compressor compress_qsgd = {
    .name = "qsgd",
    .help = "random rounding to even levels of each bucket's norm",
    .source = "Alistarh et al., NeurIPS 2017",
    .bound =
        "E C(v) = v, and norm=l2: E |C(v) - v|^2 <= min(d / s^2, sqrt(d) / s) |v|^2 of d = bucket values, "
        "s = 2^(bits - 1) - 1; norm=max: d / (4 s^2) |v|^2",
    .kind = COMPRESS_VALUES,
    .options = options,
    .is_unbiased = is_unbiased,
    .alphabet = qsgd_alphabet,
    .n_scales = n_scales,
    .encode = qsgd_encode,
    .decode = qsgd_decode,
};
