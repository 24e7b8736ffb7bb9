/* gossip -- in each step a worker averages its weights with those of its d neighbors only, then takes its
 * step:
 *     w_i <- sum_j W_ij w_j - eta g_i(w_i),      W_ij = 1 / (1 + d) for i itself and each neighbor
 * D-PSGD: Lian et al., "Can Decentralized Algorithms Outperform Centralized Algorithms?", NIPS 2017,
 * Algorithm 1, with the job's optimizer. Neighbors are 1 apart (graph=ring), or 1, 2, 4, ... on both sides
 * (graph=exponential: Ying et al., NeurIPS 2021, made symmetric). Workers end near each other, not equal.
 * Cost per step: 4 + 4 n_params bytes to each neighbor. The worker's own weights replace those of a lost
 * neighbor. */
#include "codec_events.h"

enum { RING, NEAR_MAX = 64 };

struct gossip {
    int graph, n, near[NEAR_MAX]; /* n = 1 + d: the worker itself, then its neighbors */
    uint64_t received[NEAR_MAX];  /* steps whose weights have arrived; a neighbor may be one step ahead */
    float *latest;                /* (n, 2, n_params): the weights of each in even steps, and in odd steps */
};

static const struct codec_option options[] = {
    CODEC_OPTION_CHOICE(struct gossip, graph, "ring|exponential", "which workers are neighbors"), {0}};

static bool is_near(const struct gossip *g, int apart)
{
    return g->graph == RING ? apart <= 1 : (apart & (apart - 1)) == 0;
}

static int gossip_open(struct codec *c)
{
    struct gossip *g = c->state;

    for (int apart = 0; apart < c->n_workers; apart++)
        if (is_near(g, apart) || is_near(g, c->n_workers - apart))
            g->near[g->n++] = (c->run->node + apart) % c->n_workers;
    for (int k = 1; k < g->n; k++)
        if (codec_link(c, g->near[k]) < 0)
            return -1;
    return codec_zeros(c, &g->latest, 2 * (size_t)g->n * c->n_params);
}

/* Averages once the weights of this step are received from all neighbors that have not left; the worker's
 * own come first. */
static int average(struct codec *c)
{
    const struct gossip *g = c->state;
    const float *own = g->latest + c->run->step % 2 * c->n_params, *w = own;

    for (int k = 0; k < g->n; k++)
        if (g->received[k] <= c->run->step && !codec_has_left(c, g->near[k]))
            return k > 0 ? CODEC_WAIT : CODEC_GO;
    for (int k = 0; k < g->n; k++, w += 2 * c->n_params)
        for (size_t i = 0; i < c->n_params; i++)
            c->params[i] = (k > 0 ? c->params[i] : 0) +
                           (g->received[k] > c->run->step ? w : own)[i] / (float)g->n;
    return CODEC_GO;
}

static int gossip_send(struct codec *c)
{
    struct gossip *g = c->state;
    struct wire_out *out = codec_message(c);
    int rc = CODEC_GO;

    wire_put_u32(out, (uint32_t)c->run->step);
    codec_put_vector(c, out, c->params, c->n_params);
    for (int k = 1; k < g->n && rc == CODEC_GO; k++)
        rc = codec_send(c, g->near[k]);
    memcpy(g->latest + c->run->step % 2 * c->n_params, c->params, c->n_params * sizeof *c->params);
    g->received[0] = c->run->step + 1;
    return rc < 0 ? rc : average(c);
}

static int gossip_receive(struct codec *c, int from, struct wire_in *in)
{
    struct gossip *g = c->state;
    uint32_t step = wire_get_u32(in);
    const float *w = codec_get_vector(c, in, c->n_params);
    int k = 1;

    while (k < g->n && g->near[k] != from)
        k++;
    if (!wire_ok(in) || k == g->n || step < c->run->step || step > c->run->step + 1)
        return codec_fail(c, "node %d sent malformed weights", from);
    memcpy(g->latest + (2 * (size_t)k + step % 2) * c->n_params, w, c->n_params * sizeof *w);
    g->received[k] = step + 1;
    return average(c);
}

static int gossip_lose(struct codec *c, int node)
{
    (void)node;
    return average(c);
}

static struct codec_cost gossip_sends(const struct codec *c)
{
    uint64_t d = (uint64_t)((const struct gossip *)c->state)->n - 1;

    return (struct codec_cost){d, d * (4 + 4 * c->n_params)};
}

static const struct codec_events gossip = {.on_grad = gossip_send,
                                           .on_message = gossip_receive,
                                           .on_lost = gossip_lose,
                                           .is_quiescent_between_steps = true};

CODEC_PLUGIN(.name = "gossip", .source = "Lian et al., NIPS 2017, Algorithm 1 (D-PSGD)",
             .state_size = sizeof(struct gossip), .options = options, .open = gossip_open,
             .limits = CODEC_NO_SERVERS | CODEC_NO_ASGD,
             .more = CODEC_MORE(.cost = "each step 4 + 4 n_params bytes to each neighbor", .events = &gossip,
                                .sends = gossip_sends, .result = CODEC_OWN_RESULT))
