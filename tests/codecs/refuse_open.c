/* refuse_open -- its open() refuses the job and prints all that it sees of it, or crashes, or allocates
 * too much. */
#include "codec_events.h"

enum { REFUSES, CRASHES, ALLOCATES };

struct refuse_open {
    int what;
    float *v, *more;
};

static int refuse(struct codec *c)
{
    const struct refuse_open *s = c->state;
    const struct codec_layer *last = &c->run->layers[c->run->n_layers - 1];

    return codec_fail(
        c, "node %d of %d workers and %d servers, block 1 %s, %zu numbers, %zu own, %s at %zu (%zu)",
        c->run->node, c->n_workers, c->run->n_servers, codec_holds(c, 1, c->run->node) ? "held" : "not held",
        c->n_params, (size_t)(s->v != NULL) * c->n_params, last->name, last->offset, last->n);
}

static int refuse_open_open(struct codec *c)
{
    struct refuse_open *s = c->state;
    float *volatile nowhere = NULL;

    switch (s->what) {
    case CRASHES:
        return (int)*nowhere;
    case ALLOCATES:
        return codec_zeros(c, &s->more, (size_t)1 << 40);
    default:
        return refuse(c);
    }
}

static const struct codec_option options[] = {
    CODEC_OPTION_CHOICE(struct refuse_open, what, "refuses|crashes|allocates", "what open() does"), {0}};

static const struct codec_events refuse_open = {.is_quiescent_between_steps = true};

CODEC_PLUGIN(.name = "refuse_open", .source = "a test", .options = options,
             .state_size = sizeof(struct refuse_open),
             .vectors = CODEC_VECTORS(offsetof(struct refuse_open, v)), .open = refuse_open_open,
             .more = CODEC_MORE(.events = &refuse_open))
