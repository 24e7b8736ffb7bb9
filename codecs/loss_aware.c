/* loss_aware -- workers train with quantized weights, the servers keep the full ones. Workers send
 * gradients, which they compute at the quantized weights; a server moves its weights w by a step of the
 * job's optimizer, and replies with w quantized so that the loss changes least, to second order: for each
 * layer a factor alpha and integers b_i of -L .. L, L = 2^(bits - 1) - 1, that minimize
 *     sum_i d_i (w_i - alpha b_i)^2,      d = sqrt(v),      v <- decay v + (1 - decay) g * g
 * where d stands for the diagonal of the Hessian. Both are improved in turn,
 *     b_i = w_i / alpha, rounded and clipped to -L .. L;      alpha = sum_i d_i w_i b_i / sum_i d_i b_i^2
 * until alpha moves by less than 1e-4 of itself, and not more than 20 times.
 *
 * Hou and Kwok, "Loss-aware Weight Quantization of Deep Networks", ICLR 2018; with many workers, whose
 * gradients may be quantized, too (--compress): Hou, Zhang and Kwok, "Analysis of Quantized Models", ICLR
 * 2019. In Parallel-SGD it is the codec `laq`, the name by which Sun et al. call another method (laq.c).
 * Deviations from Parallel-SGD: b is rounded to the nearest, as in the papers; there at random, so that
 * alpha may never come to rest (4 to 34 rounds were seen). Its workers' quantization of gradients is
 * --compress here.
 *
 * In ssgd workers end with quantized weights. In asgd a server quantizes for the worker whose gradient has
 * come, and all end with its full weights.
 *
 * Cost per step: 4 n_params bytes to the servers; back 4 bytes for each tensor (weights, bias, ...) and
 * bits / 8 for each parameter, rounded up to a multiple of 4 bytes in each tensor. */
#include <math.h>

#include "codec_events.h"

enum { ROUNDS = 20 };

struct loss_aware {
    int bits;
    float decay;
    float *v; /* server: mean square of the gradients */
};

static const struct codec_option options[] = {
    CODEC_OPTION(struct loss_aware, bits, 4, 2, 8, "for each parameter that servers send"),
    CODEC_OPTION(struct loss_aware, decay, 0.9, 0, 1, "of the mean square of gradients"),
    {0},
};

static int loss_aware_open(struct codec *c)
{
    struct loss_aware *l = c->state;

    if (codec_has_statistics(c))
        return codec_fail(c,
                          "running statistics (batch_norm) are no weights: in few bits they may be negative");
    return codec_zeros(c, &l->v, c->run->node < 0 ? c->n_params : 0);
}

static int loss_aware_encode(struct codec *c, struct wire_out *out)
{
    codec_put_vector(c, out, c->grads, c->n_params);
    return CODEC_GO;
}

static int loss_aware_merge(struct codec *c, int from, struct wire_in *in)
{
    const float *g = codec_get_vector(c, in, c->n_params);

    if (!wire_ok(in))
        return codec_fail(c, "worker %d sent a malformed gradient", from);
    for (size_t i = 0; i < c->n_params; i++)
        c->grads[i] = (c->run->n_merged > 0 ? c->grads[i] : 0) + g[i] / (float)c->n_contributions;
    return CODEC_GO;
}

static int loss_aware_apply(struct codec *c)
{
    struct loss_aware *l = c->state;

    for (size_t i = 0; i < c->n_params; i++)
        l->v[i] = l->decay * l->v[i] + (1 - l->decay) * c->grads[i] * c->grads[i];
    return codec_update(c);
}

static float most_of(const struct loss_aware *l)
{
    return (float)((1 << (l->bits - 1)) - 1);
}

static float level(float w, float alpha, float most)
{
    float b = alpha > 0 ? rintf(w / alpha) : 0;

    return b > most ? most : b < -most ? -most : b >= -most ? b : 0; /* 0: not a number */
}

/* The factor of n weights. */
static float fit(const struct loss_aware *l, const float *w, const float *v, size_t n)
{
    float most = most_of(l), alpha = 0, last;

    for (size_t i = 0; i < n; i++)
        alpha = fmaxf(alpha, fabsf(w[i]) / most);
    for (int k = 0; k < ROUNDS && isfinite(alpha); k++) {
        double up = 0, down = 0;

        for (size_t i = 0; i < n; i++) {
            double b = (double)level(w[i], alpha, most), d = sqrt((double)v[i]);

            up += d * (double)w[i] * b;
            down += d * b * b;
        }
        last = alpha;
        alpha = down > 0 ? (float)(up / down) : alpha;
        if (fabsf(alpha - last) <= 1e-4f * last)
            break;
    }
    return alpha;
}

/* Numbers of `bits` bits, b + L; each layer begins a word. */
static void put_layer(const struct loss_aware *l, struct wire_out *out, const float *w, const float *v,
                      size_t n)
{
    float alpha = fit(l, w, v, n), most = most_of(l);
    struct wire_bits b = {0};

    wire_put_f32(out, alpha);
    for (size_t i = 0; i < n; i++)
        wire_put_bits(out, &b, (uint32_t)(level(w[i], alpha, most) + most), l->bits);
    wire_put_last_bits(out, &b);
}

static void get_layer(const struct loss_aware *l, struct wire_in *in, float *w, size_t n)
{
    float alpha = wire_get_f32(in), most = most_of(l);
    struct wire_bits b = {0};

    for (size_t i = 0; i < n && !in->bad; i++)
        w[i] = alpha * ((float)wire_get_bits(in, &b, l->bits) - most);
}

static int loss_aware_reply(struct codec *c, struct wire_out *out)
{
    const struct loss_aware *l = c->state;

    for (int k = 0; k < c->run->n_layers; k++) {
        const struct codec_layer *layer = &c->run->layers[k];

        put_layer(l, out, c->params + layer->offset, l->v + layer->offset, layer->n);
    }
    return CODEC_GO;
}

static int loss_aware_adopt(struct codec *c, struct wire_in *in)
{
    const struct loss_aware *l = c->state;

    for (int k = 0; k < c->run->n_layers; k++)
        get_layer(l, in, c->params + c->run->layers[k].offset, c->run->layers[k].n);
    return wire_ok(in) ? CODEC_GO : codec_fail(c, "the server sent malformed weights");
}

static size_t words_of(const struct loss_aware *l, size_t n)
{
    return (n * (size_t)l->bits + 31) / 32;
}

static size_t reply_bytes(const struct codec *c)
{
    size_t bytes = 0;

    for (int k = 0; k < c->run->n_layers; k++)
        bytes += 4 + 4 * words_of(c->state, c->run->layers[k].n);
    return bytes;
}

static size_t loss_aware_message_bytes(const struct codec *c)
{
    return 64 + 4 * c->n_params + 8 * (size_t)c->run->n_layers;
}

static struct codec_cost loss_aware_sends(const struct codec *c)
{
    uint64_t to = codec_receivers(c);

    return (struct codec_cost){to, to * (c->run->node < 0 ? reply_bytes(c) : 4 * c->n_params)};
}

static const struct codec_round loss_aware = {.before_update = true,
                                              .encode = loss_aware_encode,
                                              .merge = loss_aware_merge,
                                              .apply = loss_aware_apply,
                                              .reply = loss_aware_reply,
                                              .adopt = loss_aware_adopt};

CODEC_PLUGIN(
        .name = "loss_aware", .source = "Hou and Kwok, ICLR 2018; Hou, Zhang and Kwok, ICLR 2019",
        .equation = "w <- w - eta mean_k g_k; workers get alpha b, min sum_i sqrt(v_i) (w_i - alpha b_i)^2",
        .state_size = sizeof(struct loss_aware), .options = options, .open = loss_aware_open,
        .more = CODEC_MORE(
                .cost =
                    "each step 4 n_params bytes to the servers; back 4 for each tensor and bits / 8 n_params",
                .message_bytes = loss_aware_message_bytes, .round = &loss_aware, .updates_on_server = true,
                .compression = CODEC_LOSSY_UP, .sends = loss_aware_sends, .result = CODEC_EQUAL_RESULT))
