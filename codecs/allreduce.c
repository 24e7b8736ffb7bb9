/* allreduce -- the update of every worker uses the mean gradient of all workers: g <- (1 / n) sum_k g_k
 *
 * The result is that of plain with redundancy 1, except for the order of summation, at the cost of an
 * all-reduce: by ring 2 (n - 1) / n n_params numbers each way per step, whatever the number of workers
 * (Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", JPDC 2009),
 * and fewer messages for short vectors (Thakur et al., "Optimization of collective communication operations
 * in MPICH", IJHPCA 2005). */
#include "codec.h"

struct allreduce {
    float *mean[2];    /* alternating: other workers may still receive from the last one */
    bool is_requested; /* this step's all-reduce was requested while its gradient was computed */
};

static int allreduce_open(struct codec *c)
{
    struct allreduce *a = c->state;
    int rc = c->host->zeros(c, &a->mean[0], c->n_params);

    return rc < 0 ? rc : c->host->zeros(c, &a->mean[1], c->n_params);
}

static float *mean_of_step(const struct codec *c)
{
    const struct allreduce *a = c->state;

    return a->mean[c->step % 2];
}

static int request_mean(struct codec *c)
{
    return c->host->all_reduce(c, CODEC_MEAN, c->grads, mean_of_step(c), c->n_params);
}

static int allreduce_on_backward(struct codec *c)
{
    struct allreduce *a = c->state;
    int rc = request_mean(c);

    a->is_requested = true;
    return rc < 0 ? rc : CODEC_GO;
}

/* A single worker has the mean already: copying it would take as long as the update. */
static int allreduce_on_grad(struct codec *c)
{
    struct allreduce *a = c->state;

    if (c->n_workers == 1)
        return CODEC_GO;
    if (!a->is_requested)
        return request_mean(c);
    a->is_requested = false;
    return CODEC_WAIT;
}

static int allreduce_on_collective(struct codec *c)
{
    c->gradient = mean_of_step(c);
    return CODEC_GO;
}

static const struct codec_events allreduce = {.on_backward = allreduce_on_backward,
                                              .on_grad = allreduce_on_grad,
                                              .on_collective = allreduce_on_collective,
                                              .is_quiescent_between_steps = true};

CODEC_PLUGIN(.name = "allreduce", .source = "Patarasuk and Yuan 2009; Thakur et al. 2005",
             .cost = "an all-reduce of n_params each step: 2 (n - 1) / n * 4 n_params bytes each way by ring",
             .state_size = sizeof(struct allreduce), .open = allreduce_open, .events = &allreduce,
             .limits = CODEC_NO_SERVERS | CODEC_NO_ASGD | CODEC_NO_REDUNDANCY,
             .result = CODEC_MEAN_OF_GRADIENTS, .compression = CODEC_UNCOMPRESSED)
