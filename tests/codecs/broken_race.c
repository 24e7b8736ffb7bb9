/* broken_race -- the mean of all gradients, by messages without a step number: a message counts for the
 * present step of its receiver, even if it is early. */
#include "codec_events.h"

struct broken {
    float *latest; /* (n_workers, n_params): the latest gradient of each worker */
    int n_received;
    bool is_waiting;
};

static int broken_open(struct codec *c)
{
    struct broken *b = c->state;

    return codec_zeros(c, &b->latest, (size_t)c->n_workers * c->n_params);
}

static int go_on(struct codec *c)
{
    struct broken *b = c->state;

    if (b->n_received < c->n_workers - 1)
        return CODEC_WAIT;
    b->n_received -= c->n_workers - 1;
    b->is_waiting = false;
    memset(c->grads, 0, c->n_params * sizeof *c->grads);
    for (int k = 0; k < c->n_workers; k++)
        for (size_t i = 0; i < c->n_params; i++)
            c->grads[i] += b->latest[(size_t)k * c->n_params + i] / (float)c->n_workers;
    return CODEC_GO;
}

static int broken_on_grad(struct codec *c)
{
    struct broken *b = c->state;
    struct wire_out *out = codec_message(c);

    wire_put_f32s(out, c->grads, c->n_params);
    for (int to = 0; to < c->n_workers; to++)
        if (to != c->run->node && codec_send(c, to) < 0)
            return -1;
    memcpy(b->latest + (size_t)c->run->node * c->n_params, c->grads, c->n_params * sizeof *c->grads);
    b->is_waiting = true;
    return go_on(c);
}

static int broken_on_message(struct codec *c, int from, struct wire_in *in)
{
    struct broken *b = c->state;
    const float *g = wire_get_f32s(in, c->n_params);

    if (!wire_ok(in))
        return codec_fail(c, "worker %d sent a malformed gradient", from);
    memcpy(b->latest + (size_t)from * c->n_params, g, c->n_params * sizeof *g);
    b->n_received++;
    return b->is_waiting ? go_on(c) : CODEC_GO;
}

static const struct codec_events broken = {.on_grad = broken_on_grad, .on_message = broken_on_message};

CODEC_PLUGIN(.name = "broken_race", .source = "a test", .state_size = sizeof(struct broken),
             .open = broken_open, .limits = CODEC_NO_SERVERS | CODEC_NO_ASGD,
             .more = CODEC_MORE(.events = &broken))
