/* One deviation from the paper: a moment below the least normal float becomes 0. Adam's first moment would
 * otherwise stay denormal for ever where gradients have died away, and arithmetic on denormal numbers is
 * slow. */
#include "nn/optimizer.h"

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct optimizer {
    void (*step)(struct optimizer *o, float *params, const float *grads);
    size_t n_params;
    float lr;
    uint64_t t;   /* steps taken */
    float *m, *v; /* Adam's first and second moment (n_params) */
};

static void sgd_step(struct optimizer *o, float *restrict params, const float *restrict grads)
{
    const float lr = o->lr;

    for (size_t i = 0; i < o->n_params; i++)
        params[i] -= lr * grads[i];
}

/* Kingma and Ba 2015, Algorithm 1: m <- b1 m + (1 - b1) g, v <- b2 v + (1 - b2) g^2,
 * w <- w - lr (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps) */
static void adam_step(struct optimizer *o, float *restrict params, const float *restrict grads)
{
    const float b1 = 0.9f, b2 = 0.999f, eps = 1e-8f;
    const float rest1 = 0.1f, rest2 = 0.001f;
    const double t = (double)o->t;
    const float rate = (float)((double)o->lr / (1 - pow(0.9, t)));
    const float unbias = (float)(1 / sqrt(1 - pow(0.999, t)));
    float *restrict m = o->m;
    float *restrict v = o->v;

    for (size_t i = 0; i < o->n_params; i++) {
        float g = grads[i];
        float m_i = b1 * m[i] + rest1 * g;
        float v_i = b2 * v[i] + rest2 * g * g;

        m_i = fabsf(m_i) < FLT_MIN ? 0 : m_i;
        v_i = v_i < FLT_MIN ? 0 : v_i;
        m[i] = m_i;
        v[i] = v_i;
        params[i] -= rate * m_i / (sqrtf(v_i) * unbias + eps);
    }
}

static const struct {
    const char *name;
    void (*step)(struct optimizer *o, float *params, const float *grads);
    int n_moments;
} kinds[] = {
    {"sgd", sgd_step, 0},
    {"adam", adam_step, 2},
};

int optimizer_new(struct optimizer **out, const char *name, size_t n_params, float lr, struct err *e)
{
    struct optimizer *o;
    size_t k = 0;

    while (k < sizeof kinds / sizeof kinds[0] && strcmp(kinds[k].name, name) != 0)
        k++;
    if (k == sizeof kinds / sizeof kinds[0])
        return err_set(e, ERR_CONFIG, "no optimizer is called \"%s\"; there are: sgd, adam", name);
    o = calloc(1, sizeof *o);
    if (!o)
        goto no_memory;
    *o = (struct optimizer){.step = kinds[k].step, .n_params = n_params, .lr = lr};
    if (kinds[k].n_moments == 2) {
        o->m = calloc(n_params, sizeof *o->m);
        o->v = calloc(n_params, sizeof *o->v);
        if (!o->m || !o->v)
            goto no_memory;
    }
    *out = o;
    return 0;
no_memory:
    optimizer_free(o);
    return err_set(e, ERR_NOMEM, "no memory for %s's state of %zu parameters", name, n_params);
}

void optimizer_free(struct optimizer *o)
{
    if (!o)
        return;
    free(o->m);
    free(o->v);
    free(o);
}

void optimizer_step(struct optimizer *o, float *params, const float *grads)
{
    o->t++;
    o->step(o, params, grads);
}
