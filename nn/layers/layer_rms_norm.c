/* rms_norm -- divides each row of x (m, c), m = samples x steps, by its root mean square (Zhang and Sennrich
 * 2019):
 *
 *     x^ = x / sqrt(mean of x^2 + epsilon)      y = gain * x^
 *
 *     dgain = sum over the rows of dy x^
 *     dx = (g - x^ mean of (g x^)) / sqrt(mean of x^2 + epsilon),      g = gain * dy */
#include <math.h>
#include <string.h>

#include "nn/kernels/parallel.h"
#include "nn/layers/layer.h"
#include "nn/layers/norm_gains.h"
#include "nn/layers/row_mean.h"
#include "shared/base/compiler.h"

enum { GAIN };

struct rms_norm_space { /* offsets in `work` for m rows */
    size_t inverse;     /* (m) 1 / sqrt(mean of x^2 + epsilon); in front of it are x^ (m, c) */
    size_t gains;       /* (NORM_BLOCKS, c) dgain of each block of rows */
    size_t end;
};

static struct rms_norm_space rms_norm_space_of(size_t m, size_t c)
{
    struct rms_norm_space at = {.inverse = m * c};

    at.gains = at.inverse + m;
    at.end = at.gains + NORM_BLOCKS * c;
    return at;
}

static size_t rms_norm_work(const struct layer_spec *s, int max_batch)
{
    const size_t c = s->tensors[GAIN].shape[0];

    return rms_norm_space_of((size_t)max_batch * (size_t)s->n_in / c, c).end;
}

struct rms_norm_pass {
    const struct layer *l;
    size_t m, c;
    struct rms_norm_space at;
    const float *x;
    float *dy, *dx;
};

static struct rms_norm_pass rms_norm_pass_of(const struct layer *l, const struct pass *p)
{
    const size_t c = l->spec->tensors[GAIN].shape[0], m = (size_t)p->n * (size_t)l->spec->n_in / c;

    return (struct rms_norm_pass){.l = l, .m = m, .c = c, .at = rms_norm_space_of(m, c)};
}

FAST static void rms_norm_rows(void *arg, int part, size_t from, size_t to)
{
    const struct rms_norm_pass *pass = arg;
    const struct layer *l = pass->l;
    const size_t c = pass->c;
    const float *restrict gain = l->params[GAIN];

    (void)part;
    for (size_t row = from; row < to; row++) {
        const float *x = pass->x + row * c;
        float *restrict xh = l->work + row * c;
        float *y = l->y + row * c;
        float square = row_mean_product(x, x, c);
        /* An overflow must become NaN: 1 / sqrt(inf) would make each x^ a harmless 0. */
        float scale = isfinite(square) ? 1 / sqrtf(square + l->spec->norm.epsilon) : NAN;

        l->work[pass->at.inverse + row] = scale;
        for (size_t k = 0; k < c; k++) {
            xh[k] = x[k] * scale;
            y[k] = gain[k] * xh[k];
        }
    }
}

static void rms_norm_forward(const struct layer *l, const float *x, const struct pass *p)
{
    struct rms_norm_pass pass = rms_norm_pass_of(l, p);

    pass.x = x;
    parallel_for_values(pass.m, pass.m * pass.c, rms_norm_rows, &pass);
}

/* Rows from .. to - 1, with their sum of gains' gradients. */
FAST static void rms_norm_rows_back(const struct rms_norm_pass *pass, size_t from, size_t to,
                                    float *restrict dgain)
{
    const struct layer *l = pass->l;
    const size_t c = pass->c;
    const float *restrict gain = l->params[GAIN], *restrict inverse = l->work + pass->at.inverse;

    memset(dgain, 0, c * sizeof *dgain);
    for (size_t row = from; row < to; row++) {
        const float *restrict xh = l->work + row * c;
        float *g = pass->dy + row * c, *dx = pass->dx ? pass->dx + row * c : NULL;
        float along;

        for (size_t k = 0; k < c; k++) {
            dgain[k] += g[k] * xh[k];
            g[k] *= gain[k];
        }
        if (!dx)
            continue;
        along = row_mean_product(g, xh, c);
        for (size_t k = 0; k < c; k++)
            dx[k] = (g[k] - xh[k] * along) * inverse[row];
    }
}

static void rms_norm_blocks_back(void *arg, int part, size_t from, size_t to)
{
    const struct rms_norm_pass *pass = arg;

    (void)part;
    for (size_t block = from; block < to; block++)
        rms_norm_rows_back(pass, norm_block_start(pass->m, block), norm_block_start(pass->m, block + 1),
                           pass->l->work + pass->at.gains + block * pass->c);
}

static void rms_norm_backward(const struct layer *l, const float *x, float *dy, float *dx,
                              const struct pass *p)
{
    struct rms_norm_pass pass = rms_norm_pass_of(l, p);

    (void)x;
    pass.dy = dy;
    pass.dx = dx;
    parallel_for_values(NORM_BLOCKS, pass.m * pass.c, rms_norm_blocks_back, &pass);
    norm_add_blocks(l->grads[GAIN], l->work + pass.at.gains, pass.c);
}

const struct layer_ops layer_rms_norm = {.in_place = true,
                                         .work = rms_norm_work,
                                         .forward = rms_norm_forward,
                                         .backward = rms_norm_backward,
                                         .step = layer_one_step};
