/* layer_norm -- normalizes over the last dimension (Ba, Kiros and Hinton 2016): each row of x (m, c), m =
 * samples x pixels or steps, in training and in evaluation; the bias may be absent:
 *
 *     x^ = (x - mean) / sqrt(var + epsilon)      y = gain * x^ + bias      var is divided by c
 *
 *     dgain = sum over the rows of dy x^         dbias = sum over the rows of dy
 *     dx = (g - mean of g - x^ mean of (g x^)) / sqrt(var + epsilon),      g = gain * dy */
#include <math.h>
#include <string.h>

#include "nn/kernels/parallel.h"
#include "nn/layers/layer.h"
#include "nn/layers/norm_gains.h"
#include "nn/layers/row_mean.h"
#include "shared/base/compiler.h"

enum { GAIN, BIAS };

static size_t channels(const struct layer_spec *s)
{
    return s->tensors[GAIN].shape[0];
}

static bool has_bias(const struct layer_spec *s)
{
    return s->n_tensors > BIAS;
}

struct layer_norm_space { /* offsets in `work` for m rows */
    size_t inverse;       /* (m) 1 / sqrt(var + epsilon); in front of it are x^ (m, c) */
    size_t gains;         /* (NORM_BLOCKS, c) dgain of each block of rows */
    size_t biases;        /* (NORM_BLOCKS, c) dbias */
    size_t end;
};

static struct layer_norm_space layer_norm_space_of(size_t m, size_t c)
{
    struct layer_norm_space at = {.inverse = m * c};

    at.gains = at.inverse + m;
    at.biases = at.gains + NORM_BLOCKS * c;
    at.end = at.biases + NORM_BLOCKS * c;
    return at;
}

static size_t layer_norm_work(const struct layer_spec *s, int max_batch)
{
    return layer_norm_space_of((size_t)max_batch * (size_t)s->n_in / channels(s), channels(s)).end;
}

struct layer_norm_pass {
    const struct layer *l;
    size_t m, c;
    struct layer_norm_space at;
    const float *x;
    float *dy, *dx;
};

static struct layer_norm_pass layer_norm_pass_of(const struct layer *l, const struct pass *p)
{
    const size_t c = channels(l->spec), m = (size_t)p->n * (size_t)l->spec->n_in / c;

    return (struct layer_norm_pass){.l = l, .m = m, .c = c, .at = layer_norm_space_of(m, c)};
}

FAST static void forward_rows(void *arg, int part, size_t from, size_t to)
{
    const struct layer_norm_pass *pass = arg;
    const struct layer *l = pass->l;
    const size_t c = pass->c;
    const float *restrict gain = l->params[GAIN], *restrict bias = has_bias(l->spec) ? l->params[BIAS] : NULL;

    (void)part;
    for (size_t row = from; row < to; row++) {
        const float *x = pass->x + row * c;
        float *y = l->y + row * c;
        float *restrict xh = l->work + row * c;
        float centre = row_mean(x, c);
        float variance, scale;

        for (size_t k = 0; k < c; k++)
            xh[k] = x[k] - centre;
        variance = row_mean_product(xh, xh, c);
        /* An overflow must become NaN: 1 / sqrt(inf) would make each x^ a harmless 0. */
        scale = isfinite(variance) ? 1 / sqrtf(variance + l->spec->norm.epsilon) : NAN;
        l->work[pass->at.inverse + row] = scale;
        for (size_t k = 0; k < c; k++) {
            xh[k] *= scale;
            y[k] = gain[k] * xh[k];
        }
        for (size_t k = 0; bias && k < c; k++)
            y[k] += bias[k];
    }
}

static void forward(const struct layer *l, const float *x, const struct pass *p)
{
    struct layer_norm_pass pass = layer_norm_pass_of(l, p);

    pass.x = x;
    parallel_for_values(pass.m, pass.m * pass.c, forward_rows, &pass);
}

/* Rows from .. to - 1, with their sums of gains' and biases' gradients. */
FAST static void backward_rows(const struct layer_norm_pass *pass, size_t from, size_t to,
                               float *restrict dgain, float *restrict dbias)
{
    const struct layer *l = pass->l;
    const size_t c = pass->c;
    const float *restrict gain = l->params[GAIN], *restrict inverse = l->work + pass->at.inverse;
    const bool has_own_bias = has_bias(l->spec);

    memset(dgain, 0, c * sizeof *dgain);
    memset(dbias, 0, c * sizeof *dbias);
    for (size_t row = from; row < to; row++) {
        const float *restrict xh = l->work + row * c;
        float *g = pass->dy + row * c, *dx = pass->dx ? pass->dx + row * c : NULL;
        float along, centre;

        for (size_t k = 0; has_own_bias && k < c; k++)
            dbias[k] += g[k];
        for (size_t k = 0; k < c; k++) {
            dgain[k] += g[k] * xh[k];
            g[k] *= gain[k];
        }
        if (!dx)
            continue;
        centre = row_mean(g, c);
        along = row_mean_product(g, xh, c);
        for (size_t k = 0; k < c; k++)
            dx[k] = (g[k] - centre - xh[k] * along) * inverse[row];
    }
}

static void backward_blocks(void *arg, int part, size_t from, size_t to)
{
    const struct layer_norm_pass *pass = arg;
    float *dgain = pass->l->work + pass->at.gains, *dbias = pass->l->work + pass->at.biases;

    (void)part;
    for (size_t block = from; block < to; block++)
        backward_rows(pass, norm_block_start(pass->m, block), norm_block_start(pass->m, block + 1),
                      dgain + block * pass->c, dbias + block * pass->c);
}

static void backward(const struct layer *l, const float *x, float *dy, float *dx, const struct pass *p)
{
    struct layer_norm_pass pass = layer_norm_pass_of(l, p);

    (void)x;
    pass.dy = dy;
    pass.dx = dx;
    parallel_for_values(NORM_BLOCKS, pass.m * pass.c, backward_blocks, &pass);
    norm_add_blocks(l->grads[GAIN], l->work + pass.at.gains, pass.c);
    if (has_bias(l->spec))
        norm_add_blocks(l->grads[BIAS], l->work + pass.at.biases, pass.c);
}

const struct layer_ops layer_layer_norm = {.in_place = true,
                                           .work = layer_norm_work,
                                           .forward = forward,
                                           .backward = backward,
                                           .step = layer_one_step};
