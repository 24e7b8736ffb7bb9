/* lstm -- long short-term memory: Hochreiter and Schmidhuber 1997, with the forget gate of Gers,
 * Schmidhuber and Cummins 2000. For each step t, from h = c = 0 (s: logistic function, *: elementwise):
 *
 *     a_t (4 units) = x_t (in) W (in, 4 units) + h_(t-1) (units) U (units, 4 units) + b (4 units)
 *     [i f g o] = [s(a_i) s(a_f) tanh(a_g) s(a_o)]
 *     c_t = f * c_(t-1) + i * g
 *     h_t = o * tanh(c_t)
 *
 * The output is h of each sample's last step, or with sequences h of every step. Padding is not computed:
 * with sequences its h is 0, and no gradient flows through it.
 *
 * Backward, from the last step; dh and dc are the gradients from the layer above and from step t + 1:
 *
 *     dc += dh * o * (1 - tanh(c_t)^2)
 *     da = [dc g i (1 - i)   dc c_(t-1) f (1 - f)   dc i (1 - g^2)   dh tanh(c_t) o (1 - o)]
 *     dh_(t-1) = da U^T      dc_(t-1) = dc * f
 *     dW = x^T da            dU = h_(t-1)^T da      db = sum of da      dx = da W^T
 *
 * The steps of all samples form one matrix (nn/layers/packed.h), with x_t and h_(t-1) side by side, and U
 * is stored below W: a_t is one product, as are dW with dU, and dx of all steps. The data of a step stay in
 * the second-level cache until it is done. */
#include <assert.h>
#include <string.h>

#include "nn/kernels/matmul.h"
#include "nn/kernels/vecmath.h"
#include "nn/layers/layer.h"
#include "nn/layers/packed.h"
#include "shared/base/compiler.h"

enum { WEIGHT, RECURRENT, BIAS };

struct lstm_space { /* offsets in `work`; R rows: all steps of all samples */
    size_t xh;      /* (R, in + units): h before the step; at the end of backward dx (R, in) */
    size_t a;       /* (R, 4 units): [i f g o], overwritten by da in backward */
    size_t c;       /* (R, units): c before the step */
    size_t tanh_c;  /* (R, units): tanh of c after the step */
    size_t dh, dc;  /* (n, units) */
    size_t last;    /* (2, units): h and c after the last step */
    size_t packed;  /* W and U, or U transposed, as a packed matrix */
    size_t end;
};

static size_t units_of(const struct layer_spec *s)
{
    return s->tensors[RECURRENT].shape[0];
}

/* Inputs of one step: x and h. */
static size_t inputs_of(const struct layer_spec *s)
{
    return (size_t)s->in.dim[1] + units_of(s);
}

static struct lstm_space space_of(const struct layer_spec *s, int n)
{
    size_t u = units_of(s), rows = packed_rows(n, s->in.dim[0]);
    struct lstm_space at = {0};

    at.a = at.xh + rows * inputs_of(s);
    at.c = at.a + rows * 4 * u;
    at.tanh_c = at.c + rows * u;
    at.dh = at.tanh_c + rows * u;
    at.dc = at.dh + (size_t)n * u;
    at.last = at.dc + (size_t)n * u;
    at.packed = at.last + 2 * u;
    at.end = at.packed + matmul_pack_size((int)(4 * u), (int)inputs_of(s));
    return at;
}

static size_t lstm_work(const struct layer_spec *s, int max_batch)
{
    return space_of(s, max_batch).end;
}

/* One step of one sample. a (4 units): the sums, which become the gates. */
FAST static void cell(float *restrict a, const float *restrict c_before, float *restrict c,
                      float *restrict tanh_c, float *restrict h, size_t u)
{
    float *restrict i = a, *restrict f = a + u, *restrict g = a + 2 * u, *restrict o = a + 3 * u;

    for (size_t k = 0; k < u; k++) {
        i[k] = logistic_f32(i[k]);
        f[k] = logistic_f32(f[k]);
    }
    for (size_t k = 0; k < u; k++) {
        g[k] = tanh_f32(g[k]);
        o[k] = logistic_f32(o[k]);
    }
    for (size_t k = 0; k < u; k++) {
        c[k] = f[k] * c_before[k] + i[k] * g[k];
        tanh_c[k] = tanh_f32(c[k]);
        h[k] = o[k] * tanh_c[k];
    }
}

/* dc: the gradient of c_t from step t + 1, which becomes that of c_(t-1). a: the gates, which become da. */
FAST static void cell_backward(float *restrict a, const float *restrict c_before,
                               const float *restrict tanh_c, const float *restrict dh, float *restrict dc,
                               size_t u)
{
    float *restrict ai = a, *restrict af = a + u, *restrict ag = a + 2 * u, *restrict ao = a + 3 * u;

    for (size_t k = 0; k < u; k++) {
        float i = ai[k], f = af[k], g = ag[k], o = ao[k], th = tanh_c[k];
        float d = dc[k] + dh[k] * o * (1 - th * th);

        ai[k] = d * g * i * (1 - i);
        af[k] = d * c_before[k] * f * (1 - f);
        ag[k] = d * i * (1 - g * g);
        ao[k] = dh[k] * th * o * (1 - o);
        dc[k] = d * f;
    }
}

static void lstm_forward(const struct layer *l, const float *x, const struct pass *p)
{
    const struct lstm_space at = space_of(l->spec, p->n);
    const size_t in = (size_t)l->spec->in.dim[1], u = units_of(l->spec), n_inputs = inputs_of(l->spec);
    float *a = l->work + at.a, *xh = l->work + at.xh, *c = l->work + at.c, *last = l->work + at.last;
    struct packed *s = l->own;
    struct matmul_packed w_and_u;

    assert(l->params[RECURRENT] == l->params[WEIGHT] + in * 4 * u);
    matmul_pack(&w_and_u, false, (int)(4 * u), (int)n_inputs, l->params[WEIGHT], l->work + at.packed);
    packed_arrange(s, p->n, p->lengths);
    packed_gather(s, xh, n_inputs, x, in);
    for (int k = 0; k < p->n; k++)
        memset(xh + (size_t)k * n_inputs + in, 0, u * sizeof *xh);
    memset(c, 0, (size_t)p->n * u * sizeof *c);
    if (l->spec->recurrent.sequences)
        memset(l->y, 0, (size_t)p->n * (size_t)s->time * u * sizeof *l->y);
    for (int t = 0; t < s->n_steps; t++) {
        float *a_t = a + s->first[t] * 4 * u;

        matmul_repeat_row(a_t, l->params[BIAS], (size_t)s->n_at[t], 4 * u);
        matmul_by_packed(&w_and_u, s->n_at[t], xh + s->first[t] * n_inputs, 1, a_t);
        for (int k = 0; k < s->n_at[t]; k++) {
            size_t here = s->first[t] + (size_t)k, next = s->first[t + 1] + (size_t)k;
            bool goes_on = k < s->n_at[t + 1];
            float *h_after = goes_on ? xh + next * n_inputs + in : last;
            float *y = packed_output(s, l->y, t, k, u, l->spec->recurrent.sequences);

            cell(a + here * 4 * u, c + here * u, goes_on ? c + next * u : last + u,
                 l->work + at.tanh_c + here * u, h_after, u);
            if (y)
                memcpy(y, h_after, u * sizeof *y);
        }
    }
}

static void lstm_backward(const struct layer *l, const float *x, float *dy, float *dx, const struct pass *p)
{
    const struct lstm_space at = space_of(l->spec, p->n);
    const size_t u = units_of(l->spec), n = (size_t)p->n;
    const int in = l->spec->in.dim[1], n_gates = (int)(4 * u);
    const struct packed *s = l->own;
    const int rows = (int)s->first[s->n_steps];
    float *a = l->work + at.a, *dh = l->work + at.dh, *dc = l->work + at.dc;
    struct matmul_packed u_t;

    (void)x; /* copied by packed_gather() in forward */
    matmul_pack(&u_t, true, (int)u, n_gates, l->params[RECURRENT], l->work + at.packed);
    memset(dh, 0, n * u * sizeof *dh);
    memset(dc, 0, n * u * sizeof *dc);
    memset(l->grads[BIAS], 0, 4 * u * sizeof *a);
    for (int t = s->n_steps - 1; t >= 0; t--) {
        float *a_t = a + s->first[t] * 4 * u;

        for (int k = 0; k < s->n_at[t]; k++) {
            size_t here = s->first[t] + (size_t)k;

            packed_add_above(s, dh + (size_t)k * u, dy, t, k, u, l->spec->recurrent.sequences);
            cell_backward(a + here * 4 * u, l->work + at.c + here * u, l->work + at.tanh_c + here * u,
                          dh + (size_t)k * u, dc + (size_t)k * u, u);
        }
        matmul_add_rows(l->grads[BIAS], a_t, (size_t)s->n_at[t], 4 * u);
        if (t > 0)
            matmul_by_packed(&u_t, s->n_at[t], a_t, 0, dh);
    }
    matmul(true, false, (int)inputs_of(l->spec), n_gates, rows, l->work + at.xh, a, 0, l->grads[WEIGHT]);
    if (!dx)
        return;
    matmul(false, true, rows, in, n_gates, a, l->params[WEIGHT], 0, l->work + at.xh);
    packed_scatter(s, dx, l->work + at.xh, (size_t)in);
}

const struct layer_ops layer_lstm = {.work = lstm_work,
                                     .open = packed_open,
                                     .close = packed_close,
                                     .forward = lstm_forward,
                                     .backward = lstm_backward};
