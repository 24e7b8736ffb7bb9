/* dc_asgd -- asynchronous SGD with delay compensation: a gradient that was computed at older weights is
 * corrected by an estimate of how it has changed since. For the gradient g of worker m, which it computed at
 * the weights x_m:
 *     x <- x - eta (g + lambda g * g * (x - x_m)),      then m gets x, and x_m <- x
 * by components; the update is a step of the job's optimizer, on the servers. adaptive: lambda is
 *     lambda_0 / sqrt(MeanSquare + 1e-7),      MeanSquare <- decay MeanSquare + (1 - decay) g * g
 *
 * Zheng et al., "Asynchronous Stochastic Gradient Descent with Delay Compensation", ICML 2017, eq. 10,
 * Algorithm 2 (constant) and section 6 (adaptive, with its lambda_0 = 2 and decay 0.95; the constant lambda
 * of 0.04 is that of its CIFAR-10 runs). With lambda=0 it is ps. Under a lossy --compress-down x_m is what
 * the server had when it answered m: the weights that m got differ by the error of the compression.
 *
 * Cost per step: 4 S + 4 n_params bytes to S servers, and as many back. A server keeps 4 n_params bytes for
 * each worker. Its codec.csv has a row "staleness" for each gradient: updates since the weights it was
 * computed at. */
#include <math.h>

#include "codec_events.h"

enum { ADAPTIVE = 1 };

struct dc_asgd {
    int mode;
    float lambda, decay;
    uint32_t version;   /* worker: of its weights, in updates of this range */
    float *at;          /* server: (n_workers, n_params), the weights that each worker has */
    float *mean_square; /* server */
    int from;           /* server: the worker that gets the reply */
};

static const struct codec_option options[] = {
    CODEC_OPTION_CHOICE(struct dc_asgd, mode, "constant|adaptive", "how lambda is chosen"),
    CODEC_OPTION(struct dc_asgd, lambda, NAN, 0, 1e6, "compensation; default 0.04, adaptive 2"),
    CODEC_OPTION(struct dc_asgd, decay, 0.95, 0, 1, "of the mean square of gradients"),
    {0},
};

static int dc_asgd_open(struct codec *c)
{
    struct dc_asgd *d = c->state;
    size_t n_workers = c->run->node < 0 ? (size_t)c->n_workers : 0, n = c->n_params;
    int rc;

    if (codec_has_statistics(c))
        return codec_fail(c, "running statistics (batch_norm) have no gradient to compensate");
    if (isnan(d->lambda))
        d->lambda = d->mode == ADAPTIVE ? 2 : 0.04f;
    if ((rc = codec_zeros(c, &d->at, n_workers * n)) < 0 ||
        (rc = codec_zeros(c, &d->mean_square, n_workers ? n : 0)) < 0)
        return rc;
    for (size_t m = 0; m < n_workers; m++)
        memcpy(d->at + m * n, c->params, n * sizeof *d->at);
    return CODEC_GO;
}

static int dc_asgd_encode(struct codec *c, struct wire_out *out)
{
    const struct dc_asgd *d = c->state;

    wire_put_u32(out, d->version);
    codec_put_vector(c, out, c->grads, c->n_params);
    return CODEC_GO;
}

static int dc_asgd_merge(struct codec *c, int from, struct wire_in *in)
{
    struct dc_asgd *d = c->state;
    uint32_t version = wire_get_u32(in);
    const float *g = codec_get_vector(c, in, c->n_params), *at = d->at + (size_t)from * c->n_params;
    float lambda = d->lambda;

    if (!wire_ok(in) || version > c->run->round)
        return codec_fail(c, "worker %d sent a malformed gradient", from);
    for (size_t i = 0; i < c->n_params; i++) {
        float square = g[i] * g[i];

        if (d->mode == ADAPTIVE) {
            d->mean_square[i] = d->decay * d->mean_square[i] + (1 - d->decay) * square;
            lambda = d->lambda / sqrtf(d->mean_square[i] + 1e-7f);
        }
        c->grads[i] = g[i] + lambda * square * (c->params[i] - at[i]);
    }
    d->from = from;
    return codec_record(c, "staleness", (double)(c->run->round - version));
}

static int dc_asgd_apply(struct codec *c)
{
    struct dc_asgd *d = c->state;
    int rc = codec_update(c);

    memcpy(d->at + (size_t)d->from * c->n_params, c->params, c->n_params * sizeof *d->at);
    return rc;
}

static int dc_asgd_reply(struct codec *c, struct wire_out *out)
{
    wire_put_u32(out, (uint32_t)c->run->round + 1); /* with the update of this round */
    codec_put_vector(c, out, c->params, c->n_params);
    return CODEC_GO;
}

static int dc_asgd_adopt(struct codec *c, struct wire_in *in)
{
    struct dc_asgd *d = c->state;
    uint32_t version = wire_get_u32(in);
    const float *x = codec_get_vector(c, in, c->n_params);

    if (!wire_ok(in))
        return codec_fail(c, "the server sent malformed weights");
    d->version = version;
    memcpy(c->params, x, c->n_params * sizeof *x);
    return CODEC_GO;
}

static const struct codec_round dc_asgd = {.before_update = true,
                                           .encode = dc_asgd_encode,
                                           .merge = dc_asgd_merge,
                                           .apply = dc_asgd_apply,
                                           .reply = dc_asgd_reply,
                                           .adopt = dc_asgd_adopt};

CODEC_PLUGIN(.name = "dc_asgd", .source = "Zheng et al., ICML 2017, eq. 10 and Algorithm 2",
             .equation = "x <- x - eta (g + lambda g * g * (x - x_m))", .state_size = sizeof(struct dc_asgd),
             .options = options, .open = dc_asgd_open, .limits = CODEC_NO_SSGD,
             .more = CODEC_MORE(.cost = "each step 4 S + 4 n_params bytes to S servers, and as many back",
                                .round = &dc_asgd, .updates_on_server = true,
                                .compression = CODEC_LOSSY_PARAMS))
