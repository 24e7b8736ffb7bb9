/* Cross-entropy of the softmax: -log(e^z_label / sum e^z) = log sum e^(z - max) + max - z_label. With the
 * largest logit taken away no exponential overflows, and the sum is at least 1. */
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

double loss_forward(const float *z, const uint8_t *labels, int n, int k, size_t *n_right)
{
    double loss = 0;

    for (int i = 0; i < n; i++, z += k) {
        int best = largest(z, k);
        float sum = 0;

        assert(labels[i] < k);
        for (int j = 0; j < k; j++)
            sum += exp_f32(z[j] - z[best]);
        loss += log((double)sum) + (double)z[best] - (double)z[labels[i]];
        *n_right += best == labels[i];
    }
    return loss;
}

double loss_backward(float *dz, const float *z, const uint8_t *labels, int n, int k, size_t *n_right)
{
    const float share = 1 / (float)n;
    double loss = 0;

    for (int i = 0; i < n; i++, z += k, dz += k) {
        int best = largest(z, k);
        float sum = 0;
        float scale;

        assert(labels[i] < k);
        for (int j = 0; j < k; j++)
            dz[j] = exp_f32(z[j] - z[best]);
        for (int j = 0; j < k; j++)
            sum += dz[j];
        scale = share / sum;
        for (int j = 0; j < k; j++)
            dz[j] *= scale;
        dz[labels[i]] -= share;
        loss += log((double)sum) + (double)z[best] - (double)z[labels[i]];
        *n_right += best == labels[i];
    }
    return loss;
}
