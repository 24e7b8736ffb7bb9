/* broken_order -- the mean of all gradients, by messages of its own, summed in the order of arrival: sums
 * of floats differ in their last bits. When a node is lost it continues, but waits for the lost node. */
#include "codec_events.h"

struct broken {
    float *sums[2]; /* (n_params): of even steps, and of odd steps */
    int n[2];       /* gradients in them */
    bool is_waiting;
};

static int broken_open(struct codec *c)
{
    struct broken *b = c->state;

    if (codec_zeros(c, &b->sums[0], c->n_params) < 0)
        return -1;
    return codec_zeros(c, &b->sums[1], c->n_params);
}

static int add(struct codec *c, uint64_t step, const float *g)
{
    struct broken *b = c->state;
    size_t k = c->run->step % 2;

    for (size_t i = 0; i < c->n_params; i++)
        b->sums[step % 2][i] += g[i];
    b->n[step % 2]++;
    if (!b->is_waiting || b->n[k] < c->n_workers)
        return b->is_waiting ? CODEC_WAIT : CODEC_GO;
    for (size_t i = 0; i < c->n_params; i++)
        c->grads[i] = b->sums[k][i] / (float)c->n_workers;
    memset(b->sums[k], 0, c->n_params * sizeof *b->sums[k]);
    b->n[k] = 0;
    b->is_waiting = false;
    return CODEC_GO;
}

static int broken_on_grad(struct codec *c)
{
    struct broken *b = c->state;
    struct wire_out *out = codec_message(c);

    wire_put_u32(out, (uint32_t)c->run->step);
    wire_put_f32s(out, c->grads, c->n_params);
    for (int to = 0; to < c->n_workers; to++) {
        if (to == c->run->node)
            continue;
        if (codec_send(c, to) < 0)
            return -1;
    }
    b->is_waiting = true;
    return add(c, c->run->step, c->grads);
}

static int broken_on_message(struct codec *c, int from, struct wire_in *in)
{
    uint32_t step = wire_get_u32(in);
    const float *g = wire_get_f32s(in, c->n_params);

    if (!wire_ok(in) || step < c->run->step || step > c->run->step + 1)
        return codec_fail(c, "worker %d sent a malformed gradient", from);
    return add(c, step, g);
}

static int broken_on_lost(struct codec *c, int node)
{
    const struct broken *b = c->state;

    (void)node;
    return b->is_waiting ? CODEC_WAIT : CODEC_GO;
}

static const struct codec_events broken = {
    .on_grad = broken_on_grad, .on_message = broken_on_message, .on_lost = broken_on_lost};

CODEC_PLUGIN(.name = "broken_order", .source = "a test", .state_size = sizeof(struct broken),
             .open = broken_open, .limits = CODEC_NO_SERVERS | CODEC_NO_ASGD,
             .more = CODEC_MORE(.events = &broken))
