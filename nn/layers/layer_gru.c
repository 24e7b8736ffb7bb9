/* gru -- gated recurrent unit, in PyTorch's form, with the reset gate after the recurrent product, which has
 * a separate bias (c). Cho et al. 2014. For each step t, from h = 0 (s: logistic function, *: elementwise):
 *
 *     a_t (3 units) = x_t (in) W (in, 3 units) + b (3 units)
 *     q_t (3 units) = h_(t-1) (units) U (units, 3 units) + c (3 units)
 *     r = s(a_r + q_r)      z = s(a_z + q_z)      n = tanh(a_n + r * q_n)
 *     h_t = (1 - z) * n + z * h_(t-1)
 *
 * The output is h of each sample's last step, or with sequences h of every step. Padding is not computed:
 * with sequences its h is 0, and no gradient flows through it.
 *
 * Backward, from the last step; dh is the gradient from the layer above and from step t + 1:
 *
 *     dn = dh (1 - z) (1 - n^2)      dr = dn q_n r (1 - r)      dz = dh (h_(t-1) - n) z (1 - z)
 *     da = [dr dz dn]                dq = [dr dz dn*r]
 *     dh_(t-1) = dh * z + dq U^T
 *     dW = x^T da      db = sum of da      dx = da W^T      dU = h_(t-1)^T dq      dc = sum of dq
 *
 * The steps of all samples form one matrix (nn/layers/packed.h), so that x W, dW, dU and dx are one
 * product each; only the recurrence is computed step by step. */
#include <string.h>

#include "nn/kernels/matmul.h"
#include "nn/kernels/vecmath.h"
#include "nn/layers/layer.h"
#include "nn/layers/packed.h"
#include "shared/base/compiler.h"

enum { WEIGHT, RECURRENT, BIAS, RECURRENT_BIAS };

struct gru_space { /* offsets in `work`; R rows: all steps of all samples */
    size_t x;      /* (R, in); at the end of backward dx */
    size_t a;      /* (R, 3 units): [r z n], overwritten by da in backward */
    size_t q;      /* (R, 3 units): overwritten by dq in backward */
    size_t h;      /* (R, units): h before the step */
    size_t dh;     /* (n, units) */
    size_t last;   /* (units): h after the last step */
    size_t packed; /* U, or its transpose, as a packed matrix */
    size_t end;
};

static size_t units_of(const struct layer_spec *s)
{
    return s->tensors[RECURRENT].shape[0];
}

static struct gru_space space_of(const struct layer_spec *s, int n)
{
    size_t u = units_of(s), rows = packed_rows(n, s->in.dim[0]);
    struct gru_space at = {0};

    at.a = at.x + rows * (size_t)s->in.dim[1];
    at.q = at.a + rows * 3 * u;
    at.h = at.q + rows * 3 * u;
    at.dh = at.h + rows * u;
    at.last = at.dh + (size_t)n * u;
    at.packed = at.last + u;
    at.end = at.packed + matmul_pack_size((int)(3 * u), (int)u);
    return at;
}

static size_t gru_work(const struct layer_spec *s, int max_batch)
{
    return space_of(s, max_batch).end;
}

/* One step of one sample. a (3 units): the sums, which become the gates. */
FAST static void cell(float *restrict a, const float *restrict q, const float *restrict h_before,
                      float *restrict h, size_t u)
{
    float *restrict r = a, *restrict z = a + u, *restrict n = a + 2 * u;

    for (size_t k = 0; k < u; k++) {
        r[k] = logistic_f32(r[k] + q[k]);
        z[k] = logistic_f32(z[k] + q[u + k]);
    }
    for (size_t k = 0; k < u; k++) {
        n[k] = tanh_f32(n[k] + r[k] * q[2 * u + k]);
        h[k] = (1 - z[k]) * n[k] + z[k] * h_before[k];
    }
}

/* a: the gates, which become da. q becomes dq. dh: in that of h_t, out the part of h_(t-1)'s that z passes
 * through. */
FAST static void cell_backward(float *restrict a, float *restrict q, const float *restrict h_before,
                               float *restrict dh, size_t u)
{
    float *restrict ar = a, *restrict az = a + u, *restrict an = a + 2 * u;
    float *restrict qr = q, *restrict qz = q + u, *restrict qn = q + 2 * u;

    for (size_t k = 0; k < u; k++) {
        float r = ar[k], z = az[k], n = an[k], d = dh[k];
        float dn = d * (1 - z) * (1 - n * n);

        an[k] = dn;
        ar[k] = qr[k] = dn * qn[k] * r * (1 - r);
        az[k] = qz[k] = d * (h_before[k] - n) * z * (1 - z);
        qn[k] = dn * r;
        dh[k] = d * z;
    }
}

static void gru_forward(const struct layer *l, const float *x, const struct pass *p)
{
    const struct gru_space at = space_of(l->spec, p->n);
    const int n_gates = (int)l->spec->tensors[RECURRENT].shape[1];
    const size_t u = units_of(l->spec), row = u * sizeof(float);
    float *a = l->work + at.a, *q = l->work + at.q, *h = l->work + at.h;
    struct packed *s = l->own;
    struct matmul_packed recurrent;
    size_t rows;

    matmul_pack(&recurrent, false, n_gates, (int)u, l->params[RECURRENT], l->work + at.packed);
    packed_arrange(s, p->n, p->lengths);
    rows = s->first[s->n_steps];
    packed_gather(s, l->work + at.x, (size_t)l->spec->in.dim[1], x, (size_t)l->spec->in.dim[1]);
    matmul_repeat_row(a, l->params[BIAS], rows, 3 * u);
    matmul_repeat_row(q, l->params[RECURRENT_BIAS], rows, 3 * u);
    matmul(false, false, (int)rows, n_gates, l->spec->in.dim[1], l->work + at.x, l->params[WEIGHT], 1, a);
    memset(h, 0, (size_t)p->n * row);
    if (l->spec->recurrent.sequences)
        memset(l->y, 0, (size_t)p->n * (size_t)s->time * row);
    for (int t = 0; t < s->n_steps; t++) {
        if (t > 0)
            matmul_by_packed(&recurrent, s->n_at[t], h + s->first[t] * u, 1, q + s->first[t] * 3 * u);
        for (int k = 0; k < s->n_at[t]; k++) {
            size_t here = s->first[t] + (size_t)k, next = s->first[t + 1] + (size_t)k;
            float *h_after = k < s->n_at[t + 1] ? h + next * u : l->work + at.last;
            float *y = packed_output(s, l->y, t, k, u, l->spec->recurrent.sequences);

            cell(a + here * 3 * u, q + here * 3 * u, h + here * u, h_after, u);
            if (y)
                memcpy(y, h_after, row);
        }
    }
}

static void gru_backward(const struct layer *l, const float *x, float *dy, float *dx, const struct pass *p)
{
    const struct gru_space at = space_of(l->spec, p->n);
    const int in = l->spec->in.dim[1], n_gates = (int)l->spec->tensors[RECURRENT].shape[1];
    const size_t u = units_of(l->spec), n = (size_t)p->n;
    const struct packed *s = l->own;
    const size_t rows = s->first[s->n_steps];
    float *a = l->work + at.a, *q = l->work + at.q, *dh = l->work + at.dh;
    struct matmul_packed recurrent;

    (void)x; /* copied by packed_gather() in forward */
    matmul_pack(&recurrent, true, (int)u, n_gates, l->params[RECURRENT], l->work + at.packed);
    memset(dh, 0, n * u * sizeof *dh);
    for (int t = s->n_steps - 1; t >= 0; t--) {
        for (int k = 0; k < s->n_at[t]; k++) {
            size_t here = s->first[t] + (size_t)k;

            packed_add_above(s, dh + (size_t)k * u, dy, t, k, u, l->spec->recurrent.sequences);
            cell_backward(a + here * 3 * u, q + here * 3 * u, l->work + at.h + here * u, dh + (size_t)k * u,
                          u);
        }
        if (t > 0)
            matmul_by_packed(&recurrent, s->n_at[t], q + s->first[t] * 3 * u, 1, dh);
    }
    memset(l->grads[BIAS], 0, 3 * u * sizeof *a);
    matmul_add_rows(l->grads[BIAS], a, rows, 3 * u);
    memset(l->grads[RECURRENT_BIAS], 0, 3 * u * sizeof *a);
    matmul_add_rows(l->grads[RECURRENT_BIAS], q, rows, 3 * u);
    matmul(true, false, in, n_gates, (int)rows, l->work + at.x, a, 0, l->grads[WEIGHT]);
    if (rows > n) /* h before the first step is 0 */
        matmul(true, false, (int)u, n_gates, (int)(rows - n), l->work + at.h + n * u, q + n * 3 * u, 0,
               l->grads[RECURRENT]);
    else
        memset(l->grads[RECURRENT], 0, u * 3 * u * sizeof *q);
    if (!dx)
        return;
    matmul(false, true, (int)rows, in, n_gates, a, l->params[WEIGHT], 0, l->work + at.x);
    packed_scatter(s, dx, l->work + at.x, (size_t)in);
}

const struct layer_ops layer_gru = {.work = gru_work,
                                    .open = packed_open,
                                    .close = packed_close,
                                    .forward = gru_forward,
                                    .backward = gru_backward};
