/* linear -- y = w x + b, by hand: w and b come close to 1, 2, 3, 4 and 0.5. Each worker draws samples itself.
 *
 *     cc -Ishared/trainer examples/trainers/linear.c shared/trainer/psgd_trainer.c -o linear && ./linear
 *     build/job_submit --trainer ./linear --codec fedavg --node_count 2 --epochs 3 */
#include <math.h>
#include <stdio.h>

#include "psgd_trainer.h"

enum { N_PARAMS = 5, N_BATCH = 32, N_BATCHES = 100 };

/* g: the gradient of the mean of (w x + b - y)^2 / 2 over n samples. Returns that mean. */
static double gradient(float g[N_PARAMS], const float w[N_PARAMS], uint64_t seed, int n)
{
    const float truth[N_PARAMS] = {1, 2, 3, 4, 0.5f};
    double loss = 0;

    for (int i = 0; i < n; i++) {
        float x[N_PARAMS], error = 0;

        for (int k = 0; k < N_PARAMS; k++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            x[k] = k < 4 ? (float)(seed >> 40) / (1 << 23) - 1 : 1; /* 1: the factor of b */
            error += (w[k] - truth[k]) * x[k];
        }
        for (int k = 0; k < N_PARAMS; k++)
            g[k] = (i > 0 ? g[k] : 0) + error * x[k] / (float)n;
        loss += error * error / 2 / (float)n;
    }
    return loss;
}

int main(void)
{
    const struct psgd_tensor layout[] = {{"w", 1, {4}, false}, {"b", 0, {0}, false}};
    struct psgd *p;
    int what;

    if (psgd_open(&p, layout, 2) < 0)
        return fprintf(stderr, "%s\n", psgd_error()), 1;
    float *w = psgd_params(p), *g = psgd_grads(p), unused[N_PARAMS], lr = 0.1f;
    psgd_batches(p, N_BATCHES);
    while ((what = psgd_next(p)) > PSGD_STOP) {
        uint64_t seed = ((uint64_t)psgd_plan(p)->node << 32) + psgd_plan(p)->step + 1;

        if (what == PSGD_EVALUATE)
            psgd_evaluated(p, gradient(unused, w, 0, 1000), NAN, 1000);
        if (what != PSGD_GO)
            continue;
        const float *by = psgd_gradient(p, gradient(g, w, seed, N_BATCH), N_BATCH, lr);
        for (int k = 0; by && k < N_PARAMS; k++)
            w[k] -= lr * by[k];
        psgd_stepped(p);
        if (psgd_is_alone(p) && psgd_plan(p)->step == 3 * N_BATCHES)
            psgd_finish(p);
    }
    fprintf(stderr, "%s\n", what < 0 ? psgd_error() : psgd_why(p));
    printf("w %.3f %.3f %.3f %.3f, b %.3f\n", w[0], w[1], w[2], w[3], w[4]);
    return psgd_close(p), what < 0;
}
