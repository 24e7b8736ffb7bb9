#include "codecs/compress/levels.h"

#include <math.h>
#include <string.h>

void level_set_init(struct level_set *s, const float *levels, int n_levels)
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

void levels_fit(struct compress_work *w, const struct level_set *s, int iterations, const float *v, size_t n,
                float *alpha, uint8_t *q)
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
