/* downpour -- asynchronous by nature: a worker pushes its gradient to the servers and continues at once
 * with the weights of an earlier reply; a server applies each gradient as it arrives.
 *
 * Dean et al., "Large Scale Distributed Deep Networks", NIPS 2012, section 4.1, with n_push = n_fetch = 1.
 * Deviations: a worker does not update its own copy in the meantime, and has at most one push in transit,
 * so that a server cannot fall behind without limit.
 *
 * Cost per step: 4 n_params bytes to the servers, and as many back. */
#include "codec.h"

struct downpour {
    float *weights;              /* (n_params), on a worker: the last weights received */
    bool is_under_way, has_next; /* a push has no reply yet; one more gradient waits for it */
};

static int downpour_open(struct codec *c)
{
    struct downpour *d = c->state;
    int rc = c->host->zeros(c, &d->weights, c->node < 0 ? 0 : c->n_params);

    if (rc == CODEC_GO && c->node >= 0)
        memcpy(d->weights, c->params, c->n_params * sizeof *d->weights);
    return rc;
}

static int send(struct codec *c, int to, const float *v)
{
    c->host->put_vector(c, c->host->message(c), v, c->n_params);
    return c->host->send(c, to);
}

/* Sends the gradient and continues with the weights received so far. */
static int push(struct codec *c)
{
    struct downpour *d = c->state;

    d->is_under_way = true;
    d->has_next = false;
    memcpy(c->params, d->weights, c->n_params * sizeof *d->weights);
    return send(c, c->server, c->grads);
}

static int downpour_on_grad(struct codec *c)
{
    struct downpour *d = c->state;

    d->has_next = d->is_under_way;
    return d->is_under_way ? CODEC_WAIT : push(c);
}

static int downpour_on_message(struct codec *c, int from, struct wire_in *in)
{
    struct downpour *d = c->state;
    const float *v = c->host->get_vector(c, in, c->n_params);
    int rc;

    if (!wire_ok(in))
        return codec_fail(c, "node %d sent a malformed vector", from);
    memcpy(c->node < 0 ? c->grads : d->weights, v, c->n_params * sizeof *v);
    if (c->node < 0) {
        rc = c->host->update(c);
        return rc < 0 ? rc : send(c, from, c->params);
    }
    d->is_under_way = false;
    return d->has_next ? push(c) : CODEC_GO;
}

static struct codec_cost downpour_sends(const struct codec *c)
{
    return (struct codec_cost){1, 4 * c->n_params};
}

static const struct codec_events downpour = {.on_grad = downpour_on_grad, .on_message = downpour_on_message};

CODEC_PLUGIN(.name = "downpour", .source = "Dean et al., NIPS 2012, section 4.1",
             .cost = "each step 4 n_params bytes to the servers, and as many back",
             .state_size = sizeof(struct downpour), .open = downpour_open, .events = &downpour,
             .updates_on_server = true, .limits = CODEC_NO_SSGD, .compression = CODEC_LOSSY_UP,
             .sends = downpour_sends)
