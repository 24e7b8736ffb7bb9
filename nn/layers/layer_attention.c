/* attention -- causal self-attention of several heads (Vaswani et al. 2017, section 3.2), d = values of a
 * step, e = d / heads. The bias of both products may be absent.
 *
 *     [Q K V] (time, 3 d) = x (time, d) W (d, 3 d) + b (3 d)       a head has e columns of each of Q, K and V
 *     S = Q K^T / sqrt(e)      P[t] = softmax(S[t, 0 .. t]), 0 behind it      O = P V
 *     y (time, d) = O (time, d) U (d, d) + c (d)
 *
 * Backward, for each head:
 *
 *     dU = O^T dy      dc = sum of dy      dO = dy U^T
 *     dP = dO V^T      dS = P * (dP - sum over the row of P * dP) / sqrt(e)
 *     dV = P^T dO      dQ = dS K      dK = dS^T Q
 *     dW = x^T [dQ dK dV]      db = sum of [dQ dK dV]      dx = [dQ dK dV] W^T
 *
 * With rope, value k and value k + e/2 of each query and key are a point that is rotated by the angle t w_k,
 * w_k = base^(-2k/e), t the step (Su et al. 2021; the pairs of Hugging Face's and Meta's LLaMA); the gradient
 * is rotated back.
 *
 * With dropout, O = (P * M) V with the factors M of nn/layers/dropout_mask.h, dV = (P * M)^T dO and dP = dO
 * V^T * M. M is drawn again in backward instead of kept.
 *
 * Only the lower triangles of S, P, dP and dS are computed. dQ, dK and dV overwrite Q, K and V, and dO
 * overwrites O. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "nn/kernels/matmul.h"
#include "nn/kernels/parallel.h"
#include "nn/kernels/strip.h"
#include "nn/kernels/transpose.h"
#include "nn/kernels/vecmath.h"
#include "nn/kernels/zeros.h"
#include "nn/layers/dropout_mask.h"
#include "nn/layers/layer.h"
#include "nn/layers/row_mean.h"
#include "shared/base/compiler.h"
#include "shared/base/rng.h"

struct attention_size {
    size_t time, d, heads, e;
    float dropout;
    size_t wide; /* a row of P: time, rounded up to whole tiles of a product */
};

struct attention_space { /* offsets in `work` */
    size_t qkv;          /* (n, time, 3 d) */
    size_t o;            /* (n, time, d) */
    size_t p;            /* (n, heads, time, wide) */
    size_t scratch;      /* (parts, attention_scratch.end): one for each part of a loop over heads */
    size_t end;
};

struct attention_scratch { /* offsets; of one head */
    size_t dp;             /* (time, wide) */
    size_t dq;             /* (time, e) */
    size_t across;         /* (e, wide): K^T or V^T */
    size_t dropped;        /* (time, wide): with dropout, M or P * M */
    size_t end;
};

struct attention_own {
    int n_parts;   /* of a loop over heads, at most */
    float *cosine; /* (time, e / 2), of rope's angles, and then their sine. NULL: no rope */
};

/* The order of the tensors, without the biases where there are none. */
struct attention_tensors {
    float *weight, *bias, *output_weight, *output_bias;
};

static struct attention_size attention_size_of(const struct layer_spec *s)
{
    struct attention_size z = {.time = (size_t)s->in.dim[0], .d = (size_t)s->in.dim[1]};

    z.heads = (size_t)s->attention.heads;
    z.dropout = s->attention.dropout;
    z.e = z.d / z.heads;
    z.wide = (z.time + STRIP_COLS - 1) / STRIP_COLS * STRIP_COLS;
    return z;
}

static struct attention_scratch attention_scratch_of(const struct attention_size *z)
{
    struct attention_scratch at = {0};

    at.dq = at.dp + z->time * z->wide;
    at.across = at.dq + z->time * z->e;
    at.dropped = at.across + z->e * z->wide;
    at.end = at.dropped + (z->dropout > 0 ? z->time * z->wide : 0);
    return at;
}

static struct attention_space attention_space_of(const struct attention_size *z, size_t n, int n_parts)
{
    struct attention_space at = {0};

    at.o = at.qkv + n * z->time * 3 * z->d;
    at.p = at.o + n * z->time * z->d;
    at.scratch = at.p + n * z->heads * z->time * z->wide;
    at.end = at.scratch + (size_t)n_parts * attention_scratch_of(z).end;
    return at;
}

static size_t attention_work(const struct layer_spec *s, int max_batch)
{
    const struct attention_size z = attention_size_of(s);

    return attention_space_of(&z, (size_t)max_batch, parallel_parts()).end;
}

static struct attention_tensors tensors_of(const struct layer_spec *s, float *const t[LAYER_TENSORS])
{
    return s->n_tensors == 4 ? (struct attention_tensors){t[0], t[1], t[2], t[3]}
                             : (struct attention_tensors){t[0], NULL, t[1], NULL};
}

static void attention_close(struct layer *l)
{
    struct attention_own *own = l->own;

    if (own)
        free(own->cosine);
    free(own);
}

static int attention_open(struct layer *l, int max_batch, struct err *e)
{
    const struct attention_size z = attention_size_of(l->spec);
    const size_t half = z.e / 2;
    struct attention_own *own = calloc(1, sizeof *own);
    float *cosine;

    (void)max_batch;
    l->own = own;
    if (!own)
        return err_set(e, ERR_NOMEM, "no memory for attention");
    own->n_parts = parallel_parts();
    if (l->spec->attention.rope <= 0)
        return 0;
    own->cosine = cosine = zeros_new(2 * z.time * half);
    if (!cosine)
        return err_set(e, ERR_NOMEM, "no memory for the angles of %zu steps", z.time);
    for (size_t t = 0; t < z.time; t++)
        for (size_t k = 0; k < half; k++) {
            double angle = (double)t * pow((double)l->spec->attention.rope, -2.0 * (double)k / (double)z.e);

            cosine[t * half + k] = (float)cos(angle);
            cosine[(z.time + t) * half + k] = (float)sin(angle);
        }
    return 0;
}

/* Rotates the queries and keys of qkv (rows, 3 d), whose first row is of step t; `sign` -1 rotates back. */
FAST static void rotate_heads(float *restrict qkv, size_t rows, size_t t, const struct attention_size *z,
                              const float *restrict cosine, float sign)
{
    const size_t half = z->e / 2;
    const float *restrict sine = cosine + z->time * half;

    for (size_t row = t; row < t + rows; row++, qkv += 3 * z->d) {
        const size_t at = row % z->time * half;

        for (size_t h = 0; h < 2 * z->d; h += z->e)
            for (size_t k = 0; k < half; k++) {
                float a = qkv[h + k], b = qkv[h + half + k], s = sign * sine[at + k];

                qkv[h + k] = a * cosine[at + k] - b * s;
                qkv[h + half + k] = b * cosine[at + k] + a * s;
            }
    }
}

/* y (n, out) = x (n, in) w + b; b may be NULL. */
static void project(float *y, const float *x, const float *w, const float *b, size_t n, size_t in, size_t out)
{
    if (b)
        matmul_repeat_row(y, b, n, out);
    matmul(false, false, (int)n, (int)out, (int)in, x, w, b ? 1 : 0, y);
}

static void project_back(const float *x, const float *dy, float *dw, float *db, size_t n, size_t in,
                         size_t out)
{
    matmul(true, false, (int)in, (int)out, (int)n, x, dy, 0, dw);
    if (db) {
        memset(db, 0, out * sizeof *db);
        matmul_add_rows(db, dy, n, out);
    }
}

/* to (e, wide) = the transpose of `from`, (time, e) with rows `apart`; 0 behind it. */
static void turn(float *to, const float *from, size_t apart, const struct attention_size *z)
{
    const size_t rows = z->time / TRANSPOSE_ROWS * TRANSPOSE_ROWS,
                 cols = z->e / TRANSPOSE_COLS * TRANSPOSE_COLS;

    transpose(to, z->wide, from, apart, rows, cols);
    for (size_t p = 0; p < z->e; p++) {
        for (size_t t = p < cols ? rows : 0; t < z->time; t++)
            to[p * z->wide + t] = from[t * apart + p];
        for (size_t t = z->time; t < z->wide; t++)
            to[p * z->wide + t] = 0;
    }
}

static inline float sum_of_lanes(const float lane[STRIP_COLS])
{
    float sum = 0;

    for (size_t q = 0; q < STRIP_COLS; q++)
        sum += lane[q];
    return sum;
}

/* Of n values, a multiple of STRIP_COLS. */
static inline float largest_of(const float *s, size_t n)
{
    float lane[STRIP_COLS], top;

    memcpy(lane, s, sizeof lane);
    for (size_t k = STRIP_COLS; k < n; k += STRIP_COLS)
        for (size_t q = 0; q < STRIP_COLS; q++)
            lane[q] = s[k + q] > lane[q] ? s[k + q] : lane[q];
    top = lane[0];
    for (size_t q = 1; q < STRIP_COLS; q++)
        top = lane[q] > top ? lane[q] : top;
    return top;
}

/* The softmax of `scale` times the first t + 1 values of each row t; the others become 0. */
FAST static void softmax_rows(float *restrict s, const struct attention_size *z, float scale)
{
    for (size_t t = 0; t < z->time; t++, s += z->wide) {
        const size_t whole = (t + STRIP_COLS) / STRIP_COLS * STRIP_COLS;
        float lane[STRIP_COLS] = {0}, top, share;

        for (size_t k = t + 1; k < whole; k++)
            s[k] = -FLT_MAX;
        top = largest_of(s, whole);
        for (size_t k = 0; k < whole; k++)
            s[k] = exp_f32((s[k] - top) * scale);
        memset(s + t + 1, 0, (z->wide - t - 1) * sizeof *s);
        for (size_t k = 0; k < whole; k += STRIP_COLS)
            for (size_t q = 0; q < STRIP_COLS; q++)
                lane[q] += s[k + q];
        share = 1 / sum_of_lanes(lane);
        for (size_t k = 0; k < whole; k++)
            s[k] *= share;
    }
}

/* dp = p * (dp - sum of p * dp) * scale for each row; 0 where p is. */
FAST static void softmax_rows_back(float *restrict dp, const float *restrict p,
                                   const struct attention_size *z, float scale)
{
    for (size_t t = 0; t < z->time; t++, dp += z->wide, p += z->wide) {
        float lane[STRIP_COLS] = {0}, along;
        size_t whole = (t + STRIP_COLS) / STRIP_COLS * STRIP_COLS;

        for (size_t k = 0; k < whole; k += STRIP_COLS)
            for (size_t q = 0; q < STRIP_COLS; q++)
                lane[q] += p[k + q] * dp[k + q];
        along = sum_of_lanes(lane);
        for (size_t k = 0; k < whole; k++)
            dp[k] = p[k] * (dp[k] - along) * scale;
        memset(dp + whole, 0, (z->wide - whole) * sizeof *dp);
    }
}

/* The addresses of one head of one sample. */
struct attention_head {
    float *q, *k, *v, *o, *p;
    float *dp, *dq, *across, *dropped; /* of part `part` of the loop */
};

static struct attention_head head_at(const struct attention_size *z, const struct attention_space *at,
                                     float *work, size_t i, size_t h, int part)
{
    const struct attention_scratch in = attention_scratch_of(z);
    float *q = work + at->qkv + i * z->time * 3 * z->d + h * z->e;
    float *scratch = work + at->scratch + (size_t)part * in.end;

    return (struct attention_head){.q = q,
                                   .k = q + z->d,
                                   .v = q + 2 * z->d,
                                   .o = work + at->o + i * z->time * z->d + h * z->e,
                                   .p = work + at->p + (i * z->heads + h) * z->time * z->wide,
                                   .dp = scratch + in.dp,
                                   .dq = scratch + in.dq,
                                   .across = scratch + in.across,
                                   .dropped = scratch + in.dropped};
}

/* m = p * m; if dp is not NULL, dp = dp * m. */
FAST static void drop_weights(float *restrict m, const float *restrict p, float *restrict dp, size_t n)
{
    for (size_t i = 0; dp && i < n; i++)
        dp[i] *= m[i];
    for (size_t i = 0; i < n; i++)
        m[i] *= p[i];
}

/* r: NULL: drops nothing. */
static void head_forward(const struct attention_size *z, const struct attention_head *g, struct rng *r)
{
    const size_t t = z->time, apart = 3 * z->d;
    const float *p = g->p;

    turn(g->across, g->k, apart, z);
    strip_matmul(STRIP_C_LOWER, t, z->wide, z->e, (struct strip_operand){g->q, apart, 1},
                 (struct strip_operand){g->across, z->wide, 1}, g->p, z->wide);
    softmax_rows(g->p, z, 1 / sqrtf((float)z->e));
    if (r) {
        dropout_mask(g->dropped, t * z->wide, z->dropout, r);
        drop_weights(g->dropped, g->p, NULL, t * z->wide);
        p = g->dropped;
    }
    strip_matmul(STRIP_A_LOWER, t, z->e, t, (struct strip_operand){p, z->wide, 1},
                 (struct strip_operand){g->v, apart, 1}, g->o, z->d);
}

/* g->o has dO. */
static void head_backward(const struct attention_size *z, const struct attention_head *g, struct rng *r)
{
    const size_t t = z->time, apart = 3 * z->d;
    const float *p = g->p;

    turn(g->across, g->v, apart, z);
    strip_matmul(STRIP_C_LOWER, t, z->wide, z->e, (struct strip_operand){g->o, z->d, 1},
                 (struct strip_operand){g->across, z->wide, 1}, g->dp, z->wide);
    if (r) {
        dropout_mask(g->dropped, t * z->wide, z->dropout, r);
        drop_weights(g->dropped, g->p, g->dp, t * z->wide);
        p = g->dropped;
    }
    strip_matmul(STRIP_A_UPPER, t, z->e, t, (struct strip_operand){p, 1, z->wide},
                 (struct strip_operand){g->o, z->d, 1}, g->v, apart);
    softmax_rows_back(g->dp, g->p, z, 1 / sqrtf((float)z->e));
    strip_matmul(STRIP_A_LOWER, t, z->e, t, (struct strip_operand){g->dp, z->wide, 1},
                 (struct strip_operand){g->k, apart, 1}, g->dq, z->e);
    strip_matmul(STRIP_A_UPPER, t, z->e, t, (struct strip_operand){g->dp, 1, z->wide},
                 (struct strip_operand){g->q, apart, 1}, g->k, apart);
    for (size_t i = 0; i < t; i++)
        memcpy(g->q + i * apart, g->dq + i * z->e, z->e * sizeof *g->dq);
}

struct heads_pass {
    const struct attention_size *z;
    const struct attention_space *at;
    float *work;
    uint64_t seed; /* of dropout: each head of each sample draws from a stream of its own */
    bool drops;
    void (*head)(const struct attention_size *z, const struct attention_head *g, struct rng *r);
};

static void heads_part(void *arg, int part, size_t from, size_t to)
{
    const struct heads_pass *pass = arg;

    for (size_t k = from; k < to; k++) {
        const struct attention_head g = head_at(pass->z, pass->at, pass->work, k / pass->z->heads,
                                                k % pass->z->heads, part);
        struct rng r;

        if (pass->drops)
            rng_init(&r, pass->seed, k, 0);
        pass->head(pass->z, &g, pass->drops ? &r : NULL);
    }
}

/* Calls `head` for each head of each sample. */
static void for_each_head(const struct layer *l, const struct pass *p, const struct attention_size *z,
                          const struct attention_space *at,
                          void (*head)(const struct attention_size *z, const struct attention_head *g,
                                       struct rng *r))
{
    const struct attention_own *own = l->own;
    struct heads_pass pass = {
        .z = z, .at = at, .work = l->work, .drops = p->is_training && z->dropout > 0, .head = head};
    struct rng r;

    if (pass.drops) {
        rng_init(&r, p->seed, p->stream, (uint64_t)l->index);
        pass.seed = rng_u64(&r);
    }
    parallel_for((size_t)p->n * z->heads, own->n_parts, heads_part, &pass);
}

struct rotate_pass {
    const struct attention_size *z;
    float *qkv;
    const float *cosine;
    float sign;
};

static void rotate_part(void *arg, int part, size_t from, size_t to)
{
    const struct rotate_pass *pass = arg;

    (void)part;
    rotate_heads(pass->qkv + from * 3 * pass->z->d, to - from, from, pass->z, pass->cosine, pass->sign);
}

/* Rotates all rows, if there is rope. */
static void rotate_rows(const struct layer *l, float *qkv, size_t rows, const struct attention_size *z,
                        float sign)
{
    const struct attention_own *own = l->own;

    if (own->cosine)
        parallel_for_values(rows, rows * 2 * z->d, rotate_part,
                            &(struct rotate_pass){z, qkv, own->cosine, sign});
}

static void attention_forward(const struct layer *l, const float *x, const struct pass *p)
{
    const struct attention_size z = attention_size_of(l->spec);
    const struct attention_space at = attention_space_of(&z, (size_t)p->n,
                                                         ((const struct attention_own *)l->own)->n_parts);
    const struct attention_tensors w = tensors_of(l->spec, l->params);
    const size_t rows = (size_t)p->n * z.time;

    project(l->work + at.qkv, x, w.weight, w.bias, rows, z.d, 3 * z.d);
    rotate_rows(l, l->work + at.qkv, rows, &z, 1);
    for_each_head(l, p, &z, &at, head_forward);
    project(l->y, l->work + at.o, w.output_weight, w.output_bias, rows, z.d, z.d);
}

static void attention_backward(const struct layer *l, const float *x, float *dy, float *dx,
                               const struct pass *p)
{
    const struct attention_size z = attention_size_of(l->spec);
    const struct attention_space at = attention_space_of(&z, (size_t)p->n,
                                                         ((const struct attention_own *)l->own)->n_parts);
    const struct attention_tensors w = tensors_of(l->spec, l->params), dw = tensors_of(l->spec, l->grads);
    const size_t rows = (size_t)p->n * z.time;
    float *qkv = l->work + at.qkv, *o = l->work + at.o;

    project_back(o, dy, dw.output_weight, dw.output_bias, rows, z.d, z.d);
    matmul(false, true, (int)rows, (int)z.d, (int)z.d, dy, w.output_weight, 0, o);
    pass_pause(p);
    for_each_head(l, p, &z, &at, head_backward);
    rotate_rows(l, qkv, rows, &z, -1);
    pass_pause(p);
    project_back(x, qkv, dw.weight, dw.bias, rows, z.d, 3 * z.d);
    if (dx)
        matmul(false, true, (int)rows, (int)z.d, (int)(3 * z.d), qkv, w.weight, 0, dx);
}

/* o (e) = softmax(q K^T / sqrt(e)) V of n steps, with the scores s (n). */
FAST static void head_step(const struct attention_size *z, const struct attention_head *g, size_t n,
                           float *restrict s)
{
    const float *q = g->q + (n - 1) * 3 * z->d;
    const float scale = sqrtf((float)z->e); /* times a mean of e products: their sum / sqrt(e) */
    float *restrict o = g->o + (n - 1) * z->d;
    float top = -FLT_MAX, sum = 0;

    for (size_t i = 0; i < n; i++) {
        s[i] = row_mean_product(q, g->k + i * 3 * z->d, z->e) * scale;
        top = s[i] > top ? s[i] : top;
    }
    for (size_t i = 0; i < n; i++) {
        s[i] = exp_f32(s[i] - top);
        sum += s[i];
    }
    memset(o, 0, z->e * sizeof *o);
    for (size_t i = 0; i < n; i++) {
        const float *restrict v = g->v + i * 3 * z->d;
        const float share = s[i] / sum;

        for (size_t k = 0; k < z->e; k++)
            o[k] += share * v[k];
    }
}

/* Queries, keys and values of the steps before are in `work`. */
static void attention_step(const struct layer *l, const float *x, int t)
{
    const struct attention_own *own = l->own;
    const struct attention_size z = attention_size_of(l->spec);
    const struct attention_space at = attention_space_of(&z, 1, own->n_parts);
    const struct attention_tensors w = tensors_of(l->spec, l->params);
    const size_t row = (size_t)t;
    float *qkv = l->work + at.qkv + row * 3 * z.d;

    project(qkv, x, w.weight, w.bias, 1, z.d, 3 * z.d);
    if (own->cosine)
        rotate_heads(qkv, 1, row, &z, own->cosine, 1);
    for (size_t h = 0; h < z.heads; h++) {
        const struct attention_head g = head_at(&z, &at, l->work, 0, h, 0);

        head_step(&z, &g, row + 1, g.dp);
    }
    project(l->y + row * z.d, l->work + at.o + row * z.d, w.output_weight, w.output_bias, 1, z.d, z.d);
}

const struct layer_ops layer_attention = {.work = attention_work,
                                          .open = attention_open,
                                          .close = attention_close,
                                          .forward = attention_forward,
                                          .backward = attention_backward,
                                          .step = attention_step};
