/* fedyogi -- fedavg whose global step is one of Yogi:
 *     D = sum_k (n_k / n) (x_k - x)
 *     m <- beta1 m + (1 - beta1) D;      v <- v - (1 - beta2) D^2 sign(v - D^2)
 *     x <- x + lr m / (sqrt(v) + tau)
 *
 * Reddi, Charles, Zaheer, Garrett, Rush, Konecny, Kumar and McMahan, "Adaptive Federated Optimization", ICLR
 * 2021, Algorithm 2 (FEDYOGI): v begins as tau^2, and m is not bias-corrected. Deviation: weighted
 * by samples, as in the paper's appendix, not equally. */
#include <math.h>

#include "codec.h"

struct fedyogi {
    float lr, beta1, beta2, tau;
    float *m, *v;
};

static const struct codec_option options[] = {
    CODEC_OPTION(struct fedyogi, lr, 0.1, 0, 1e3, "learning rate of the global step"),
    CODEC_OPTION(struct fedyogi, beta1, 0.9, 0, 0.9999, "decay of the mean of changes"),
    CODEC_OPTION(struct fedyogi, beta2, 0.99, 0, 0.99999, "decay of the mean of their squares"),
    CODEC_OPTION(struct fedyogi, tau, 1e-3, 1e-12, 1, "adaptivity: the least divisor of a change"),
    {0},
};

static int fedyogi_open(struct codec *c)
{
    const struct fedyogi *f = c->state;

    for (size_t i = 0; i < c->n_params; i++)
        f->v[i] = f->tau * f->tau;
    return CODEC_GO;
}

static int fedyogi_apply(struct codec *c, const float *const *mean)
{
    const struct fedyogi *f = c->state;

    for (size_t i = 0; i < c->n_params; i++) {
        float d = mean[0][i];

        f->m[i] = f->beta1 * f->m[i] + (1 - f->beta1) * d;
        f->v[i] -= (1 - f->beta2) * copysignf(d * d, f->v[i] - d * d);
        c->global[i] += f->lr * f->m[i] / (sqrtf(f->v[i]) + f->tau);
    }
    return CODEC_GO;
}

static const struct codec_combine fedyogi = {
    .when = CODEC_EACH_ROUND, .keeps_global = true, .contributes_change = true, .apply = fedyogi_apply};

CODEC_PLUGIN(.name = "fedyogi", .source = "Reddi et al., ICLR 2021, Algorithm 2",
             .equation = "m <- beta1 m + (1 - beta1) D; v <- v - (1 - beta2) D^2 sign(v - D^2); x <- x + lr "
                         "m / (sqrt(v) + tau)",
             .state_size = sizeof(struct fedyogi), .options = options,
             .vectors = CODEC_VECTORS(offsetof(struct fedyogi, m), offsetof(struct fedyogi, v)),
             .open = fedyogi_open, .combine = &fedyogi, .limits = CODEC_NO_ASGD)
