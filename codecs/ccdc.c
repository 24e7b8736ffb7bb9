/* ccdc -- coded distributed computing: as in ndc each block of the batch has r holders (--redundancy r), and
 * a worker that lacks the block gets an r-th of its gradient from each of them; but a worker sends r of
 * these parts as one message, their exclusive or, to r workers, of which each lacks another one and has the
 * rest:
 *     m_{i,T} = XOR over k in T of part i of block (T - k + i),      for each set T of r workers without i
 * Worker i sends this message to all workers in T. "Block S", for a set S of r workers, is the block that
 * exactly the workers in S hold. Every worker then takes the mean of all blocks:
 *     g = (1 / n_blocks) sum_b g_b
 *
 * Li, Maddah-Ali, Yu and Avestimehr, "A Fundamental Tradeoff Between Computation and Communication in
 * Distributed Computing", IEEE Transactions on Information Theory 2018, section IV. It needs
 * --block_assignment iid, where every set of r workers has a block, and workers that compute with the same
 * kernels, as the holders of a block must have its gradient with equal bits (nodes[].engine in run.json).
 *
 * Cost per step: for each of the C(n - 1, r) sets T a worker sends 8 + 4 n_params / r bytes to each of r
 * workers. A network with multicast would carry each message once, r times less than ndc; TCP carries it r
 * times, as much as ndc, and an r-th of what `plain` sends by messages. */
#include "codec_events.h"

enum { BLOCKS_MAX = 512 }; /* block_of() looks at each */

struct ccdc {
    float *blocks;  /* (2, n_blocks, n_params): of this step and the next, since other workers may be ahead */
    float *coded;   /* (longest part): a message */
    float *arrived; /* (2, n_blocks, n_workers): 1 for the message about a block that this worker has sent */
    int32_t received[2]; /* messages */
    bool is_computed;    /* this worker's own blocks are computed in this step */
};

/* The holders of a block, with worker `in` in place of worker `out`. */
struct worker_set {
    int block, out, in; /* out, in -1: unchanged */
};

static bool is_in(const struct codec *c, struct worker_set s, int worker)
{
    return worker == s.in || (worker != s.out && codec_holds(c, s.block, worker));
}

/* The block whose holders are this set; -1: there is none. */
static int block_of(const struct codec *c, struct worker_set s)
{
    for (int b = 0; b < c->run->n_blocks; b++) {
        int w = 0;

        while (w < c->n_workers && codec_holds(c, b, w) == is_in(c, s, w))
            w++;
        if (w == c->n_workers)
            return b;
    }
    return -1;
}

/* Part k of a vector is [part_at(c, k), part_at(c, k + 1)); no part is longer than part 0. */
static size_t part_at(const struct codec *c, int k)
{
    return (c->n_params * (size_t)k + (size_t)c->run->redundancy - 1) / (size_t)c->run->redundancy;
}

struct coded_part {
    float *at;
    size_t n;
};

/* The part of a block's gradient that this holder of it sends. */
static struct coded_part part_of(const struct codec *c, uint64_t step, int block, int holder)
{
    const struct ccdc *s = c->state;
    int rank = 0;

    for (int i = 0; i < holder; i++)
        rank += codec_holds(c, block, i);
    return (struct coded_part){
        s->blocks + (step % 2 * (size_t)c->run->n_blocks + (size_t)block) * c->n_params + part_at(c, rank),
        part_at(c, rank + 1) - part_at(c, rank)};
}

static void add_bits(float *to, size_t n_to, struct coded_part p)
{
    size_t n = n_to < p.n ? n_to : p.n;

    for (size_t i = 0; i < n; i++) {
        uint32_t a, b;

        memcpy(&a, to + i, sizeof a);
        memcpy(&b, p.at + i, sizeof b);
        a ^= b;
        memcpy(to + i, &a, sizeof a);
    }
}

/* The message that worker `from` sends to the holders of `block` is the exclusive or of one part for each of
 * them. Adds these parts to `to`, except the part for worker `but`. */
static void add_parts(struct codec *c, float *to, size_t n, int block, int from, int but)
{
    for (int k = 0; k < c->n_workers; k++)
        if (k != but && codec_holds(c, block, k)) {
            int b = block_of(c, (struct worker_set){block, k, from});

            add_bits(to, n, part_of(c, c->run->step, b, from));
        }
}

static int ccdc_open(struct codec *c)
{
    struct ccdc *s = c->state;
    int rc;

    if (c->run->n_blocks > BLOCKS_MAX)
        return codec_fail(c, "%d sets of %d workers each hold a block; at most %d may", c->run->n_blocks,
                          c->run->redundancy, BLOCKS_MAX);
    for (int b = 0; b < c->run->n_blocks; b++)
        for (int in = 0; in < c->n_workers; in++)
            for (int out = 0; out < c->n_workers; out++)
                if (!codec_holds(c, b, in) && codec_holds(c, b, out) &&
                    block_of(c, (struct worker_set){b, out, in}) < 0)
                    return codec_fail(c,
                                      "not every set of %d workers holds a block; use --block_assignment iid",
                                      c->run->redundancy);
    if ((rc = codec_zeros(c, &s->blocks, 2 * (size_t)c->run->n_blocks * c->n_params)) < 0)
        return rc;
    if ((rc = codec_zeros(c, &s->arrived, 2 * (size_t)c->run->n_blocks * (size_t)c->n_workers)) < 0)
        return rc;
    return codec_zeros(c, &s->coded, part_at(c, 1));
}

static float *arrived(const struct codec *c, uint64_t step)
{
    const struct ccdc *s = c->state;

    return s->arrived + step % 2 * (size_t)c->run->n_blocks * (size_t)c->n_workers;
}

static int ccdc_on_block(struct codec *c)
{
    const struct ccdc *s = c->state;

    memcpy(s->blocks + (c->run->step % 2 * (size_t)c->run->n_blocks + (size_t)c->run->block) * c->n_params,
           c->grads, c->n_params * sizeof *c->grads);
    return CODEC_GO;
}

/* For each block that this worker lacks, sends one message to the set of its holders. */
static int send_all(struct codec *c)
{
    struct ccdc *s = c->state;
    size_t n = part_at(c, 1);

    for (int b = 0; b < c->run->n_blocks; b++) {
        struct wire_out *out;

        if (codec_holds(c, b, c->run->node))
            continue;
        memset(s->coded, 0, n * sizeof *s->coded);
        add_parts(c, s->coded, n, b, c->run->node, -1);
        out = codec_message(c);
        wire_put_u32(out, (uint32_t)c->run->step);
        wire_put_u32(out, (uint32_t)b);
        wire_put_f32s(out, s->coded, n);
        for (int k = 0; k < c->n_workers; k++) {
            int rc = codec_holds(c, b, k) ? codec_send(c, k) : CODEC_GO;

            if (rc < 0)
                return rc;
        }
    }
    return CODEC_GO;
}

/* Removes the parts of blocks that this worker holds from what it has received of a block. */
static void ccdc_decode(struct codec *c, int block)
{
    for (int i = 0; i < c->n_workers; i++)
        if (codec_holds(c, block, i)) {
            int to = block_of(c, (struct worker_set){block, i, c->run->node});
            struct coded_part p = part_of(c, c->run->step, block, i);

            add_parts(c, p.at, p.n, to, i, c->run->node);
        }
}

static int n_foreign(const struct codec *c)
{
    int n = 0;

    for (int b = 0; b < c->run->n_blocks; b++)
        n += !codec_holds(c, b, c->run->node);
    return n;
}

/* Takes the mean of all blocks, summed in the same order on every worker, once all are present. */
static int ccdc_finish(struct codec *c)
{
    struct ccdc *s = c->state;
    float part = 1.0f / (float)c->run->n_blocks;

    if (!s->is_computed || s->received[c->run->step % 2] < n_foreign(c) * c->run->redundancy)
        return CODEC_WAIT;
    for (int b = 0; b < c->run->n_blocks; b++) {
        const float *g = s->blocks + (c->run->step % 2 * (size_t)c->run->n_blocks + (size_t)b) * c->n_params;

        if (!codec_holds(c, b, c->run->node))
            ccdc_decode(c, b);
        for (size_t i = 0; i < c->n_params; i++)
            c->grads[i] = (b > 0 ? c->grads[i] : 0) + part * g[i];
    }
    s->received[c->run->step % 2] = 0;
    memset(arrived(c, c->run->step), 0, (size_t)c->run->n_blocks * (size_t)c->n_workers * sizeof *s->arrived);
    s->is_computed = false;
    return CODEC_GO;
}

static int ccdc_on_grad(struct codec *c)
{
    struct ccdc *s = c->state;
    int rc = send_all(c);

    s->is_computed = true;
    return rc < 0 ? rc : ccdc_finish(c);
}

static int ccdc_on_message(struct codec *c, int from, struct wire_in *in)
{
    struct ccdc *s = c->state;
    uint32_t step = wire_get_u32(in), block = wire_get_u32(in);
    const float *v = wire_get_f32s(in, part_at(c, 1));
    struct coded_part p;
    float *has_it;

    if (!wire_ok(in) || step < c->run->step || step > c->run->step + 1 ||
        block >= (uint32_t)c->run->n_blocks || codec_holds(c, (int)block, from) ||
        !codec_holds(c, (int)block, c->run->node))
        return codec_fail(c, "worker %d sent a malformed message", from);
    has_it = arrived(c, step) + block * (size_t)c->n_workers + (size_t)from;
    if (*has_it > 0)
        return codec_fail(c, "worker %d sent a message twice", from);
    *has_it = 1;
    p = part_of(c, step, block_of(c, (struct worker_set){(int)block, c->run->node, from}), from);
    memcpy(p.at, v, p.n * sizeof *v);
    s->received[step % 2]++;
    return ccdc_finish(c);
}

static struct codec_cost ccdc_sends(const struct codec *c)
{
    uint64_t messages = (uint64_t)n_foreign(c) * (uint64_t)c->run->redundancy;

    return (struct codec_cost){messages, messages * (8 + 4 * part_at(c, 1))};
}

static const struct codec_events ccdc = {
    .on_block = ccdc_on_block, .on_grad = ccdc_on_grad, .on_message = ccdc_on_message};

CODEC_PLUGIN(
        .name = "ccdc", .source = "Li et al., IEEE Trans. Inf. Theory 2018, section IV",
        .equation = "m_{i,T} = XOR over k in T of part i of block (T - k + i); g <- mean of all blocks",
        .state_size = sizeof(struct ccdc), .open = ccdc_open, .limits = CODEC_NO_SERVERS | CODEC_NO_ASGD,
        .more = CODEC_MORE(
                .cost =
                    "each step 8 + 4 n_params / r bytes to r workers for each of C(n - 1, r) sets of workers",
                .events = &ccdc, .sends = ccdc_sends, .compression = CODEC_UNCOMPRESSED,
                .result = CODEC_MEAN_OF_GRADIENTS))
