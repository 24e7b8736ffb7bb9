/* workload_standin -- the workload of a simulation without a network: the gradient of a quadratic loss, with
 * noise. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/compiler.h"
#include "shared/base/rng.h"
#include "sim/workload.h"

enum { NOISE = 1 << 16, LANES = 16 };

struct standin {
    struct workload base;
    float *target; /* (n_params) */
    float *noise;  /* (NOISE), N(0, 1): blocks and steps begin at different offsets */
    struct tensor_view view;
    uint64_t seed;
};

/* grads = params - target + noise. Returns the sum of (params - target)^2. */
FAST static float pull(float *restrict grads, const float *restrict params, const float *restrict target,
                       const float *restrict noise, size_t n)
{
    float sums[LANES] = {0}, sum = 0;
    size_t i = 0;

    for (; i + LANES <= n; i += LANES)
        for (size_t k = 0; k < LANES; k++) {
            float d = params[i + k] - target[i + k];

            sums[k] += d * d;
            grads[i + k] = d + noise[i + k];
        }
    for (; i < n; i++) {
        float d = params[i] - target[i];

        sum += d * d;
        grads[i] = d + noise[i];
    }
    for (int k = 0; k < LANES; k++)
        sum += sums[k];
    return sum;
}

static void standin_begin(struct workload *load, float *params)
{
    memset(params, 0, load->n_params * sizeof *params);
}

static int standin_gradient(struct workload *load, const struct workload_batch *b, const float *params,
                            float *grads, struct net_score *score, struct err *e)
{
    struct standin *s = (struct standin *)load;
    struct rng r;
    size_t from;
    double sum = 0;

    (void)e;
    rng_init(&r, s->seed, b->step, (uint64_t)b->block);
    from = rng_below(&r, NOISE);
    for (size_t at = 0, n; at < load->n_params; at += n, from = 0) {
        n = load->n_params - at < NOISE - from ? load->n_params - at : NOISE - from;
        sum += (double)pull(grads + at, params + at, s->target + at, s->noise + from, n);
    }
    score->loss += 0.5 * sum / (double)load->n_params;
    score->n++;
    return 0;
}

static int standin_evaluate(struct workload *load, const float *params, uint64_t step, double *loss,
                            double *accuracy, struct err *e)
{
    const struct standin *s = (const struct standin *)load;
    double sum = 0;

    (void)step, (void)e;
    for (size_t i = 0; i < load->n_params; i++) {
        double d = (double)params[i] - (double)s->target[i];

        sum += d * d;
    }
    *loss = 0.5 * sum / (double)load->n_params;
    *accuracy = NAN;
    return 0;
}

static size_t standin_tensors(struct workload *load, const float *params, const struct tensor_view **out)
{
    struct standin *s = (struct standin *)load;

    s->view.data = params ? params : s->target;
    *out = &s->view;
    return 1;
}

static void standin_free(struct workload *load, const char *why_failed)
{
    struct standin *s = (struct standin *)load;

    (void)why_failed;
    free(s->target);
    free(s->noise);
    free(s);
}

static const struct workload_ops ops = {.begin = standin_begin,
                                        .gradient = standin_gradient,
                                        .evaluate = standin_evaluate,
                                        .tensors = standin_tensors,
                                        .free = standin_free};

static void fill_vector(float *v, size_t n, uint64_t seed, uint64_t what)
{
    struct rng r;

    rng_init(&r, seed, what, 0);
    for (size_t i = 0; i < n; i++)
        v[i] = rng_normal(&r);
}

int workload_standin(struct workload **out, size_t n_params, uint64_t seed, struct err *e)
{
    struct standin *s = calloc(1, sizeof *s);

    if (s) {
        s->target = malloc(n_params * sizeof *s->target);
        s->noise = malloc(NOISE * sizeof *s->noise);
    }
    if (!s || !s->target || !s->noise) {
        if (s)
            standin_free(&s->base, NULL);
        return err_set(e, ERR_NOMEM, "no memory for gradients of %zu numbers", n_params);
    }
    s->base = (struct workload){.ops = &ops, .n_params = n_params, .n_trained = n_params, .has_test = true};
    s->seed = seed;
    s->view = (struct tensor_view){.name = "weights", .type = TENSOR_F32, .n_dims = 1, .shape = {n_params}};
    fill_vector(s->target, n_params, seed, 0x7a);
    fill_vector(s->noise, NOISE, seed, 0x15);
    *out = &s->base;
    return 0;
}
