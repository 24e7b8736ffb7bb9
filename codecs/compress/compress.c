#include "codecs/compress/compress.h"

#include <math.h>
#include <string.h>

#define COMPRESSOR(name) &compress_##name,
const struct compressor *const compressors[] = {COMPRESSORS(COMPRESSOR) NULL};
#undef COMPRESSOR

const struct compressor *compressor_find(const char *name)
{
    for (const struct compressor *const *c = compressors; *c; c++)
        if (strcmp((*c)->name, name) == 0)
            return *c;
    return NULL;
}

float compress_scale(float most, float scale)
{
    return most < COMPRESS_TINY ? 0 : isfinite(scale) ? scale : NAN;
}

size_t compress_share(float ratio, size_t n)
{
    double k = round((double)ratio * (double)n);

    return k < 1 ? 1 : k > (double)n ? n : (size_t)k;
}

enum { HALVES_AT_ONCE = 1024 /* floats of two such parts stay in the first-level cache */ };

void compress_halves_sum(uint16_t *out, const void *const *in, int n_in, size_t n, float scale,
                         compress_widen *widen, compress_narrow *narrow)
{
    float sum[HALVES_AT_ONCE], v[HALVES_AT_ONCE];

    for (size_t at = 0; at < n; at += HALVES_AT_ONCE) {
        size_t len = n - at < HALVES_AT_ONCE ? n - at : HALVES_AT_ONCE;

        widen(sum, (const uint16_t *)in[0] + at, len);
        for (int k = 1; k < n_in; k++) {
            if (k > 1) {
                narrow(out + at, sum, len);
                widen(sum, out + at, len);
            }
            widen(v, (const uint16_t *)in[k] + at, len);
            for (size_t i = 0; i < len; i++)
                sum[i] += v[i];
        }
        for (size_t i = 0; i < len; i++)
            sum[i] *= scale;
        narrow(out + at, sum, len);
    }
}

void compress_halves_encode(uint16_t *items, const float *v, size_t n, float factor, compress_narrow *narrow)
{
    float part[HALVES_AT_ONCE];

    if (factor == 1) {
        narrow(items, v, n);
        return;
    }
    for (size_t at = 0; at < n; at += HALVES_AT_ONCE) {
        size_t len = n - at < HALVES_AT_ONCE ? n - at : HALVES_AT_ONCE;

        for (size_t i = 0; i < len; i++)
            part[i] = v[at + i] * factor;
        narrow(items + at, part, len);
    }
}

void compress_halves_decode(float *out, const uint16_t *items, size_t n, float factor, compress_widen *widen)
{
    for (size_t at = 0; at < n; at += HALVES_AT_ONCE) {
        size_t len = n - at < HALVES_AT_ONCE ? n - at : HALVES_AT_ONCE;

        widen(out + at, items + at, len);
        for (size_t i = 0; factor != 1 && i < len; i++)
            out[at + i] *= factor;
    }
}

void compress_levels_init(struct level_set *s, const float *levels, int n_levels)
{
    s->n_levels = n_levels;
    for (int i = 0; i < LEVEL_ROOM; i++)
        s->level[i] = s->middle[i] = INFINITY; /* a search finds nothing beyond the last */
    s->level[0] = s->middle[0] = 0;
    for (int i = 1; i <= n_levels; i++) {
        s->level[i] = levels[i - 1];
        s->middle[i] = (s->level[i - 1] + s->level[i]) / 2;
    }
}

void compress_levels_fit(struct compress_work *w, const struct level_set *s, int iterations, const float *v,
                         size_t n, float *alpha, uint8_t *q)
{
    float most = w->loops->largest(v, n);
    double positive, negative, vb, bb, a;

    *alpha = most < COMPRESS_TINY ? 0 : NAN;
    memset(q, s->n_levels, n);
    if (most < COMPRESS_TINY || !isfinite(most))
        return;
    w->loops->sums_by_sign(v, n, &positive, &negative);
    a = 1.4 * (positive - negative) / (double)n;
    if (a * s->middle[1] > (double)most) /* else no value would exceed the first threshold */
        a = (double)most;
    for (int i = 0; i < iterations; i++) {
        w->loops->level_sums(v, n, (float)(1 / a), s, &vb, &bb);
        if (i + 1 < iterations)
            a = vb / bb;
    }
    w->loops->level_nearest(q, v, n, (float)(1 / a), s);
    *alpha = (float)(vb / bb);
}
