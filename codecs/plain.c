/* plain -- every worker sends the gradients of its blocks to the others, and takes the mean over all
 * blocks:
 *     g <- (1 / n_blocks) sum_b g_b
 *
 * Synchronous data-parallel SGD without a server (Chen et al., "Revisiting Distributed Synchronous SGD",
 * 2016, Algorithm 1 with no backup workers; every worker computes the mean). With redundancy r each block
 * has r holders and its first contribution counts, so up to r - 1 slow holders delay no worker.
 *
 * In asgd the mean is over the contributions that have arrived, this worker's own among them, however old.
 *
 * Cost per step: 4 n_params bytes for each own block to each worker that does not hold it. */
#include "codec.h"

/* With one block every worker has its gradient already, and it is the mean. */
static bool is_known_to_all(const struct codec *c)
{
    return c->n_blocks == 1;
}

static int plain_encode(struct codec *c, struct wire_out *out)
{
    if (!is_known_to_all(c))
        c->host->put_vector(c, out, c->grads, c->n_params);
    return CODEC_GO;
}

/* This worker's own gradient is among the contributions, so grads may be overwritten by the mean. */
static int plain_merge(struct codec *c, int block, struct wire_in *in)
{
    float part = 1.0f / (float)c->n_contributions;
    const float *g;

    if (is_known_to_all(c))
        return CODEC_GO;
    g = c->host->get_vector(c, in, c->n_params);
    if (!wire_ok(in))
        return codec_fail(c, "a malformed gradient of block %d", block);
    for (size_t i = 0; i < c->n_params; i++)
        c->grads[i] = (c->n_merged > 0 ? c->grads[i] : 0) + part * g[i];
    return CODEC_GO;
}

static struct codec_cost plain_sends(const struct codec *c)
{
    uint64_t n_messages = 0;

    for (int b = 0; b < c->n_blocks; b++)
        for (int to = 0; c->host->holds(c, b, c->node) && to < c->n_workers; to++)
            n_messages += !c->host->holds(c, b, to);
    return (struct codec_cost){n_messages, n_messages * 4 * c->n_params};
}

static const struct codec_round plain = {
    .before_update = true, .per_block = true, .encode = plain_encode, .merge = plain_merge};

CODEC_PLUGIN(.name = "plain", .source = "Chen et al. 2016, Algorithm 1, without servers",
             .cost = "each step 4 n_params bytes for each own block to each worker that does not hold it",
             .round = &plain, .compression = CODEC_LOSSY_UP, .result = CODEC_MEAN_OF_GRADIENTS,
             .sends = plain_sends)
