/* notebook -- easgd_grad (codecs/easgd_grad.c) with the gradients of the ZeroMQ notebook: those that numpy
 * draws uniformly after seed(7 w), for worker w, in each of five steps. Worker 0 records the workers' numbers
 * and the center's after each step, which are to be those that the notebook prints: the model's first
 * parameter, while its bias stays where it is. eta is the job's rate, and `every` has to be 1. */
#include "codec_events.h"

enum { STEPS = 5, WORKERS = 2 };

static const float gradients[WORKERS][STEPS] = {
    {0.5488135f, 0.71518937f, 0.60276338f, 0.54488318f, 0.4236548f},
    {0.07630829f, 0.77991879f, 0.43840923f, 0.72346518f, 0.97798951f},
};

struct notebook {
    float rho, start;
};

static const struct codec_option options[] = {
    CODEC_OPTION(struct notebook, rho, 0.5, 0, 1e6, "strength of the pull between worker and center"),
    CODEC_OPTION(struct notebook, start, 0.1106, -1e6, 1e6, "where the center and all workers start"),
    {0},
};

static int notebook_on_gradient(struct codec *c)
{
    const struct notebook *s = c->state;

    if (c->run->step >= STEPS || c->run->node >= WORKERS)
        return codec_fail(c, "the notebook has 5 steps of 2 workers");
    memset(c->grads, 0, c->n_params * sizeof *c->grads);
    if (c->run->step == 0)
        c->params[0] = c->global[0] = s->start;
    c->grads[0] = gradients[c->run->node][c->run->step] + s->rho * (c->params[0] - c->global[0]);
    return CODEC_GO;
}

/* Besides the weights the rate, and each worker's own number at its place: the host takes their mean. */
static float notebook_contribute(struct codec *c, float *const *v)
{
    memcpy(v[0], c->params, c->n_params * sizeof *v[0]);
    c->numbers[0] = c->lr_sum / (float)c->n_local;
    for (int k = 0; k < WORKERS; k++)
        c->numbers[1 + k] = k == c->run->node ? c->params[0] : 0;
    return 1;
}

static int notebook_apply(struct codec *c, const float *const *mean)
{
    const struct notebook *s = c->state;
    float part = c->numbers[0] * s->rho * (float)c->n_contributions;
    int rc;

    c->global[0] += part * (mean[0][0] - c->global[0]);
    if (c->run->node != 0)
        return CODEC_GO;
    rc = codec_record(c, "w0", (double)(c->numbers[1] * (float)c->n_contributions));
    if (rc >= 0)
        rc = codec_record(c, "w1", (double)(c->numbers[2] * (float)c->n_contributions));
    return rc < 0 ? rc : codec_record(c, "center", (double)c->global[0]);
}

static int notebook_adopt(struct codec *c, const float *before)
{
    (void)c, (void)before; /* a worker keeps its own weights */
    return CODEC_GO;
}

static const struct codec_combine notebook = {.when = CODEC_EACH_ROUND,
                                              .n_numbers = 1 + WORKERS,
                                              .keeps_global = true,
                                              .contribute = notebook_contribute,
                                              .apply = notebook_apply,
                                              .adopt = notebook_adopt,
                                              .on_gradient = notebook_on_gradient};

CODEC_PLUGIN(.name = "notebook", .source = "a notebook on EASGD over ZeroMQ",
             .state_size = sizeof(struct notebook), .options = options, .combine = &notebook,
             .limits = CODEC_NO_ASGD)
