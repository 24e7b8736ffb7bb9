/* choosy -- its open() refuses the job, with all that it sees of it, or does what cannot be tried before. */
#include "codec_events.h"

enum { REFUSES, CRASHES, HOARDS };

struct choosy {
    int what;
    float *v, *more;
};

static int refuse(struct codec *c)
{
    const struct choosy *s = c->state;
    const struct codec_layer *last = &c->run->layers[c->run->n_layers - 1];

    return codec_fail(
        c, "node %d of %d workers and %d servers, block 1 %s, %zu numbers, %zu own, %s at %zu (%zu)",
        c->run->node, c->n_workers, c->run->n_servers, codec_holds(c, 1, c->run->node) ? "held" : "not held",
        c->n_params, (size_t)(s->v != NULL) * c->n_params, last->name, last->offset, last->n);
}

static int choosy_open(struct codec *c)
{
    struct choosy *s = c->state;
    float *volatile nowhere = NULL;

    switch (s->what) {
    case CRASHES:
        return (int)*nowhere;
    case HOARDS:
        return codec_zeros(c, &s->more, (size_t)1 << 40);
    default:
        return refuse(c);
    }
}

static const struct codec_option options[] = {
    CODEC_OPTION_CHOICE(struct choosy, what, "refuses|crashes|hoards", "what open() does"), {0}};

static const struct codec_events choosy = {.is_quiescent_between_steps = true};

CODEC_PLUGIN(.name = "choosy", .source = "a test", .options = options, .state_size = sizeof(struct choosy),
             .vectors = CODEC_VECTORS(offsetof(struct choosy, v)), .open = choosy_open,
             .more = CODEC_MORE(.events = &choosy))
