/* doublesqueeze -- workers send their gradients, servers reply with the mean, and each adds what
 * compression has lost of a message to its next message:
 *     worker k:  v_k = g_k + d_k;                   sends Q(v_k);    d_k <- v_k - Q(v_k)
 *     server:    v = (1 / n) sum_k Q(v_k) + d;      replies Q(v);    d <- v - Q(v)
 *     worker:    x <- x - eta Q(v)
 *
 * Tang, Yu, Lian, Zhang and Liu, "DoubleSqueeze: Parallel Stochastic Gradient Descent with Double-pass
 * Error-Compensated Compression", ICML 2019, Algorithm 1. Q is the compression that --compress sets for
 * workers and --compress-down for servers; both keep their d with ef=true. Deviations: the step is that of
 * the job's optimizer, on the workers; each of several servers compresses its range by itself. Without
 * servers each worker computes the mean of the Q(v_k) itself, as in plain, and there is no second pass.
 *
 * In asgd a server would reply to some workers with the mean of some gradients: workers would no longer
 * update by the same vector, and nothing would make their weights equal again.
 *
 * Cost per step, before compression: 4 n_params bytes to the servers and as many back, or 4 n_params to
 * each other worker. */
#include "codec.h"

/* A worker's gradient, or a server's mean of them. */
static int doublesqueeze_encode(struct codec *c, struct wire_out *out)
{
    c->host->put_vector(c, out, c->grads, c->n_params);
    return CODEC_GO;
}

static int doublesqueeze_merge(struct codec *c, int from, struct wire_in *in)
{
    const float *g = c->host->get_vector(c, in, c->n_params);
    float part = 1.0f / (float)c->n_contributions;

    if (!wire_ok(in))
        return codec_fail(c, "worker %d sent a malformed gradient", from);
    for (size_t i = 0; i < c->n_params; i++)
        c->grads[i] = (c->n_merged > 0 ? c->grads[i] : 0) + part * g[i];
    return CODEC_GO;
}

static int doublesqueeze_adopt(struct codec *c, struct wire_in *in)
{
    const float *mean = c->host->get_vector(c, in, c->n_params);

    if (!wire_ok(in))
        return codec_fail(c, "the server sent a malformed mean");
    memcpy(c->grads, mean, c->n_params * sizeof *mean);
    return CODEC_GO;
}

static struct codec_cost doublesqueeze_sends(const struct codec *c)
{
    uint64_t to = codec_receivers(c);

    return (struct codec_cost){to, to * 4 * c->n_params};
}

static const struct codec_round doublesqueeze = {.before_update = true,
                                                 .encode = doublesqueeze_encode,
                                                 .merge = doublesqueeze_merge,
                                                 .reply = doublesqueeze_encode,
                                                 .adopt = doublesqueeze_adopt};

CODEC_PLUGIN(.name = "doublesqueeze", .source = "Tang et al., ICML 2019, Algorithm 1",
             .cost = "each step 4 n_params bytes to the servers and back, or to each other worker",
             .round = &doublesqueeze, .compression = CODEC_LOSSY, .limits = CODEC_NO_ASGD,
             .result = CODEC_MEAN_OF_GRADIENTS, .sends = doublesqueeze_sends)
