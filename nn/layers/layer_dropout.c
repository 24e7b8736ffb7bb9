/* dropout -- training drops each value with probability `rate` and divides the others by the probability to
 * stay; evaluation changes nothing. Srivastava et al. 2014, inverted.
 *
 *     y = m * x      dx = m * dy      m = 0 or 1 / P(stay)
 *
 * Each value takes 16 random bits, so the rate is rounded to a multiple of 2^-16; the scale uses the
 * rounded rate, so that the expectation of y is exactly x. NaN stays NaN even if dropped. */
#include <string.h>

#include "nn/layers/layer.h"
#include "shared/base/compiler.h"
#include "shared/base/rng.h"

enum { DRAWN = 256 }; /* values at once */

static size_t dropout_work(const struct layer_spec *s, int max_batch)
{
    return (size_t)max_batch * (size_t)s->n_out; /* m */
}

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

/* y may be x */
FAST static void multiply(float *y, const float *x, const float *restrict m, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = m[i] * x[i];
}

static void dropout_forward(const struct layer *l, const float *x, const struct pass *p)
{
    const size_t n = (size_t)p->n * (size_t)l->spec->n_out;
    const int threshold = (int)(l->spec->dropout.rate * 0x1p16f + 0.5f);
    const float scale = 0x1p16f / (float)(0x10000 - threshold);
    struct rng r;

    if (!p->is_training) {
        if (l->y != x)
            memcpy(l->y, x, n * sizeof *x);
        return;
    }
    rng_init(&r, p->seed, p->stream, (uint64_t)l->index);
    for (size_t i = 0; i < n; i += DRAWN) {
        uint16_t bits[DRAWN];

        draw_bits(bits, &r);
        drop(l->work + i, bits, n - i < DRAWN ? n - i : DRAWN, threshold, scale);
    }
    multiply(l->y, x, l->work, n);
}

static void dropout_backward(const struct layer *l, const float *x, float *dy, float *dx,
                             const struct pass *p)
{
    (void)x;
    if (dx)
        multiply(dx, dy, l->work, (size_t)p->n * (size_t)l->spec->n_out);
}

const struct layer_ops layer_dropout = {
    .in_place = true, .work = dropout_work, .forward = dropout_forward, .backward = dropout_backward};
