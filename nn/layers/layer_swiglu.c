/* swiglu -- y (m, n) = silu(a) * b, [a b] (m, 2 n) the rows of x; silu(a) = a s(a), s the logistic function
 * (Shazeer 2020).
 *
 *     da = dy b (s + a s (1 - s))      db = dy a s */
#include "nn/kernels/parallel.h"
#include "nn/kernels/vecmath.h"
#include "nn/layers/layer.h"
#include "shared/base/compiler.h"

/* Values of a row of y. */
static size_t swiglu_width(const struct layer_spec *s)
{
    return (size_t)s->out.dim[s->out.n_dims - 1];
}

struct swiglu_pass {
    size_t n; /* values of a row of y */
    const float *x, *dy;
    float *y, *dx;
};

FAST static void swiglu_rows(void *arg, int part, size_t from, size_t to)
{
    const struct swiglu_pass *pass = arg;
    const size_t n = pass->n;
    float *restrict y = pass->y;

    (void)part;
    for (size_t i = from * n; i < to * n; i += n) {
        const float *a = pass->x + 2 * i, *b = a + n;

        for (size_t k = 0; k < n; k++)
            y[i + k] = a[k] * logistic_f32(a[k]) * b[k];
    }
}

FAST static void swiglu_rows_back(void *arg, int part, size_t from, size_t to)
{
    const struct swiglu_pass *pass = arg;
    const size_t n = pass->n;

    (void)part;
    for (size_t i = from * n; i < to * n; i += n) {
        const float *a = pass->x + 2 * i, *b = a + n, *d = pass->dy + i;
        float *restrict da = pass->dx + 2 * i, *restrict db = da + n;

        for (size_t k = 0; k < n; k++) {
            float s = logistic_f32(a[k]);

            da[k] = d[k] * b[k] * (s + a[k] * s * (1 - s));
            db[k] = d[k] * a[k] * s;
        }
    }
}

static void swiglu_forward(const struct layer *l, const float *x, const struct pass *p)
{
    const size_t n = swiglu_width(l->spec), m = (size_t)p->n * (size_t)l->spec->n_out;

    parallel_for_values(m / n, m, swiglu_rows, &(struct swiglu_pass){.n = n, .x = x, .y = l->y});
}

static void swiglu_backward(const struct layer *l, const float *x, float *dy, float *dx, const struct pass *p)
{
    const size_t n = swiglu_width(l->spec), m = dx ? (size_t)p->n * (size_t)l->spec->n_out : 0;

    parallel_for_values(m / n, m, swiglu_rows_back,
                        &(struct swiglu_pass){.n = n, .x = x, .dy = dy, .dx = dx});
}

const struct layer_ops layer_swiglu = {
    .forward = swiglu_forward, .backward = swiglu_backward, .step = layer_one_step};
