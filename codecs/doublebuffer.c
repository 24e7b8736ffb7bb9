/* doublebuffer -- the all-reduce of one step's gradient runs while the next gradient is computed, so the
 * update is one step late, equally on every worker:
 *     w_1 = w_0;   w_{t+1} = w_t - lr (1 / n) sum_k g_k(w_{t-1})
 *
 * This is the double buffering of distributed trainers whose network is slower than their processor
 * (ChainerMN's double_buffering optimizer: Akiba, Fukuda and Suzuki, "ChainerMN: Scalable Distributed Deep
 * Learning Framework", 2017). The price is a staleness of one step; the gradient of the last step is not
 * used.
 *
 * Cost: an all-reduce of n_params per step (codecs/allreduce.c) and a copy of the gradient. */
#include "codec.h"

struct doublebuffer {
    float *mine;    /* this worker's gradient, during its all-reduce */
    float *mean[2]; /* of this step, when complete, and of the previous step */
    bool is_under_way, has_next;
};

static int doublebuffer_open(struct codec *c)
{
    struct doublebuffer *d = c->state;
    float **const vectors[] = {&d->mine, &d->mean[0], &d->mean[1]};
    int rc = CODEC_GO;

    for (size_t i = 0; i < sizeof vectors / sizeof *vectors && rc == CODEC_GO; i++)
        rc = c->host->zeros(c, vectors[i], c->n_params);
    return rc;
}

/* The mean of the previous step is complete: it is the update of this step, while this step's gradient is
 * sent. */
static int swap_buffers(struct codec *c)
{
    struct doublebuffer *d = c->state;
    int rc;

    d->has_next = false;
    c->gradient = d->mean[(c->step + 1) % 2];
    if (c->step + 1 >= c->n_steps)
        return CODEC_GO;
    memcpy(d->mine, c->grads, c->n_params * sizeof *d->mine);
    d->is_under_way = true;
    rc = c->host->all_reduce(c, CODEC_MEAN, d->mine, d->mean[c->step % 2], c->n_params);
    return rc < 0 ? rc : CODEC_GO;
}

static int doublebuffer_on_grad(struct codec *c)
{
    struct doublebuffer *d = c->state;

    d->has_next = d->is_under_way;
    return d->is_under_way ? CODEC_WAIT : swap_buffers(c);
}

static int doublebuffer_on_collective(struct codec *c)
{
    struct doublebuffer *d = c->state;

    d->is_under_way = false;
    return d->has_next ? swap_buffers(c) : CODEC_GO;
}

static const struct codec_events doublebuffer = {.on_grad = doublebuffer_on_grad,
                                                 .on_collective = doublebuffer_on_collective};

CODEC_PLUGIN(.name = "doublebuffer", .source = "Akiba, Fukuda and Suzuki 2017",
             .equation = "w_{t+1} <- w_t - eta (1 / n) sum_k g_k(w_{t-1})",
             .cost = "an all-reduce of n_params each step, and a copy of the gradient",
             .state_size = sizeof(struct doublebuffer), .open = doublebuffer_open, .events = &doublebuffer,
             .limits = CODEC_NO_SERVERS | CODEC_NO_ASGD | CODEC_NO_REDUNDANCY, .result = CODEC_EQUAL_RESULT,
             .compression = CODEC_UNCOMPRESSED)
