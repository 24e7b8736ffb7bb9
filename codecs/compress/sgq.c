/* sgq -- nonuniform levels, closer together near 0. They are 0 and +-theta(j / J) alpha for j = 1 .. J, where
 *     theta(k) = 1 / tan(k pi / 4),  J = 2^(bits - 1) - 1,
 * from 1 for j = J up to 1 / tan(pi / (4 J)): with 3 bits 1, 1.732 and 3.732. Meant to be followed by
 * huffman. This is the SGQ of Parallel-SGD, where alpha was fitted in three iterations with random
 * rounding; here alpha=fit rounds to the nearest, so that each iteration reduces the error, and alpha=max
 * is unbiased. */
#include "codecs/compress/compress.h"

#include <math.h>
#include <string.h>

struct sgq {
    struct levels_options levels;
    int bits;
};

/* The values of tan() are those of the process's libm and may differ in the last bit between libraries.
 * Rounded to four decimals, as in Parallel-SGD, the levels are equal everywhere. */
static void init(struct level_set *s, int bits)
{
    int n = (1 << (bits - 1)) - 1;
    float levels[LEVELS_MAX];

    for (int j = n; j >= 1; j--)
        levels[n - j] = (float)(round(1e4 / tan(j * 0.78539816339744831 / n)) / 1e4);
    compress_levels_init(s, levels, n);
}

static int sgq_alphabet(const void *o)
{
    return (1 << ((const struct sgq *)o)->bits) - 1;
}

static bool is_unbiased(const void *o)
{
    return ((const struct sgq *)o)->levels.alpha == LEVELS_OF_MAX;
}

static size_t n_scales(const void *o, size_t n)
{
    (void)o;
    (void)n;
    return 1;
}

static void encode_max(struct compress_work *w, const struct level_set *s, const float *v, size_t n,
                       float *alpha, uint8_t *q)
{
    float most = w->loops->largest(v, n), highest = s->level[s->n_levels];
    struct random_lanes r;

    *alpha = compress_scale(most, most / highest);
    random_lanes_init(&r, w->rng);
    if (*alpha > 0)
        w->loops->level_random(q, v, n, highest / most, s, &r);
    else
        memset(q, s->n_levels, n);
}

static void sgq_encode(const void *opt, struct compress_work *w, const float *v, size_t n, float *scales,
                       void *items)
{
    const struct sgq *o = opt;
    struct level_set set;

    init(&set, o->bits);
    if (o->levels.alpha == LEVELS_OF_MAX)
        encode_max(w, &set, v, n, scales, items);
    else
        compress_levels_fit(w, &set, o->levels.iterations, v, n, scales, items);
}

static void sgq_decode(const void *opt, struct compress_work *w, const float *scales, const void *items,
                       float *out, size_t n)
{
    const struct sgq *o = opt;
    const uint8_t *q = items;
    float of[2 * LEVELS_MAX + 1];
    struct level_set s;

    (void)w;
    init(&s, o->bits);
    for (int i = 0; i <= s.n_levels; i++) {
        of[s.n_levels + i] = s.level[i] * *scales;
        of[s.n_levels - i] = -s.level[i] * *scales;
    }
    for (size_t i = 0; i < n; i++)
        out[i] = of[q[i]];
}

static const struct codec_option options[] = {
    CODEC_OPTION(struct sgq, bits, 3, 2, 8, "bits per value: 2^(bits - 1) - 1 levels and the sign"),
    LEVELS_OPTIONS,
    {0},
};

const struct compressor compress_sgq = {
    .name = "sgq",
    .help = "nonuniform levels, closer together near 0, for huffman",
    .source = "SGQ of Parallel-SGD: levels 1 / tan(k pi / 4)",
    .bound = LEVELS_BOUND "E |C(v) - v|^2 <= sum of (next level - |v_i|) (|v_i| - level below)",
    .kind = COMPRESS_VALUES,
    .options = options,
    .is_unbiased = is_unbiased,
    .alphabet = sgq_alphabet,
    .n_scales = n_scales,
    .encode = sgq_encode,
    .decode = sgq_decode,
};
