/* downpour -- workers train on their own copies; each pushes what it has changed to the servers after every
 * n_push steps, and fetches the servers' weights after every n_fetch:
 *     push:  x <- x + (w - w_pushed)          fetch:  w <- x + (w - w_pushed)
 * where w - w_pushed is what the worker has changed since its last push. It does not wait for what it
 * fetches: the weights are used when they have arrived, but at most one fetch is under way.
 *
 * Dean et al., "Large Scale Distributed Deep Networks", NIPS 2012, section 4.1 and Algorithm 1. Deviation:
 * what is pushed is the change that the worker's own optimizer has made of the gradients, not the gradients,
 * for an optimizer of the server; with gradient descent both are the same. The servers' weights are the
 * result: a worker ends with a fetch.
 *
 * Cost: 8 S + 4 n_params bytes to S servers in a step with a push, and as many back in one with a fetch. A
 * server's codec.csv has a row "staleness" for each push: others' pushes since the weights it began from. */
#include "codec_events.h"

struct downpour {
    int n_push, n_fetch;
    uint32_t version;      /* server: pushes so far; worker: of the weights that it fetched */
    float *pushed;         /* worker: its weights when it pushed last */
    float *fetched;        /* worker: what has arrived and is not used yet */
    bool is_fetching;      /* worker: a fetch is under way */
    bool has_fetched;      /* its weights are in `fetched` */
    bool is_held, is_last; /* a push waits for the fetch before it; the job ends when the fetch has come */
};

static const struct codec_option options[] = {
    CODEC_OPTION(struct downpour, n_push, 1, 1, 1e9, "steps between pushes"),
    CODEC_OPTION(struct downpour, n_fetch, 0, 0, 1e9,
                 "steps between fetches, a multiple of n_push; 0: n_push"),
    {0},
};

static int downpour_open(struct codec *c)
{
    struct downpour *d = c->state;
    size_t n = c->run->node < 0 ? 0 : c->n_params;
    int rc;

    if (codec_has_statistics(c))
        return codec_fail(c, "the sum of workers' changes is no average of running statistics (batch_norm)");
    if (d->n_fetch == 0)
        d->n_fetch = d->n_push;
    if (d->n_fetch % d->n_push != 0)
        return codec_fail(c, "n_fetch=%d is not a multiple of n_push=%d", d->n_fetch, d->n_push);
    if ((rc = codec_zeros(c, &d->pushed, n)) < 0 || (rc = codec_zeros(c, &d->fetched, n)) < 0)
        return rc;
    memcpy(d->pushed, c->params, n * sizeof *d->pushed);
    return CODEC_GO;
}

static int downpour_send(struct codec *c, int to, bool wants_weights, const float *v)
{
    const struct downpour *d = c->state;
    struct wire_out *out = codec_message_to(c, to);

    wire_put_u32(out, d->version);
    wire_put_u32(out, wants_weights);
    codec_put_vector(c, out, v, c->n_params);
    return codec_send(c, to);
}

static void use_fetched(struct codec *c)
{
    struct downpour *d = c->state;

    for (size_t i = 0; d->has_fetched && i < c->n_params; i++) {
        c->params[i] = d->fetched[i] + (c->params[i] - d->pushed[i]);
        d->pushed[i] = d->fetched[i];
    }
    d->has_fetched = false;
}

/* The vector for the message is `fetched`, which is not in use then. */
static int downpour_push(struct codec *c)
{
    struct downpour *d = c->state;
    bool wants_weights = d->is_last || c->run->step % (uint64_t)d->n_fetch == 0;
    int rc;

    for (size_t i = 0; i < c->n_params; i++) {
        d->fetched[i] = c->params[i] - d->pushed[i];
        d->pushed[i] = c->params[i];
    }
    d->is_held = false;
    d->is_fetching = wants_weights;
    rc = downpour_send(c, c->run->server, wants_weights, d->fetched);
    return rc < 0 ? rc : d->is_last ? CODEC_WAIT : CODEC_GO;
}

static int downpour_on_step(struct codec *c)
{
    struct downpour *d = c->state;

    use_fetched(c);
    d->is_last = c->run->step == c->run->n_steps;
    if (!d->is_last && c->run->step % (uint64_t)d->n_push != 0)
        return CODEC_GO;
    d->is_held = d->is_fetching;
    return d->is_held ? CODEC_WAIT : downpour_push(c);
}

/* Server: a push. */
static int downpour_add(struct codec *c, int from, uint32_t version, bool wants_weights, const float *change)
{
    struct downpour *d = c->state;
    int rc = codec_record(c, "staleness", d->version - version);

    for (size_t i = 0; i < c->n_params; i++)
        c->params[i] += change[i];
    d->version++;
    return rc < 0 || !wants_weights ? rc : downpour_send(c, from, false, c->params);
}

static int downpour_on_message(struct codec *c, int from, struct wire_in *in)
{
    struct downpour *d = c->state;
    uint32_t version = wire_get_u32(in), wants_weights = wire_get_u32(in);
    const float *v = codec_get_vector(c, in, c->n_params);

    if (c->run->node < 0 ? from < 0 : from != c->run->server)
        return codec_fail(c, "node %d has no part in this exchange", from);
    if (!wire_ok(in) || wants_weights > 1 || (c->run->node < 0 ? version > d->version : !d->is_fetching))
        return codec_fail(c, "node %d sent a malformed vector", from);
    if (c->run->node < 0)
        return downpour_add(c, from, version, wants_weights, v);
    d->version = version;
    d->is_fetching = false;
    d->has_fetched = true;
    memcpy(d->fetched, v, c->n_params * sizeof *v);
    if (!d->is_held && !d->is_last)
        return CODEC_GO; /* used after the present step */
    use_fetched(c);
    return d->is_held ? downpour_push(c) : CODEC_GO;
}

static int downpour_on_lost(struct codec *c, int node)
{
    (void)node;
    return c->run->node < 0 ? CODEC_GO : CODEC_WAIT; /* for the server */
}

static const float *downpour_model(const struct codec *c)
{
    return c->params;
}

static const struct codec_events downpour = {.on_step = downpour_on_step,
                                             .on_message = downpour_on_message,
                                             .on_lost = downpour_on_lost,
                                             .is_quiescent_between_steps = true};

CODEC_PLUGIN(.name = "downpour", .source = "Dean et al., NIPS 2012, section 4.1 and Algorithm 1",
             .equation = "push: x <- x + (w - w_pushed); fetch: w <- x + (w - w_pushed)",
             .state_size = sizeof(struct downpour), .options = options, .open = downpour_open,
             .limits = CODEC_NO_SSGD | CODEC_ASGD_NEEDS_SERVERS,
             .more = CODEC_MORE(
                     .cost = "8 S + 4 n_params bytes to S servers each n_push steps, and back each n_fetch",
                     .events = &downpour, .model = downpour_model, .compression = CODEC_LOSSY_PARAMS))
