#include "nn/optimizer.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nn/kernels/zeros.h"
#include "shared/base/compiler.h"
#include "shared/base/number.h"

/* Vectors are processed in chunks that stay in the first-level cache, so that the gradient is read from
 * memory once for its norm and the step. */
enum { CHUNK = 2048 };

struct update_step { /* values common to all parameters of a part */
    size_t n;        /* of this piece */
    float lr, scale, mu, decay;
    float b1, b2, rest1, rest2, eps; /* rest: 1 - b */
    uint64_t t;
    double weight_m, weight_v; /* Adam's 1 - b1^t and 1 - b2^t */
};

struct update_rule {
    const char *vectors[OPTIMIZER_TENSORS];
    void (*step)(const struct update_step *s, float *params, const float *grads, float *a, float *b,
                 float *c);
};

struct optimizer {
    const struct update_rule *kind;
    const char *name;
    size_t n_params;
    float momentum, weight_decay;
    double beta1, beta2, epsilon;
    uint64_t t; /* steps taken */
    float *vectors[OPTIMIZER_TENSORS];
    struct optimizer_part *parts; /* (n_parts), owned */
    size_t n_parts;
};

static inline float not_denormal(float x)
{
    return fabsf(x) < FLT_MIN ? 0 : x;
}

FAST static void sgd(const struct update_step *s, float *restrict w, const float *restrict grads, float *a,
                     float *b, float *c)
{
    const float lr = s->lr, scale = s->scale, decay = s->decay;

    (void)a, (void)b, (void)c;
    for (size_t i = 0; i < s->n; i++)
        w[i] -= lr * (scale * grads[i] + decay * w[i]);
}

static void gradient_decay(const struct update_step *s, float *w, const float *grads, float *a, float *b,
                           float *c)
{
    struct update_step slower = *s;

    slower.lr = (float)((double)s->lr / sqrt((double)s->t));
    sgd(&slower, w, grads, a, b, c);
}

FAST static void momentum(const struct update_step *s, float *restrict w, const float *restrict grads,
                          float *restrict m, float *b, float *c)
{
    const float lr = s->lr, scale = s->scale, decay = s->decay, mu = s->mu;

    (void)b, (void)c;
    for (size_t i = 0; i < s->n; i++) {
        float g = scale * grads[i] + decay * w[i];

        m[i] = not_denormal(mu * m[i] + g);
        w[i] -= lr * m[i];
    }
}

FAST static void nesterov(const struct update_step *s, float *restrict w, const float *restrict grads,
                          float *restrict m, float *b, float *c)
{
    const float lr = s->lr, scale = s->scale, decay = s->decay, mu = s->mu;

    (void)b, (void)c;
    for (size_t i = 0; i < s->n; i++) {
        float g = scale * grads[i] + decay * w[i];

        m[i] = not_denormal(mu * m[i] + g);
        w[i] -= lr * (g + mu * m[i]);
    }
}

/* Adam's step, after scaling the weights by `keep`. */
FAST static void adam_pass(const struct update_step *s, float keep, float *restrict w,
                           const float *restrict grads, float *restrict m, float *restrict v)
{
    const float b1 = s->b1, b2 = s->b2, rest1 = s->rest1, rest2 = s->rest2, eps = s->eps;
    const float rate = (float)((double)s->lr / s->weight_m);
    const float unbias = (float)(1 / sqrt(s->weight_v));
    const float scale = s->scale, decay = s->decay;

    for (size_t i = 0; i < s->n; i++) {
        float g = scale * grads[i] + decay * w[i];
        float m_i = not_denormal(b1 * m[i] + rest1 * g);
        float v_i = not_denormal(b2 * v[i] + rest2 * g * g);

        m[i] = m_i;
        v[i] = v_i;
        w[i] = keep * w[i] - rate * m_i / (sqrtf(v_i) * unbias + eps);
    }
}

static void adam(const struct update_step *s, float *w, const float *grads, float *m, float *v, float *c)
{
    (void)c;
    adam_pass(s, 1, w, grads, m, v);
}

/* The factor of the weights under a decay that is not part of the gradient. */
static float kept_share(const struct update_step *s)
{
    return (float)(1 - (double)s->lr * (double)s->decay);
}

static void adamw(const struct update_step *s, float *w, const float *grads, float *m, float *v, float *c)
{
    struct update_step decoupled = *s;

    (void)c;
    decoupled.decay = 0;
    adam_pass(&decoupled, kept_share(s), w, grads, m, v);
}

/* The sign of 0 is 0, and that of NaN is NaN. */
FAST static void lion(const struct update_step *s, float *restrict w, const float *restrict grads,
                      float *restrict m, float *b, float *c)
{
    const float b1 = s->b1, b2 = s->b2, rest1 = s->rest1, rest2 = s->rest2;
    const float lr = s->lr, scale = s->scale, keep = kept_share(s);

    (void)b, (void)c;
    for (size_t i = 0; i < s->n; i++) {
        float g = scale * grads[i];
        float way = b1 * m[i] + rest1 * g;
        float sign = way > 0 ? 1 : way < 0 ? -1 : way;

        m[i] = not_denormal(b2 * m[i] + rest2 * g);
        w[i] = keep * w[i] - lr * sign;
    }
}

FAST static void adagrad(const struct update_step *s, float *restrict w, const float *restrict grads,
                         float *restrict v, float *b, float *c)
{
    const float lr = s->lr, scale = s->scale, decay = s->decay, eps = 1e-7f;

    (void)b, (void)c;
    for (size_t i = 0; i < s->n; i++) {
        float g = scale * grads[i] + decay * w[i];

        v[i] = not_denormal(v[i] + g * g);
        w[i] -= lr * g / (sqrtf(v[i]) + eps);
    }
}

FAST static void rmsprop(const struct update_step *s, float *restrict w, const float *restrict grads,
                         float *restrict v, float *b, float *c)
{
    const float lr = s->lr, scale = s->scale, decay = s->decay, rho = 0.9f, rest = 0.1f, eps = 1e-7f;

    (void)b, (void)c;
    for (size_t i = 0; i < s->n; i++) {
        float g = scale * grads[i] + decay * w[i];

        v[i] = not_denormal(rho * v[i] + rest * g * g);
        w[i] -= lr * g / (sqrtf(v[i]) + eps);
    }
}

FAST static void rmsprop_graves(const struct update_step *s, float *restrict w, const float *restrict grads,
                                float *restrict a, float *restrict v, float *restrict m)
{
    const float lr = s->lr, scale = s->scale, decay = s->decay, mu = s->mu;
    const float rho = 0.95f, rest = 0.05f, eps = 1e-4f;

    for (size_t i = 0; i < s->n; i++) {
        float g = scale * grads[i] + decay * w[i];
        float a_i = not_denormal(rho * a[i] + rest * g);
        float v_i = not_denormal(rho * v[i] + rest * g * g);
        float spread = v_i - a_i * a_i;

        a[i] = a_i;
        v[i] = v_i;
        m[i] = not_denormal(mu * m[i] + g / sqrtf((spread < 0 ? 0 : spread) + eps));
        w[i] -= lr * m[i];
    }
}

FAST static void adadelta(const struct update_step *s, float *restrict w, const float *restrict grads,
                          float *restrict v, float *restrict u, float *c)
{
    const float lr = s->lr, scale = s->scale, decay = s->decay, rho = 0.95f, rest = 0.05f, eps = 1e-6f;

    (void)c;
    for (size_t i = 0; i < s->n; i++) {
        float g = scale * grads[i] + decay * w[i];
        float v_i = not_denormal(rho * v[i] + rest * g * g);
        float move = sqrtf((u[i] + eps) / (v_i + eps)) * g;

        v[i] = v_i;
        u[i] = not_denormal(rho * u[i] + rest * move * move);
        w[i] -= lr * move;
    }
}

static const struct update_rule kinds[N_OPTIMIZERS] = {
    [OPTIMIZER_SGD] = {{NULL}, sgd},
    [OPTIMIZER_MOMENTUM] = {{"m"}, momentum},
    [OPTIMIZER_NESTEROV] = {{"m"}, nesterov},
    [OPTIMIZER_ADAM] = {{"m", "v"}, adam},
    [OPTIMIZER_ADAMW] = {{"m", "v"}, adamw},
    [OPTIMIZER_ADAGRAD] = {{"v"}, adagrad},
    [OPTIMIZER_ADADELTA] = {{"v", "u"}, adadelta},
    [OPTIMIZER_RMSPROP] = {{"v"}, rmsprop},
    [OPTIMIZER_RMSPROP_GRAVES] = {{"a", "v", "m"}, rmsprop_graves},
    [OPTIMIZER_GRADIENT_DECAY] = {{NULL}, gradient_decay},
    [OPTIMIZER_LION] = {{"m"}, lion},
};

static int take_parts(struct optimizer *o, const struct optimizer_config *cfg)
{
    const struct optimizer_part whole = {.n = o->n_params, .decays = true};

    o->n_parts = cfg->n_parts > 0 ? cfg->n_parts : 1;
    o->parts = malloc(o->n_parts * sizeof *o->parts);
    if (o->parts)
        memcpy(o->parts, cfg->n_parts > 0 ? cfg->parts : &whole, o->n_parts * sizeof *o->parts);
    return o->parts ? 0 : -1;
}

int optimizer_new(struct optimizer **out, const struct optimizer_config *cfg, size_t n_params, struct err *e)
{
    const struct optimizer_defaults *own = &optimizer_kinds[cfg->kind];
    bool has_own = cfg->beta1 == 0 && cfg->beta2 == 0 && cfg->epsilon == 0;
    struct optimizer *o = calloc(1, sizeof *o);

    if (!o)
        goto no_memory;
    *o = (struct optimizer){.kind = &kinds[cfg->kind],
                            .name = own->name,
                            .n_params = n_params,
                            .momentum = cfg->momentum,
                            .weight_decay = cfg->weight_decay,
                            .beta1 = has_own ? own->beta1 : cfg->beta1,
                            .beta2 = has_own ? own->beta2 : cfg->beta2,
                            .epsilon = has_own ? own->epsilon : cfg->epsilon};
    if (take_parts(o, cfg) < 0)
        goto no_memory;
    for (int i = 0; i < OPTIMIZER_TENSORS && o->kind->vectors[i]; i++) {
        o->vectors[i] = zeros_new(n_params);
        if (!o->vectors[i])
            goto no_memory;
    }
    *out = o;
    return 0;
no_memory:
    optimizer_free(o);
    return err_set(e, ERR_NOMEM, "no memory for %s's state of %zu parameters", own->name, n_params);
}

void optimizer_free(struct optimizer *o)
{
    if (!o)
        return;
    for (int i = 0; i < OPTIMIZER_TENSORS; i++)
        free(o->vectors[i]);
    free(o->parts);
    free(o);
}

static size_t chunk_at(size_t at, size_t n)
{
    return n - at < CHUNK ? n - at : CHUNK;
}

/* Of one chunk, in float: no sum is long enough to lose digits. Chunks are summed in double. */
FAST static double sum_of_squares(const float *v, size_t n)
{
    enum { LANES = 32 };
    float lane[LANES] = {0};
    double sum = 0;
    size_t i = 0;

    for (; i + LANES <= n; i += LANES)
        for (size_t k = 0; k < LANES; k++)
            lane[k] += v[i + k] * v[i + k];
    for (; i < n; i++)
        lane[0] += v[i] * v[i];
    for (size_t k = 0; k < LANES; k++)
        sum += (double)lane[k];
    return sum;
}

static double norm_of(double sum, const float *grads, size_t n)
{
    if (isfinite(sum) && sum > 1e-30)
        return sqrt(sum);
    /* Squares overflowed or underflowed float; rare, so it may be slow. */
    sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)grads[i] * (double)grads[i];
    return sqrt(sum);
}

double gradient_norm(const float *grads, size_t n)
{
    double sum = 0;

    for (size_t at = 0; at < n; at += CHUNK)
        sum += sum_of_squares(grads + at, chunk_at(at, n));
    return norm_of(sum, grads, n);
}

/* x * 0 is 0 for a finite x, NaN otherwise. */
FAST bool gradient_is_finite(const float *grads, size_t n)
{
    float lane[16] = {0};
    float sum = 0;
    size_t i = 0;

    for (; i + 16 <= n; i += 16)
        for (size_t k = 0; k < 16; k++)
            lane[k] += grads[i + k] * 0;
    for (; i < n; i++)
        sum += grads[i] * 0;
    for (size_t k = 0; k < 16; k++)
        sum += lane[k];
    return sum == 0;
}

void statistics_step(float *params, const float *batch, const float *momentum, size_t n)
{
    for (size_t i = 0; i < n; i++)
        params[i] -= momentum[i] * (params[i] - batch[i]);
}

/* Updates parameters [at, at + n), all of one part. */
static void step_piece(const struct optimizer *o, struct update_step s, const struct optimizer_part *part,
                       size_t at, size_t n, float *params, const float *grads)
{
    float *a = o->vectors[0], *b = o->vectors[1], *c = o->vectors[2];

    s.n = n;
    s.decay = part->decays ? o->weight_decay : 0;
    o->kind->step(&s, params + at, grads + at, a ? a + at : NULL, b ? b + at : NULL, c ? c + at : NULL);
}

double optimizer_step(struct optimizer *o, float *params, const float *grads, float lr, float scale)
{
    const struct optimizer_part *part = o->parts;
    struct update_step s = {.lr = lr,
                            .scale = scale,
                            .mu = o->momentum,
                            .b1 = (float)o->beta1,
                            .b2 = (float)o->beta2,
                            .rest1 = (float)(1 - o->beta1),
                            .rest2 = (float)(1 - o->beta2),
                            .eps = (float)o->epsilon,
                            .t = ++o->t};
    size_t end = part->n; /* of the present part */
    double sum = 0;

    s.weight_m = 1 - number_power(o->beta1, s.t);
    s.weight_v = 1 - number_power(o->beta2, s.t);
    for (size_t at = 0; at < o->n_params;) {
        size_t stop = at + chunk_at(at, o->n_params);

        sum += sum_of_squares(grads + at, stop - at);
        while (at < stop) {
            size_t n = (end < stop ? end : stop) - at;

            step_piece(o, s, part, at, n, params, grads);
            at += n;
            if (at == end && at < o->n_params)
                end += (++part)->n;
        }
    }
    return norm_of(sum, grads, o->n_params);
}

size_t optimizer_tensors(const struct optimizer *o, struct tensor_view out[OPTIMIZER_TENSORS])
{
    size_t n = 0;

    for (; n < OPTIMIZER_TENSORS && o->vectors[n]; n++) {
        out[n] = (struct tensor_view){
            .type = TENSOR_F32, .n_dims = 1, .shape = {o->n_params}, .data = o->vectors[n]};
        snprintf(out[n].name, sizeof out[n].name, "%s.%s", o->name, o->kind->vectors[n]);
    }
    return n;
}

float *optimizer_vector(struct optimizer *o, size_t i)
{
    return o->vectors[i];
}

uint64_t optimizer_steps(const struct optimizer *o)
{
    return o->t;
}

void optimizer_set_steps(struct optimizer *o, uint64_t steps)
{
    o->t = steps;
}

float gradient_clip(double norm, double limit)
{
    double scale = limit / (norm + 1e-6);

    return limit > 0 && scale < 1 ? (float)scale : 1;
}
