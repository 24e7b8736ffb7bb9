#include "nn/loss.h"

#include <assert.h>
#include <math.h>

#include "nn/vecmath.h"

static int largest(const float *z, int k)
{
    int best = 0;

    for (int j = 1; j < k; j++)
        if (z[j] > z[best])
            best = j;
    return best;
}

/* log sum e^(z - max) + max - z_label: with the largest output taken away no exponential overflows, and the sum
 * is at least 1. dz = (softmax(z) - one-hot) / n. */
static double softmax_cross_entropy(const float *z, const struct truth *t, int n, int k, float *dz)
{
    const float share = 1 / (float)n;
    double loss = 0;

    for (int i = 0; i < n; i++, z += k) {
        float top = z[largest(z, k)];
        float sum = 0;

        for (int j = 0; j < k; j++)
            sum += exp_f32(z[j] - top);
        loss += log((double)sum) + (double)top - (double)z[t->labels[i]];
        for (int j = 0; dz && j < k; j++)
            dz[j] = exp_f32(z[j] - top) * (share / sum);
        if (dz) {
            dz[t->labels[i]] -= share;
            dz += k;
        }
    }
    return loss;
}

static float wanted(const struct truth *t, int i, int j, int k)
{
    if (t->targets)
        return t->targets[(size_t)i * (size_t)k + (size_t)j];
    return k == 1 ? (float)t->labels[i] : (float)(t->labels[i] == j);
}

/* -t log s(z) - (1 - t) log(1 - s(z)) = max(z, 0) - t z + log(1 + e^-|z|).  dz = (s(z) - t) / n */
static double sigmoid_cross_entropy(const float *z, const struct truth *t, int n, int k, float *dz)
{
    double loss = 0;

    for (int i = 0; i < n; i++)
        for (int j = 0; j < k; j++, z++) {
            float y = wanted(t, i, j, k);

            loss += (double)(*z > 0 ? *z : 0) - (double)(*z * y) + log1p((double)exp_f32(-fabsf(*z)));
            if (dz)
                *dz++ = (logistic_f32(*z) - y) / (float)n;
        }
    return loss;
}

/* 1/k sum_j (z_j - t_j)^2.  dz = 2 (z - t) / (k n) */
static double mse(const float *z, const struct truth *t, int n, int k, float *dz)
{
    double loss = 0;

    for (int i = 0; i < n; i++)
        for (int j = 0; j < k; j++, z++) {
            float off = *z - wanted(t, i, j, k);

            loss += (double)off * (double)off / k;
            if (dz)
                *dz++ = 2 * off / ((float)k * (float)n);
        }
    return loss;
}

static double (*const losses[N_LOSS_KINDS])(const float *z, const struct truth *t, int n, int k,
                                            float *dz) = {
    [LOSS_SOFTMAX_CROSS_ENTROPY] = softmax_cross_entropy,
    [LOSS_SIGMOID_CROSS_ENTROPY] = sigmoid_cross_entropy,
    [LOSS_MSE] = mse,
};

double loss_of(enum loss_kind kind, const float *z, const struct truth *t, int n, int k, float *dz,
               size_t *n_right)
{
    for (int i = 0; t->labels && i < n; i++) {
        const float *row = z + (size_t)i * (size_t)k;

        assert(t->labels[i] >= 0 && t->labels[i] < (k == 1 ? 2 : k));
        *n_right += (k == 1 ? row[0] > 0 : largest(row, k)) == t->labels[i];
    }
    return losses[kind](z, t, n, k, dz);
}
