/* fedadam -- fedavg whose global step is one of Adam:
 *     D = sum_k (n_k / n) (x_k - x)
 *     m <- beta1 m + (1 - beta1) D;      v <- beta2 v + (1 - beta2) D^2
 *     x <- x + lr m / (sqrt(v) + tau)
 *
 * Reddi, Charles, Zaheer, Garrett, Rush, Konecny, Kumar and McMahan, "Adaptive Federated Optimization", ICLR
 * 2021, Algorithm 2 (FEDADAM): v begins as tau^2, and m is not bias-corrected. Deviation: weighted
 * by samples, as in the paper's appendix, not equally. */
#include <math.h>

#include "codec.h"

struct fedadam {
    float lr, beta1, beta2, tau;
    float *m, *v;
};

static const struct codec_option options[] = {
    CODEC_OPTION(struct fedadam, lr, 0.1, 0, 1e3, "learning rate of the global step"),
    CODEC_OPTION(struct fedadam, beta1, 0.9, 0, 0.9999, "decay of the mean of changes"),
    CODEC_OPTION(struct fedadam, beta2, 0.99, 0, 0.99999, "decay of the mean of their squares"),
    CODEC_OPTION(struct fedadam, tau, 1e-3, 1e-12, 1, "adaptivity: the least divisor of a change"),
    {0},
};

static int fedadam_open(struct codec *c)
{
    const struct fedadam *f = c->state;

    for (size_t i = 0; i < c->n_params; i++)
        f->v[i] = f->tau * f->tau;
    return CODEC_GO;
}

static int fedadam_apply(struct codec *c, const float *const *mean)
{
    const struct fedadam *f = c->state;

    for (size_t i = 0; i < c->n_params; i++) {
        float d = mean[0][i];

        f->m[i] = f->beta1 * f->m[i] + (1 - f->beta1) * d;
        f->v[i] = f->beta2 * f->v[i] + (1 - f->beta2) * d * d;
        c->global[i] += f->lr * f->m[i] / (sqrtf(f->v[i]) + f->tau);
    }
    return CODEC_GO;
}

static const struct codec_combine fedadam = {
    .when = CODEC_EACH_ROUND, .keeps_global = true, .contributes_change = true, .apply = fedadam_apply};

CODEC_PLUGIN(
        .name = "fedadam", .source = "Reddi et al., ICLR 2021, Algorithm 2",
        .equation =
            "m <- beta1 m + (1 - beta1) D; v <- beta2 v + (1 - beta2) D^2; x <- x + lr m / (sqrt(v) + tau)",
        .state_size = sizeof(struct fedadam), .options = options,
        .vectors = CODEC_VECTORS(offsetof(struct fedadam, m), offsetof(struct fedadam, v)),
        .open = fedadam_open, .combine = &fedadam, .limits = CODEC_NO_ASGD)
