#include "nn/loss.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "nn/kernels/parallel.h"
#include "nn/kernels/vecmath.h"
#include "shared/base/compiler.h"

enum {
    /* Outputs whose exponentials are computed in one loop: single rows are often shorter than a vector. */
    CHUNK = 1024,
    LANES = 8,
    WIDE_LANES = 16,
    PRODUCT = 32, /* values multiplied before one logarithm is taken */
    BLOCKS = 16   /* of rows, with a sum each: it does not depend on the number of threads */
};

static inline float larger_of(float a, float b)
{
    return b > a ? b : a;
}

/* By lanes, which do not wait for each other. */
static inline float largest_value(const float *z, int k)
{
    float lane[WIDE_LANES], top = z[0];
    int j = 0;

    if (k >= WIDE_LANES)
        memcpy(lane, z, sizeof lane);
    for (; j + WIDE_LANES <= k; j += WIDE_LANES)
        for (int q = 0; q < WIDE_LANES; q++)
            lane[q] = larger_of(lane[q], z[j + q]);
    for (int q = 0; j > 0 && q < WIDE_LANES; q++)
        top = larger_of(top, lane[q]);
    for (; j < k; j++)
        top = larger_of(top, z[j]);
    return top;
}

static inline float sum_of(const float *e, int k)
{
    float lane[LANES] = {0};
    float sum = 0;
    int j = 0;

    for (; j + LANES <= k; j += LANES)
        for (int q = 0; q < LANES; q++)
            lane[q] += e[j + q];
    for (; j < k; j++)
        sum += e[j];
    for (int q = 0; q < LANES; q++)
        sum += lane[q];
    return sum;
}

/* e = e^(z - top of the row) for n rows of k, and the rows' sums. e may not be z. */
FAST static void exp_rows(float *restrict e, const float *restrict z, int n, int k, float *restrict top,
                          float *restrict sum)
{
    for (int i = 0; i < n; i++) {
        top[i] = largest_value(z + i * k, k);
        for (int j = 0; j < k; j++)
            e[i * k + j] = z[i * k + j] - top[i];
    }
    for (int q = 0; q < n * k; q++)
        e[q] = exp_f32(e[q]);
    for (int i = 0; i < n; i++)
        sum[i] = sum_of(e + i * k, k);
}

/* The same for one row, in chunks: the exponentials themselves are not needed. */
FAST static void exp_wide_row(const float *restrict z, int k, float *restrict top, float *restrict sum)
{
    float e[CHUNK];

    *top = largest_value(z, k);
    *sum = 0;
    for (int start = 0; start < k; start += CHUNK) {
        int n = k - start < CHUNK ? k - start : CHUNK;

        for (int j = 0; j < n; j++)
            e[j] = exp_f32(z[start + j] - *top);
        *sum += sum_of(e, n);
    }
}

FAST static void scale(float *restrict v, float by, size_t n)
{
    for (size_t i = 0; i < n; i++)
        v[i] *= by;
}

/* Returns the sum of the logarithms of n numbers between 1 and 2^24 (the width of a layer). The product of
 * PRODUCT of them is at most 2^768. */
static double sum_of_logs(const float *v, int n)
{
    double sum = 0;

    for (int i = 0; i < n; i += PRODUCT) {
        double product = 1;

        for (int j = i; j < n && j < i + PRODUCT; j++)
            product *= (double)v[j];
        sum += log(product);
    }
    return sum;
}

struct rows_pass { /* over n rows of k outputs, in blocks */
    const float *z;
    const int32_t *labels;
    int n, k;
    float *dz; /* may be NULL */
    double loss[BLOCKS];
    size_t n_right[BLOCKS];
};

/* The first row of a block. */
static int block_start(const struct rows_pass *pass, size_t block)
{
    return (int)((size_t)pass->n * block / BLOCKS);
}

/* Returns the loss of rows first .. stop - 1. */
static double softmax_rows(const struct rows_pass *pass, int first, int stop)
{
    const float *z = pass->z, share = 1 / (float)pass->n;
    const int k = pass->k, at_once = k < CHUNK ? CHUNK / k : 1;
    float chunk[CHUNK], top[CHUNK], sum[CHUNK];
    double loss = 0;

    for (int i = first; i < stop; i += at_once) {
        int rows = stop - i < at_once ? stop - i : at_once;
        const float *z_i = z + (size_t)i * (size_t)k;
        float *e = pass->dz ? pass->dz + (size_t)i * (size_t)k : chunk;

        if (!pass->dz && k > CHUNK)
            exp_wide_row(z_i, k, top, sum);
        else
            exp_rows(e, z_i, rows, k, top, sum);
        loss += sum_of_logs(sum, rows);
        for (int r = 0; r < rows; r++) {
            size_t at = (size_t)r * (size_t)k;
            size_t label = at + (size_t)pass->labels[i + r];

            loss += (double)top[r] - (double)z_i[label];
            if (pass->dz) {
                scale(e + at, share / sum[r], (size_t)k);
                e[label] -= share;
            }
        }
    }
    return loss;
}

static void softmax_blocks(void *arg, int part, size_t from, size_t to)
{
    struct rows_pass *pass = arg;

    (void)part;
    for (size_t block = from; block < to; block++)
        pass->loss[block] = softmax_rows(pass, block_start(pass, block), block_start(pass, block + 1));
}

/* log sum e^(z - max) + max - z_label: with the largest output subtracted no exponential overflows, and the
 * sum is at least 1. dz = (softmax(z) - one-hot) / n. */
static double softmax_cross_entropy(const float *z, const struct truth *t, int n, int k, float *dz)
{
    struct rows_pass pass = {.z = z, .labels = t->labels, .n = n, .k = k, .dz = dz};
    double loss = 0;

    parallel_for_values(BLOCKS, (size_t)n * (size_t)k, softmax_blocks, &pass);
    for (int block = 0; block < BLOCKS; block++)
        loss += pass.loss[block];
    return loss;
}

/* The target of output j of sample i. */
static inline float target_of(const struct truth *t, size_t i, int j, int k)
{
    return k == 1 ? (float)t->labels[i] : (float)(t->labels[i] == j);
}

/* A loss of single outputs, for up to CHUNK of them: returns the loss of z with targets y, writes dz times
 * `share`. */
typedef double (*chunk_fn)(const float *z, const float *y, int n, float *dz, float share);

static double in_chunks(chunk_fn chunk, const float *z, const struct truth *t, size_t n, int k, float *dz,
                        float share)
{
    float y[CHUNK], spare[CHUNK];
    double loss = 0;
    size_t sample = 0;
    int j = 0;

    for (size_t at = 0; at < n; at += CHUNK) {
        int m = n - at < CHUNK ? (int)(n - at) : CHUNK;

        for (int q = 0; t->labels && q < m; q++) {
            y[q] = target_of(t, sample, j, k);
            if (++j == k) {
                j = 0;
                sample++;
            }
        }
        loss += chunk(z + at, t->labels ? y : t->targets + at, m, dz ? dz + at : spare, share);
    }
    return loss;
}

/* Pads v with zeros to whole lanes. Returns the padded length. */
static inline int padded(float *v, int n)
{
    for (; n % LANES != 0; n++)
        v[n] = 0;
    return n;
}

/* -y log s(z) - (1 - y) log(1 - s(z)) = max(z, 0) - y z + log(1 + e^-|z|). dz = (s(z) - y) / n Takes
 * logarithms of products of CHUNK / LANES factors, each at most 2. */
FAST static double sigmoid_chunk(const float *restrict z, const float *restrict y, int n, float *restrict dz,
                                 float share)
{
    double linear[LANES] = {0}, product[LANES];
    float e[CHUNK], rest[CHUNK];
    double sum = 0;

    for (int q = 0; q < n; q++)
        e[q] = exp_f32(z[q] < 0 ? z[q] : -z[q]);
    for (int q = 0; q < n; q++) {
        rest[q] = (z[q] < 0 ? 0 : z[q]) - y[q] * z[q];
        dz[q] = ((z[q] < 0 ? e[q] : 1) / (1 + e[q]) - y[q]) * share;
    }
    for (int q = 0; q < LANES; q++)
        product[q] = 1;
    padded(e, n);
    n = padded(rest, n);
    for (int at = 0; at < n; at += LANES)
        for (int q = 0; q < LANES; q++) {
            product[q] *= 1 + (double)e[at + q];
            linear[q] += (double)rest[at + q];
        }
    for (int q = 0; q < LANES; q++)
        sum += linear[q] + log(product[q]);
    return sum;
}

static double sigmoid_cross_entropy(const float *z, const struct truth *t, int n, int k, float *dz)
{
    return in_chunks(sigmoid_chunk, z, t, (size_t)n * (size_t)k, k, dz, 1 / (float)n);
}

/* v has room for whole lanes. */
static inline double sum_of_squares(float *v, int n)
{
    double lane[LANES] = {0};
    double sum = 0;

    n = padded(v, n);
    for (int at = 0; at < n; at += LANES)
        for (int q = 0; q < LANES; q++)
            lane[q] += (double)v[at + q] * (double)v[at + q];
    for (int q = 0; q < LANES; q++)
        sum += lane[q];
    return sum;
}

FAST static double square_chunk(const float *restrict z, const float *restrict y, int n, float *restrict dz,
                                float share)
{
    float off[CHUNK];

    for (int q = 0; q < n; q++) {
        off[q] = z[q] - y[q];
        dz[q] = 2 * off[q] * share;
    }
    return sum_of_squares(off, n);
}

/* 1/k sum_j (z_j - y_j)^2.  dz = 2 (z - y) / (k n) */
static double mse(const float *z, const struct truth *t, int n, int k, float *dz)
{
    return in_chunks(square_chunk, z, t, (size_t)n * (size_t)k, k, dz, 1 / ((float)k * (float)n)) / k;
}

/* An infinite output is as wrong as a NaN: tanh would bound it, so 0 x d = NaN is added. */
FAST static double tanh_chunk(const float *restrict z, const float *restrict y, int n, float *restrict dz,
                              float share)
{
    float t[CHUNK];

    for (int q = 0; q < n; q++) {
        float d = z[q] - y[q];

        t[q] = tanh_f32(d) + 0 * d;
        dz[q] = 2 * t[q] * (1 - t[q] * t[q]) * share;
    }
    return sum_of_squares(t, n);
}

/* 1/k sum_j tanh(z_j - y_j)^2.  dz = 2 t (1 - t^2) / (k n), t = tanh(z - y) */
static double tanh_squared(const float *z, const struct truth *t, int n, int k, float *dz)
{
    return in_chunks(tanh_chunk, z, t, (size_t)n * (size_t)k, k, dz, 1 / ((float)k * (float)n)) / k;
}

static double (*const losses[N_LOSS_KINDS])(const float *z, const struct truth *t, int n, int k,
                                            float *dz) = {
    [LOSS_SOFTMAX_CROSS_ENTROPY] = softmax_cross_entropy,
    [LOSS_SIGMOID_CROSS_ENTROPY] = sigmoid_cross_entropy,
    [LOSS_MSE] = mse,
    [LOSS_TANH_SQUARED] = tanh_squared,
    [LOSS_TOKEN_CROSS_ENTROPY] = softmax_cross_entropy,
};

/* Counts the outputs that rank before the label's: larger ones, equal ones with a smaller index, and pairs
 * with a NaN. Without branches, which would not be predictable. */
FAST int loss_rank(const float *z, int k, int label)
{
    const float own = z[label];
    int rank = 0;

    for (int j = 0; j < label; j++)
        rank += !(z[j] < own);
    for (int j = label + 1; j < k; j++)
        rank += !(z[j] <= own);
    return rank;
}

int loss_class(enum loss_kind kind, const float *z, int k)
{
    int best = 0;

    if (k == 1)
        return z[0] > (kind == LOSS_MSE || kind == LOSS_TANH_SQUARED ? 0.5f : 0);
    for (int j = 1; j < k; j++)
        if (z[j] > z[best])
            best = j;
    return best;
}

static void softmax(float *p, const float *z, int k)
{
    float top = z[0];
    float sum = 0;

    for (int j = 1; j < k; j++)
        top = z[j] > top ? z[j] : top;
    for (int j = 0; j < k; j++)
        sum += p[j] = exp_f32(z[j] - top);
    for (int j = 0; j < k; j++)
        p[j] /= sum;
}

static void logistic(float *p, const float *z, int k)
{
    for (int j = 0; j < k; j++)
        p[j] = logistic_f32(z[j]);
}

static void identity(float *p, const float *z, int k)
{
    memcpy(p, z, (size_t)k * sizeof *p);
}

static void (*const predictions[N_LOSS_KINDS])(float *p, const float *z, int k) = {
    [LOSS_SOFTMAX_CROSS_ENTROPY] = softmax, [LOSS_SIGMOID_CROSS_ENTROPY] = logistic, [LOSS_MSE] = identity,
    [LOSS_TANH_SQUARED] = identity,         [LOSS_TOKEN_CROSS_ENTROPY] = softmax,
};

void loss_prediction(enum loss_kind kind, float *p, const float *z, int k)
{
    predictions[kind](p, z, k);
}

static void count_right(void *arg, int part, size_t from, size_t to)
{
    struct rows_pass *pass = arg;
    const int k = pass->k;

    (void)part;
    for (size_t block = from; block < to; block++)
        for (int i = block_start(pass, block); i < block_start(pass, block + 1); i++)
            pass->n_right[block] += loss_rank(pass->z + (size_t)i * (size_t)k, k, pass->labels[i]) == 0;
}

double loss_of(enum loss_kind kind, const float *z, const struct truth *t, int n, int k, float *dz,
               size_t *n_right)
{
    struct rows_pass pass = {.z = z, .labels = t->labels, .n = n, .k = k};

    for (int i = 0; t->labels && i < n; i++)
        assert(t->labels[i] >= 0 && t->labels[i] < (k == 1 ? 2 : k));
    for (int i = 0; t->labels && k == 1 && i < n; i++)
        *n_right += loss_class(kind, z + i, 1) == t->labels[i];
    if (t->labels && k > 1)
        parallel_for_values(BLOCKS, (size_t)n * (size_t)k, count_right, &pass);
    for (int block = 0; block < BLOCKS; block++)
        *n_right += pass.n_right[block];
    return losses[kind](z, t, n, k, dz);
}
