#include "nn/optimizer.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nn/kernels/orthogonal.h"
#include "nn/kernels/parallel.h"
#include "nn/kernels/zeros.h"
#include "shared/base/compiler.h"
#include "shared/base/number.h"

/* Vectors are processed in chunks that stay in the first-level cache, so that the gradient is read from
 * memory once for its norm and the step. */
enum { CHUNK = 2048, CHUNKS_FOR_THREADS = 32 /* starting them takes as long as some 10 chunks */ };

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
    bool is_of_matrices; /* parts that are a matrix are updated by matrix_step(), with the first vector */
};

struct own_part {
    struct optimizer_part is;
    size_t first, rest; /* where it begins among the parameters, and among those of all parts but matrices */
};

struct optimizer {
    const struct update_rule *kind;
    const char *name;
    size_t n_params;
    float momentum, weight_decay;
    double beta1, beta2, epsilon;
    uint64_t t; /* steps taken */
    float *vectors[OPTIMIZER_TENSORS];
    double *sums;           /* (chunks): of the squares of each chunk's gradient */
    struct own_part *parts; /* (n_parts), owned */
    size_t n_parts, n_rest; /* n_rest: the parameters that are not in a matrix of muon's */
    double adamw_share;
    float *work; /* of the largest matrix; NULL: there is none */
    size_t work_size;
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

FAST static void add_momentum(const struct update_step *s, const float *restrict grads, float *restrict m)
{
    const float scale = s->scale, mu = s->mu;

    for (size_t i = 0; i < s->n; i++)
        m[i] = not_denormal(mu * m[i] + scale * grads[i]);
}

/* Nesterov's form of the momentum's step. */
FAST static void look_ahead(const struct update_step *s, float *restrict step, const float *restrict grads,
                            const float *restrict m)
{
    const float scale = s->scale, mu = s->mu;

    for (size_t i = 0; i < s->n; i++)
        step[i] = scale * grads[i] + mu * m[i];
}

FAST static void step_along(const struct update_step *s, float keep, float *restrict w,
                            const float *restrict step)
{
    const float lr = s->lr;

    for (size_t i = 0; i < s->n; i++)
        w[i] = keep * w[i] - lr * step[i];
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
    [OPTIMIZER_SGD] = {{NULL}, sgd, false},
    [OPTIMIZER_MOMENTUM] = {{"m"}, momentum, false},
    [OPTIMIZER_NESTEROV] = {{"m"}, nesterov, false},
    [OPTIMIZER_ADAM] = {{"m", "v"}, adam, false},
    [OPTIMIZER_ADAMW] = {{"m", "v"}, adamw, false},
    [OPTIMIZER_ADAGRAD] = {{"v"}, adagrad, false},
    [OPTIMIZER_ADADELTA] = {{"v", "u"}, adadelta, false},
    [OPTIMIZER_RMSPROP] = {{"v"}, rmsprop, false},
    [OPTIMIZER_RMSPROP_GRAVES] = {{"a", "v", "m"}, rmsprop_graves, false},
    [OPTIMIZER_GRADIENT_DECAY] = {{NULL}, gradient_decay, false},
    [OPTIMIZER_LION] = {{"m"}, lion, false},
    [OPTIMIZER_MUON] = {{"m", "v"}, adamw, true},
};

static size_t chunks_of(size_t n)
{
    return (n + CHUNK - 1) / CHUNK;
}

static bool is_matrix(const struct optimizer *o, const struct optimizer_part *p)
{
    return o->kind->is_of_matrices && p->rows > 0;
}

static int take_parts(struct optimizer *o, const struct optimizer_config *cfg)
{
    const struct optimizer_part whole = {.n = o->n_params, .decays = true};
    const struct optimizer_part *parts = cfg->n_parts > 0 ? cfg->parts : &whole;
    size_t first = 0;

    o->n_parts = cfg->n_parts > 0 ? cfg->n_parts : 1;
    o->parts = calloc(o->n_parts, sizeof *o->parts);
    for (size_t i = 0; o->parts && i < o->n_parts; first += parts[i++].n) {
        o->parts[i] = (struct own_part){.is = parts[i], .first = first, .rest = o->n_rest};
        if (is_matrix(o, &parts[i])) {
            size_t size = parts[i].n + orthogonal_work(parts[i].rows, parts[i].cols);

            o->work_size = size > o->work_size ? size : o->work_size;
        } else {
            o->n_rest += parts[i].n;
        }
    }
    if (o->work_size > 0)
        o->work = zeros_new(o->work_size);
    return o->parts && (o->work || o->work_size == 0) ? 0 : -1;
}

static size_t vector_size(const struct optimizer *o, size_t i)
{
    return i == 0 ? o->n_params : o->n_rest;
}

int optimizer_new(struct optimizer **out, const struct optimizer_config *cfg, size_t n_params, struct err *e)
{
    const struct optimizer_defaults *own = &optimizer_kinds[cfg->kind];
    bool is_given = cfg->has_parameters;
    struct optimizer *o = calloc(1, sizeof *o);

    if (!o)
        goto no_memory;
    *o = (struct optimizer){.kind = &kinds[cfg->kind],
                            .name = own->name,
                            .n_params = n_params,
                            .momentum = cfg->momentum,
                            .weight_decay = cfg->weight_decay,
                            .beta1 = is_given ? cfg->beta1 : own->beta1,
                            .beta2 = is_given ? cfg->beta2 : own->beta2,
                            .epsilon = is_given ? cfg->epsilon : own->epsilon,
                            .adamw_share = is_given ? cfg->adamw_share : own->adamw_rate / own->learn_rate};
    o->sums = calloc(chunks_of(n_params) + 1, sizeof *o->sums);
    if (!o->sums || take_parts(o, cfg) < 0)
        goto no_memory;
    for (int i = 0; i < OPTIMIZER_TENSORS && o->kind->vectors[i]; i++) {
        o->vectors[i] = zeros_new(vector_size(o, (size_t)i));
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
    free(o->sums);
    free(o->parts);
    free(o->work);
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

/* Updates parameters [at, at + n), all of one part; of a matrix only the momentum, because its step needs all
 * of it. */
static void step_piece(const struct optimizer *o, struct update_step s, const struct own_part *part,
                       size_t at, size_t n, float *params, const float *grads)
{
    float *a = o->vectors[0], *b = o->vectors[1], *c = o->vectors[2];
    size_t rest = part->rest + (at - part->first);

    s.n = n;
    s.decay = part->is.decays ? o->weight_decay : 0;
    if (is_matrix(o, &part->is)) {
        add_momentum(&s, grads + at, a + at);
        return;
    }
    s.lr = o->kind->is_of_matrices ? (float)((double)s.lr * o->adamw_share) : s.lr;
    o->kind->step(&s, params + at, grads + at, a ? a + at : NULL, b ? b + rest : NULL, c ? c + rest : NULL);
}

/* Tensors of a layer are (inputs, outputs), those of a convolution (rows, columns, inputs, outputs). */
static void matrix_step(const struct optimizer *o, struct update_step s, const struct own_part *part,
                        float *params, const float *grads)
{
    double rows = (double)part->is.rows, cols = (double)part->is.cols;
    float *step = o->work, keep;

    s.n = part->is.n;
    s.decay = part->is.decays ? o->weight_decay : 0;
    keep = kept_share(&s);
    look_ahead(&s, step, grads + part->first, o->vectors[0] + part->first);
    orthogonal_replace(step, part->is.rows, part->is.cols, step + part->is.n);
    s.lr = (float)((double)s.lr * sqrt(cols > rows ? cols / rows : 1));
    step_along(&s, keep, params + part->first, step);
}

struct optimizer_pass { /* one step's pass over the parameters */
    struct optimizer *o;
    struct update_step s;
    float *params;
    const float *grads;
};

/* Updates the parameters of chunks `from` .. `to` - 1. */
static void step_chunks(void *arg, int number, size_t from, size_t to)
{
    const struct optimizer_pass *pass = arg;
    const struct optimizer *o = pass->o;
    const struct own_part *part = o->parts;

    (void)number;
    for (size_t k = from; k < to; k++) {
        size_t at = k * CHUNK, stop = at + chunk_at(at, o->n_params);

        o->sums[k] = sum_of_squares(pass->grads + at, stop - at);
        while (at < stop) {
            size_t end = part->first + part->is.n, n = (end < stop ? end : stop) - at;

            if (end <= at) {
                part++;
                continue;
            }
            step_piece(o, pass->s, part, at, n, pass->params, pass->grads);
            at += n;
        }
    }
}

double optimizer_step(struct optimizer *o, float *params, const float *grads, float lr, float scale)
{
    const size_t n_chunks = chunks_of(o->n_params);
    struct optimizer_pass pass = {.o = o,
                                  .s = {.lr = lr,
                                        .scale = scale,
                                        .mu = o->momentum,
                                        .b1 = (float)o->beta1,
                                        .b2 = (float)o->beta2,
                                        .rest1 = (float)(1 - o->beta1),
                                        .rest2 = (float)(1 - o->beta2),
                                        .eps = (float)o->epsilon,
                                        .t = ++o->t},
                                  .params = params,
                                  .grads = grads};
    double sum = 0;

    pass.s.weight_m = 1 - number_power(o->beta1, o->t);
    pass.s.weight_v = 1 - number_power(o->beta2, o->t);
    if (n_chunks >= CHUNKS_FOR_THREADS)
        parallel_for(n_chunks, PARALLEL_MOST, step_chunks, &pass);
    else
        step_chunks(&pass, 0, 0, n_chunks);
    for (size_t i = 0; i < o->n_parts; i++)
        if (is_matrix(o, &o->parts[i].is))
            matrix_step(o, pass.s, &o->parts[i], params, grads);
    for (size_t k = 0; k < n_chunks; k++)
        sum += o->sums[k];
    return norm_of(sum, grads, o->n_params);
}

double optimizer_bytes(const struct optimizer *o)
{
    double n = (double)o->work_size;

    for (size_t i = 0; i < OPTIMIZER_TENSORS && o->vectors[i]; i++)
        n += (double)vector_size(o, i);
    return n * sizeof(float);
}

size_t optimizer_tensors(const struct optimizer *o, struct tensor_view out[OPTIMIZER_TENSORS])
{
    size_t n = 0;

    for (; n < OPTIMIZER_TENSORS && o->vectors[n]; n++) {
        out[n] = (struct tensor_view){
            .type = TENSOR_F32, .n_dims = 1, .shape = {vector_size(o, n)}, .data = o->vectors[n]};
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
