/* gossip -- in each step a worker averages its weights with its d neighbours' only, then takes its step:
 *     w_i <- sum_j W_ij w_j - eta g_i(w_i),      W_ij = 1 / (1 + d) for i itself and each neighbour
 *
 * D-PSGD: Lian et al., "Can Decentralized Algorithms Outperform Centralized Algorithms?", NIPS 2017,
 * Algorithm 1, with the job's optimizer. Neighbours are 1 apart (graph=ring), or 1, 2, 4, ... on both sides
 * (graph=exponential: Ying et al., NeurIPS 2021, made symmetric, as D-PSGD asks of W). Workers end near each
 * other, not equal. The share of a neighbour that is lost falls to i itself.
 * Cost per step: 4 + 4 n_params bytes to each neighbour; a state of 2 d n_params numbers. */
#include "codec.h"

enum { RING, NEIGHBOURS_MAX = 64 };

struct gossip {
    int graph, n, neighbours[NEIGHBOURS_MAX]; /* n of them */
    uint64_t heard[NEIGHBOURS_MAX]; /* steps of which a neighbour's weights have come: it may be one ahead */
    bool is_waiting;
    float *words; /* (2, n, n_params): neighbours' weights of even steps, and of odd ones */
};

static const struct codec_option options[] = {
    CODEC_OPTION_WORD(struct gossip, graph, "ring|exponential", "who is whose neighbour"), {0}};

static bool is_edge(const struct gossip *g, int apart)
{
    return g->graph == RING ? apart == 1 : (apart & (apart - 1)) == 0;
}

static int gossip_open(struct codec *c)
{
    struct gossip *g = c->state;
    int n = c->n_workers;

    for (int apart = 1; apart < n; apart++)
        if (is_edge(g, apart) || is_edge(g, n - apart))
            g->neighbours[g->n++] = (c->node + apart) % n;
    return c->host->zeros(c, &g->words, 2 * (size_t)g->n * c->n_params);
}

/* Averages as soon as the weights of this step are here from all who can still send them. */
static int go_on(struct codec *c)
{
    struct gossip *g = c->state;
    const float *w = g->words + c->step % 2 * (size_t)g->n * c->n_params;
    float part = 1.0f / (float)(1 + g->n), own = part;

    for (int k = 0; k < g->n; k++) {
        if (g->heard[k] <= c->step && !c->host->has_left(c, g->neighbours[k]))
            return CODEC_WAIT;
        own += g->heard[k] <= c->step ? part : 0;
    }
    g->is_waiting = false;
    for (size_t i = 0; i < c->n_params; i++)
        c->params[i] *= own;
    for (int k = 0; k < g->n; k++, w += c->n_params)
        for (size_t i = 0; g->heard[k] > c->step && i < c->n_params; i++)
            c->params[i] += part * w[i];
    return CODEC_GO;
}

static int gossip_on_grad(struct codec *c)
{
    struct gossip *g = c->state;
    struct wire_out *out = c->host->message(c);

    wire_put_u32(out, (uint32_t)c->step);
    c->host->put_vector(c, out, c->params, c->n_params);
    for (int k = 0; k < g->n; k++)
        if (c->host->send(c, g->neighbours[k]) < 0)
            return -1;
    g->is_waiting = true;
    return go_on(c);
}

static int gossip_on_message(struct codec *c, int from, struct wire_in *in)
{
    struct gossip *g = c->state;
    uint32_t step = wire_get_u32(in);
    const float *w = c->host->get_vector(c, in, c->n_params);
    size_t k = 0, n = (size_t)g->n;

    while (k < n && g->neighbours[k] != from)
        k++;
    if (!wire_ok(in) || k == n || step < c->step || step > c->step + 1)
        return codec_fail(c, "node %d sent malformed weights", from);
    memcpy(g->words + (step % 2 * n + k) * c->n_params, w, c->n_params * sizeof *w);
    g->heard[k] = step + 1;
    return g->is_waiting ? go_on(c) : CODEC_GO;
}

static int gossip_on_lost(struct codec *c, int node)
{
    const struct gossip *g = c->state;

    (void)node;
    return g->is_waiting ? go_on(c) : CODEC_GO;
}

static struct codec_cost gossip_sends(const struct codec *c)
{
    uint64_t to = (uint64_t)((const struct gossip *)c->state)->n;

    return (struct codec_cost){to, to * (4 + 4 * c->n_params)};
}

static const struct codec_events gossip = {.on_grad = gossip_on_grad,
                                           .on_message = gossip_on_message,
                                           .on_lost = gossip_on_lost,
                                           .rests_between_steps = true};

CODEC_PLUGIN(.name = "gossip", .source = "Lian et al., NIPS 2017, Algorithm 1 (D-PSGD)",
             .cost = "each step 4 + 4 n_params bytes to each neighbour", .state_size = sizeof(struct gossip),
             .options = options, .open = gossip_open, .events = &gossip,
             .limits = CODEC_NO_SERVERS | CODEC_NO_ASGD, .sends = gossip_sends)
