/* dc_qsgd -- asynchronous SGD whose workers compensate the delay themselves, before they send. A worker
 * that has computed the gradient g at its weights w asks for the server's weights x; with D = x - w, what
 * other workers have changed meanwhile,
 *     g' = g + lambda g * g * D;    w <- x - eta g';    sends -eta g';    server: x <- x + Q(-eta g')
 * by components; the update is a step of the job's optimizer, on the worker. So the correction knows the
 * delay exactly, and what is quantized is already corrected: Q, in both directions, is the compression
 * that --compress and --compress-down set.
 *
 * DC-QSGD of Parallel-SGD (its codec q_ext_ext), with its lambda of 0.3; the correction is eq. 10 of Zheng
 * et al., "Asynchronous Stochastic Gradient Descent with Delay Compensation", ICML 2017. Deviations from
 * Parallel-SGD: there g is what the optimizer has made of the gradient, so that lambda acts on eta g; here
 * it acts on g, as in the paper. There a worker moves by the quantized difference of x and by its own g'
 * as it is, while the server takes the quantized one, so that both drift apart; here w is what the worker
 * has of x, and what a message leaves out is in the next one (of a worker's messages with ef=true).
 *
 * Cost per step: 4 S bytes to S servers, 4 S + 4 n_params back, then 8 S + 4 n_params to the servers. A
 * server's codec.csv has a row "staleness" for each change: others' changes since the worker got x. */
#include "codec_events.h"

enum { ASK, CHANGE }; /* the first word of a worker's message */

struct dc_qsgd {
    float lambda;
    uint32_t version; /* server: changes so far; worker: of x */
    float *x;         /* worker: the server's weights, before its own update */
};

static const struct codec_option options[] = {
    CODEC_OPTION(struct dc_qsgd, lambda, 0.3, 0, 1e6, "compensation; 0: none"),
    {0},
};

static int dc_qsgd_open(struct codec *c)
{
    struct dc_qsgd *d = c->state;

    if (codec_has_statistics(c))
        return codec_fail(c, "running statistics (batch_norm) have no gradient to compensate");
    return codec_zeros(c, &d->x, c->run->node < 0 ? 0 : c->n_params);
}

static int dc_qsgd_on_grad(struct codec *c)
{
    int rc;

    wire_put_u32(codec_message(c), ASK);
    rc = codec_send(c, c->run->server);
    return rc < 0 ? rc : CODEC_WAIT;
}

/* Worker: x has come. */
static void compensate(struct codec *c, const float *x)
{
    struct dc_qsgd *d = c->state;

    for (size_t i = 0; i < c->n_params; i++)
        c->grads[i] += d->lambda * c->grads[i] * c->grads[i] * (x[i] - c->params[i]);
    memcpy(d->x, x, c->n_params * sizeof *x);
    memcpy(c->params, x, c->n_params * sizeof *x);
}

/* What the optimizer has made of g'. */
static int dc_qsgd_on_step(struct codec *c)
{
    struct dc_qsgd *d = c->state;
    struct wire_out *out = codec_message(c);

    for (size_t i = 0; i < c->n_params; i++)
        d->x[i] = c->params[i] - d->x[i];
    wire_put_u32(out, CHANGE);
    wire_put_u32(out, d->version);
    codec_put_vector(c, out, d->x, c->n_params);
    return codec_send(c, c->run->server);
}

static int dc_qsgd_answer(struct codec *c, int to)
{
    const struct dc_qsgd *d = c->state;
    struct wire_out *out = codec_message_to(c, to);

    wire_put_u32(out, d->version);
    codec_put_vector(c, out, c->params, c->n_params);
    return codec_send(c, to);
}

static int dc_qsgd_serve(struct codec *c, int from, struct wire_in *in)
{
    struct dc_qsgd *d = c->state;
    uint32_t is_change = wire_get_u32(in), version;
    const float *change;

    if (from < 0 || in->bad || is_change > CHANGE || (is_change == ASK && !wire_ok(in)))
        return codec_fail(c, "node %d sent a malformed message", from);
    if (is_change == ASK)
        return dc_qsgd_answer(c, from);
    version = wire_get_u32(in);
    change = codec_get_vector(c, in, c->n_params);
    if (!wire_ok(in) || version > d->version)
        return codec_fail(c, "worker %d sent a malformed change", from);
    for (size_t i = 0; i < c->n_params; i++)
        c->params[i] += change[i];
    return codec_record(c, "staleness", d->version++ - version);
}

static int dc_qsgd_on_message(struct codec *c, int from, struct wire_in *in)
{
    struct dc_qsgd *d = c->state;
    uint32_t version;
    const float *x;

    if (c->run->node < 0)
        return dc_qsgd_serve(c, from, in);
    version = wire_get_u32(in);
    x = codec_get_vector(c, in, c->n_params);
    if (from != c->run->server || !wire_ok(in))
        return codec_fail(c, "node %d sent malformed weights", from);
    d->version = version;
    compensate(c, x);
    return CODEC_GO;
}

static int dc_qsgd_on_lost(struct codec *c, int node)
{
    (void)node;
    return c->run->node < 0 ? CODEC_GO : CODEC_WAIT; /* for the server */
}

static const float *dc_qsgd_model(const struct codec *c)
{
    return c->params;
}

static struct codec_cost dc_qsgd_sends(const struct codec *c)
{
    return c->run->node < 0
               ? (struct codec_cost){(uint64_t)c->n_workers, (uint64_t)c->n_workers * (4 + 4 * c->n_params)}
               : (struct codec_cost){2, 12 + 4 * c->n_params};
}

static const struct codec_events dc_qsgd = {.on_grad = dc_qsgd_on_grad,
                                            .on_step = dc_qsgd_on_step,
                                            .on_message = dc_qsgd_on_message,
                                            .on_lost = dc_qsgd_on_lost,
                                            .is_quiescent_between_steps = true};

CODEC_PLUGIN(
        .name = "dc_qsgd", .source = "Parallel-SGD, q_ext_ext; Zheng et al., ICML 2017, eq. 10",
        .equation = "g' = g + lambda g * g * (x - w); w <- x - eta g'; x <- x - eta Q(g')",
        .state_size = sizeof(struct dc_qsgd), .options = options, .open = dc_qsgd_open,
        .limits = CODEC_NO_SSGD | CODEC_ASGD_NEEDS_SERVERS,
        .more = CODEC_MORE(
                .cost =
                    "each step 12 S + 4 n_params bytes to S servers, in two messages to each, and 4 S + 4 "
                    "n_params back",
                .events = &dc_qsgd, .model = dc_qsgd_model, .sends = dc_qsgd_sends,
                .compression = CODEC_LOSSY_PARAMS))
