/* ndc -- uncoded distributed computing: with --redundancy r each block of the batch has r holders, each of
 * which sends one r-th of the block's gradient to the workers that do not hold it. All take the mean of all
 * blocks:
 *     g = (1 / n_blocks) sum_b g_b
 * With r = 1 every block goes to all other workers.
 *
 * Li, Maddah-Ali, Yu and Avestimehr, "A Fundamental Tradeoff Between Computation and Communication in
 * Distributed Computing", IEEE Transactions on Information Theory 2018: the scheme that the coded one (ccdc)
 * is compared with.
 *
 * Cost per step: for each of its blocks a worker sends 8 + 4 n_params / r bytes to each of the n - r others,
 * an r-th of what `plain` sends by messages. */
#include "codec_events.h"

struct ndc {
    float *blocks;  /* (2, n_blocks, n_params): of this step and the next, since other workers may be ahead */
    float *arrived; /* (2, n_blocks, n_workers): 1 for the slice of a block that this holder has sent */
    int32_t received[2]; /* slices received of blocks that this worker does not hold */
    bool is_computed;    /* this worker's own blocks are computed in this step */
};

static float *at(const struct codec *c, uint64_t step, int block)
{
    const struct ndc *s = c->state;

    return s->blocks + (step % 2 * (size_t)c->run->n_blocks + (size_t)block) * c->n_params;
}

static float *arrived(const struct codec *c, uint64_t step)
{
    const struct ndc *s = c->state;

    return s->arrived + step % 2 * (size_t)c->run->n_blocks * (size_t)c->n_workers;
}

/* A block has one slice per holder; slice k is [slice_at(c, k), slice_at(c, k + 1)). */
static size_t slice_at(const struct codec *c, int k)
{
    return c->n_params * (size_t)k / (size_t)c->run->redundancy;
}

static int rank_of(const struct codec *c, int block, int holder)
{
    int rank = 0;

    for (int i = 0; i < holder; i++)
        rank += codec_holds(c, block, i);
    return rank;
}

static int ndc_open(struct codec *c)
{
    struct ndc *s = c->state;

    int rc = codec_zeros(c, &s->blocks, 2 * (size_t)c->run->n_blocks * c->n_params);

    return rc < 0 ? rc : codec_zeros(c, &s->arrived, 2 * (size_t)c->run->n_blocks * (size_t)c->n_workers);
}

static int ndc_send(struct codec *c)
{
    int rank = rank_of(c, c->run->block, c->run->node), rc = CODEC_GO;
    size_t from = slice_at(c, rank);
    struct wire_out *out = codec_message(c);

    memcpy(at(c, c->run->step, c->run->block), c->grads, c->n_params * sizeof *c->grads);
    wire_put_u32(out, (uint32_t)c->run->step);
    wire_put_u32(out, (uint32_t)c->run->block);
    wire_put_f32s(out, c->grads + from, slice_at(c, rank + 1) - from);
    for (int i = 0; i < c->n_workers && rc == CODEC_GO; i++)
        if (!codec_holds(c, c->run->block, i))
            rc = codec_send(c, i);
    return rc;
}

static int n_foreign(const struct codec *c)
{
    int n = 0;

    for (int b = 0; b < c->run->n_blocks; b++)
        n += !codec_holds(c, b, c->run->node);
    return n * c->run->redundancy;
}

/* Takes the mean of all blocks, summed in the same order on every worker, once all are present. */
static int ndc_finish(struct codec *c)
{
    struct ndc *s = c->state;
    float part = 1.0f / (float)c->run->n_blocks;

    if (!s->is_computed || s->received[c->run->step % 2] < n_foreign(c))
        return CODEC_WAIT;
    for (int b = 0; b < c->run->n_blocks; b++)
        for (size_t i = 0; i < c->n_params; i++)
            c->grads[i] = (b > 0 ? c->grads[i] : 0) + part * at(c, c->run->step, b)[i];
    s->received[c->run->step % 2] = 0;
    memset(arrived(c, c->run->step), 0, (size_t)c->run->n_blocks * (size_t)c->n_workers * sizeof *s->arrived);
    s->is_computed = false;
    return CODEC_GO;
}

static int ndc_on_grad(struct codec *c)
{
    struct ndc *s = c->state;

    s->is_computed = true;
    return ndc_finish(c);
}

static int ndc_receive(struct codec *c, int from, struct wire_in *in)
{
    struct ndc *s = c->state;
    uint32_t step = wire_get_u32(in), block = wire_get_u32(in);
    size_t begin, n;
    const float *v;
    float *has_it;

    if (in->bad || step < c->run->step || step > c->run->step + 1 || block >= (uint32_t)c->run->n_blocks ||
        !codec_holds(c, (int)block, from) || codec_holds(c, (int)block, c->run->node))
        return codec_fail(c, "worker %d sent a slice of no block that it holds", from);
    begin = slice_at(c, rank_of(c, (int)block, from));
    n = slice_at(c, rank_of(c, (int)block, from) + 1) - begin;
    v = wire_get_f32s(in, n);
    if (!wire_ok(in))
        return codec_fail(c, "worker %d sent a malformed slice", from);
    has_it = arrived(c, step) + block * (size_t)c->n_workers + (size_t)from;
    if (*has_it > 0)
        return codec_fail(c, "worker %d sent a slice twice", from);
    *has_it = 1;
    memcpy(at(c, step, (int)block) + begin, v, n * sizeof *v);
    s->received[step % 2]++;
    return ndc_finish(c);
}

static struct codec_cost ndc_cost(const struct codec *c)
{
    uint64_t to = (uint64_t)(c->n_workers - c->run->redundancy);
    struct codec_cost sum = {0, 0};

    for (int b = 0; b < c->run->n_blocks; b++) {
        int rank = rank_of(c, b, c->run->node);

        if (!codec_holds(c, b, c->run->node))
            continue;
        sum.messages += to;
        sum.bytes += to * (8 + 4 * (slice_at(c, rank + 1) - slice_at(c, rank)));
    }
    return sum;
}

static const struct codec_events ndc = {
    .on_block = ndc_send, .on_grad = ndc_on_grad, .on_message = ndc_receive};

CODEC_PLUGIN(.name = "ndc", .source = "Li et al., IEEE Trans. Inf. Theory 2018, without codes",
             .equation = "g <- mean of all blocks, each sent by its holders, an r-th by each",
             .state_size = sizeof(struct ndc), .open = ndc_open, .limits = CODEC_NO_SERVERS | CODEC_NO_ASGD,
             .more = CODEC_MORE(
                     .cost = "each step, for each block, 8 + 4 n_params / r bytes to each of n - r workers",
                     .events = &ndc, .sends = ndc_cost, .compression = CODEC_UNCOMPRESSED,
                     .result = CODEC_MEAN_OF_GRADIENTS))
