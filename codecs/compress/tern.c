/* tern -- {-1, 0, 1} times alpha:
 *   alpha=max  TernGrad: alpha = max |v|, b_i = sgn(v_i) with probability |v_i| / alpha, else 0.
 *              Wen et al., NeurIPS 2017, eq. 2 to 4, without their clipping; per=layer is layer-wise
 *              ternarizing.
 *   alpha=fit  alternates between alpha = <v, b> / <b, b> and b_i = sgn(v_i) where |v_i| > alpha / 2.
 *              Hou and Kwok, "Loss-aware Weight Quantization of Deep Networks", ICLR 2018, with a curvature
 *              of 1. */
#include "codecs/compress/compress.h"

#include <string.h>

enum { LEVELS = 1, SYMBOLS = 3 };

static int tern_alphabet(const void *o)
{
    (void)o;
    return SYMBOLS;
}

static bool is_unbiased(const void *o)
{
    return ((const struct levels_options *)o)->alpha == LEVELS_OF_MAX;
}

static size_t n_scales(const void *o, size_t n)
{
    (void)o;
    (void)n;
    return 1;
}

static void encode_max(struct compress_work *w, const float *v, size_t n, float *alpha, uint8_t *q)
{
    float most = w->loops->largest(v, n);
    struct random_lanes r;

    *alpha = compress_scale(most, most);
    random_lanes_init(&r, w->rng);
    if (*alpha > 0)
        w->loops->round_random(q, v, n, 1 / most, LEVELS, &r);
    else
        memset(q, LEVELS, n);
}

static void tern_encode(const void *opt, struct compress_work *w, const float *v, size_t n, float *scales,
                        void *items)
{
    const struct levels_options *o = opt;
    struct level_set set;

    if (o->alpha == LEVELS_OF_MAX) {
        encode_max(w, v, n, scales, items);
        return;
    }
    compress_levels_init(&set, (const float[]){1}, LEVELS);
    compress_levels_fit(w, &set, o->iterations, v, n, scales, items);
}

static void tern_decode(const void *o, struct compress_work *w, const float *scales, const void *items,
                        float *out, size_t n)
{
    (void)o;
    w->loops->unround(out, items, n, *scales, LEVELS);
}

static const struct codec_option options[] = {
    LEVELS_OPTIONS,
    {0},
};

const struct compressor compress_tern = {
    .name = "tern",
    .help = "-1, 0 or 1 times one number, 1.6 bits each",
    .source = "Wen et al., NeurIPS 2017; alpha=fit: Hou and Kwok, ICLR 2018",
    .bound = LEVELS_BOUND "E |C(v) - v|^2 = sum |v_i| (max |v| - |v_i|) <= (sqrt(n) - 1) |v|^2",
    .kind = COMPRESS_VALUES,
    .options = options,
    .is_unbiased = is_unbiased,
    .alphabet = tern_alphabet,
    .n_scales = n_scales,
    .encode = tern_encode,
    .decode = tern_decode,
};
