/* broken_events -- the mean of all gradients, by messages of its own, and one misunderstanding of when an
 * event rule is called, which the option selects. Without one it is right. */
#include "codec_events.h"

enum { RIGHT, WAIT, GRADS, PARAMS, EARLY, STEP };
enum { WORKERS_MAX = 8 };

struct broken {
    int what;
    float *g;                   /* (n_workers, 2, n_params): the gradients of even steps, and of odd steps */
    uint64_t have[WORKERS_MAX]; /* steps whose gradients of that worker have arrived */
    bool is_waiting, has_paused;
};

static const struct codec_option options[] = {
    CODEC_OPTION_CHOICE(struct broken, what, "right|wait|grads|params|early|step", "what is misunderstood"),
    {0},
};

static int broken_open(struct codec *c)
{
    struct broken *b = c->state;

    return c->n_workers > WORKERS_MAX ? codec_fail(c, "it is for %d workers", WORKERS_MAX)
                                      : codec_zeros(c, &b->g, 2 * (size_t)c->n_workers * c->n_params);
}

static float *gradient_of(const struct codec *c, int worker, uint64_t step)
{
    const struct broken *b = c->state;

    return b->g + (2 * (size_t)worker + step % 2) * c->n_params;
}

static int mean(struct codec *c)
{
    struct broken *b = c->state;

    for (int k = 0; k < c->n_workers; k++)
        if (b->have[k] <= c->run->step)
            return CODEC_WAIT;
    for (int k = 0; k < c->n_workers; k++)
        for (size_t i = 0; i < c->n_params; i++)
            c->grads[i] = (k > 0 ? c->grads[i] : 0) +
                          gradient_of(c, k, c->run->step)[i] / (float)c->n_workers;
    b->is_waiting = false;
    return CODEC_GO;
}

static int broken_on_grad(struct codec *c)
{
    struct broken *b = c->state;
    struct wire_out *out = codec_message(c);

    if (b->has_paused)
        return codec_fail(c, "on_grad is called, although on_message has returned CODEC_WAIT");
    wire_put_u32(out, (uint32_t)c->run->step);
    wire_put_f32s(out, c->grads, c->n_params);
    for (int to = 0; to < c->n_workers; to++)
        if (to != c->run->node && codec_send(c, to) < 0)
            return -1;
    memcpy(gradient_of(c, c->run->node, c->run->step), c->grads, c->n_params * sizeof *c->grads);
    b->have[c->run->node] = c->run->step + 1;
    b->is_waiting = true;
    return mean(c);
}

/* It mistakes the next step for the one just made, and so drops messages that have arrived early for it. */
static int broken_on_step(struct codec *c)
{
    struct broken *b = c->state;

    for (int k = 0; b->what == STEP && k < c->n_workers; k++)
        if (b->have[k] == c->run->step + 1)
            b->have[k] = c->run->step;
    return CODEC_GO;
}

static int broken_on_message(struct codec *c, int from, struct wire_in *in)
{
    uint32_t step = wire_get_u32(in);
    const float *g = wire_get_f32s(in, c->n_params);
    struct broken *b = c->state;

    if (!wire_ok(in) || step < c->run->step || step > c->run->step + (b->what != EARLY))
        return codec_fail(c, "worker %d sent a malformed gradient, or of another step", from);
    memcpy(gradient_of(c, from, step), g, c->n_params * sizeof *g);
    b->have[from] = step + 1;
    b->has_paused = b->what == WAIT && !b->is_waiting;
    if (b->is_waiting)
        return mean(c);
    if (b->what == GRADS) /* "my gradient will be added to it" */
        c->grads[0] = g[0] + 1;
    if (b->what == PARAMS)
        c->params[0] += 1e-3f;
    return b->what == WAIT ? CODEC_WAIT : CODEC_GO; /* "until the others are here, too" */
}

static int broken_on_backward(struct codec *c)
{
    (void)c;
    return CODEC_GO;
}

static const struct codec_events broken = {.on_grad = broken_on_grad,
                                           .on_step = broken_on_step,
                                           .on_message = broken_on_message,
                                           .on_backward = broken_on_backward};

CODEC_PLUGIN(.name = "broken_events", .source = "a test", .state_size = sizeof(struct broken),
             .options = options, .open = broken_open,
             .limits = CODEC_NO_SERVERS | CODEC_NO_ASGD | CODEC_NO_REDUNDANCY,
             .more = CODEC_MORE(.events = &broken, .compression = CODEC_UNCOMPRESSED,
                                .result = CODEC_MEAN_OF_GRADIENTS))
