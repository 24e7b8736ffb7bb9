/* laq -- lazily aggregated quantized gradients: a worker sends the change of its gradient since what it
 * sent last, in a few bits for each number, and only if that change is large enough to matter. For the
 * gradient g of worker m and Q_m, what the others know of it:
 *     R = max_i |g_i - Q_i|;   q_i = floor((g_i - Q_i + R) / (2 tau R) + 1/2),  tau = 1 / (2^bits - 1)
 *     dQ_i = 2 tau R q_i - R
 * sent, and added to Q_m, unless
 *     |dQ|^2 <= (1 / eta^2) sum_{d=1..D} xi_d |theta_{k+1-d} - theta_{k-d}|^2 + 3 (|e|^2 + |e'|^2)
 * where e = g - Q_m - dQ is the error of this quantization and e' that of the last one that was sent. The
 * update uses (1 / n) sum_m Q_m.
 *
 * Sun, Chen, Giannakis and Yang, "Communication-Efficient Distributed Learning via Lazily Aggregated
 * Quantized Gradients", NeurIPS 2019, eq. 5, 6 and 7, with its D = 10, xi_d = xi / D and xi = 0.8. Its
 * objective is the sum of the workers' losses, here it is the mean: its alpha M is eta, the learning rate.
 * At least every `patience`-th gradient is sent. With several servers each range decides for itself.
 *
 * Cost per step: 4 bytes to each other worker, or each of S servers, and 4 (4 S) + bits / 8 n_params more
 * for a gradient that is sent; 4 n_params bytes back from the servers. A worker's codec.csv has a row
 * "lazy" for each gradient that is not: |dQ|^2. */
#include <math.h>

#include "codec_events.h"

enum { D = 10 };

struct laq {
    int bits, patience;
    float xi;
    float *known; /* worker: Q_m */
    float *sum;   /* (1 / n) sum_m Q_m */
    float *last;  /* worker: the parameters of the step before */
    float *moved; /* worker: (D) |theta_{k+1-d} - theta_{k-d}|^2, of step k in [k % D] */
    float error;  /* worker: |e'|^2 */
    int n_lazy;   /* worker: steps since it sent a gradient */
};

static const struct codec_option options[] = {
    CODEC_OPTION(struct laq, bits, 8, 1, 16, "for each number of a gradient"),
    CODEC_OPTION(struct laq, xi, 0.8, 0, 1e3, "how lazy: 0 sends whatever is more than its rounding error"),
    CODEC_OPTION(struct laq, patience, 100, 1, 1e9, "steps after which a gradient is sent in any case"),
    {0},
};

static int laq_open(struct codec *c)
{
    struct laq *l = c->state;
    size_t n = c->run->node < 0 ? 0 : c->n_params;
    int rc;

    if (codec_has_statistics(c))
        return codec_fail(
            c, "running statistics (batch_norm) move without a learning rate, which equation 7 needs");
    if ((rc = codec_zeros(c, &l->known, n)) < 0 || (rc = codec_zeros(c, &l->last, n)) < 0 ||
        (rc = codec_zeros(c, &l->moved, c->run->node < 0 ? 0 : D)) < 0)
        return rc;
    memcpy(l->last, c->params, n * sizeof *l->last);
    l->n_lazy = l->patience; /* the first gradient is sent */
    return codec_zeros(c, &l->sum, c->n_params);
}

/* |theta_k - theta_{k-1}|^2 over the last D steps, divided by eta^2. */
static float movement(struct codec *c)
{
    struct laq *l = c->state;
    float *now = &l->moved[c->run->step % D], all = 0;

    *now = 0;
    for (size_t i = 0; i < c->n_params; i++)
        *now += (c->params[i] - l->last[i]) * (c->params[i] - l->last[i]);
    memcpy(l->last, c->params, c->n_params * sizeof *l->last);
    for (int d = 0; d < D; d++)
        all += l->moved[d];
    return c->lr_sum > 0 ? all / (c->lr_sum * c->lr_sum) : 0;
}

struct grid {
    float radius, step; /* R, 2 tau R */
    uint32_t most;      /* the highest level */
};

static struct grid grid_of(const struct laq *l, float radius)
{
    uint32_t most = (1u << l->bits) - 1;

    return (struct grid){radius, 2 * radius / (float)most, most};
}

static uint32_t level(struct grid g, float change)
{
    float q = floorf((change + g.radius) / g.step + 0.5f);

    if (!(q > 0)) /* also where all changes are 0, or one is not a number */
        return 0;
    return q < (float)g.most ? (uint32_t)q : g.most;
}

static float value(struct grid g, uint32_t q)
{
    return g.step * (float)q - g.radius;
}

/* |dQ|^2 and |e|^2 of the present gradient. */
static struct grid quantize(const struct codec *c, float *size, float *error)
{
    const struct laq *l = c->state;
    struct grid g;
    float most = 0;

    for (size_t i = 0; i < c->n_params; i++)
        most = fmaxf(most, fabsf(c->grads[i] - l->known[i]));
    g = grid_of(l, most);
    *size = *error = 0;
    for (size_t i = 0; i < c->n_params; i++) {
        float change = c->grads[i] - l->known[i], dq = value(g, level(g, change));

        *size += dq * dq;
        *error += (change - dq) * (change - dq);
    }
    return g;
}

static void put_levels(const struct codec *c, struct wire_out *out, struct grid g)
{
    struct laq *l = c->state;
    struct wire_bits b = {0};

    wire_put_f32(out, g.radius);
    for (size_t i = 0; i < c->n_params; i++) {
        uint32_t q = level(g, c->grads[i] - l->known[i]);

        l->known[i] += value(g, q);
        wire_put_bits(out, &b, q, l->bits);
    }
    wire_put_last_bits(out, &b);
}

static int laq_encode(struct codec *c, struct wire_out *out)
{
    struct laq *l = c->state;
    float size, error, allowed = l->xi / D * movement(c);
    struct grid g = quantize(c, &size, &error);
    bool is_lazy = l->n_lazy < l->patience && size <= allowed + 3 * (error + l->error);

    wire_put_u32(out, !is_lazy);
    if (is_lazy) {
        l->n_lazy++;
        return codec_record(c, "lazy", (double)size);
    }
    put_levels(c, out, g);
    l->error = error;
    l->n_lazy = 1;
    return CODEC_GO;
}

/* Adds the levels of a message to `sum`; without, only reads it. */
static void get_levels(const struct codec *c, struct wire_in *in, float *sum)
{
    const struct laq *l = c->state;
    struct grid g = grid_of(l, wire_get_f32(in));
    struct wire_bits b = {0};

    for (size_t i = 0; i < c->n_params && !in->bad; i++) {
        uint32_t q = wire_get_bits(in, &b, l->bits);

        if (sum)
            sum[i] += value(g, q) / (float)c->n_workers;
    }
}

static int laq_merge(struct codec *c, int from, struct wire_in *in)
{
    struct laq *l = c->state;
    bool is_sent = wire_get_u32(in) == 1;
    struct wire_in again = *in;

    if (is_sent)
        get_levels(c, in, NULL);
    if (!wire_ok(in))
        return codec_fail(c, "worker %d sent a malformed gradient", from);
    if (is_sent)
        get_levels(c, &again, l->sum);
    return CODEC_GO;
}

static int laq_apply(struct codec *c)
{
    const struct laq *l = c->state;

    if (c->n_contributions < c->n_workers)
        return codec_fail(c, "a worker is lost, whose last gradient cannot be taken out of the sum");
    memcpy(c->grads, l->sum, c->n_params * sizeof *c->grads);
    return CODEC_GO;
}

static int laq_reply(struct codec *c, struct wire_out *out)
{
    const struct laq *l = c->state;

    wire_put_f32s(out, l->sum, c->n_params);
    return CODEC_GO;
}

static int laq_adopt(struct codec *c, struct wire_in *in)
{
    const float *v = wire_get_f32s(in, c->n_params);

    if (!wire_ok(in))
        return codec_fail(c, "the server sent a malformed gradient");
    memcpy(c->grads, v, c->n_params * sizeof *v);
    return CODEC_GO;
}

static const struct codec_round laq = {.before_update = true,
                                       .encode = laq_encode,
                                       .merge = laq_merge,
                                       .apply = laq_apply,
                                       .reply = laq_reply,
                                       .adopt = laq_adopt};

CODEC_PLUGIN(.name = "laq", .source = "Sun et al., NeurIPS 2019, eq. 5 to 7",
             .equation = "dQ = quantized (g - Q_m), sent if |dQ|^2 is large enough; g <- (1 / n) sum_m Q_m",
             .state_size = sizeof(struct laq), .options = options, .open = laq_open, .limits = CODEC_NO_ASGD,
             .more = CODEC_MORE(.cost = "each step 4 bytes to each other worker or of S servers, 4 (4 S) + "
                                        "bits / 8 n_params more if "
                                        "sent; 4 n_params back from servers",
                                .round = &laq, .compression = CODEC_UNCOMPRESSED,
                                .result = CODEC_EQUAL_RESULT))
