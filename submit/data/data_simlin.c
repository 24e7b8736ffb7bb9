/* SimLin, the linear simulator of Parallel-SGD: x U(0, 10), y = x w + b with w U(0, 1 / (in out)) and b
 * N(0, 0.1), so that a linear model can reach a loss of 0. Generated from the seed alone. */
#include <stdlib.h>

#include "shared/rng.h"
#include "submit/data/data_sets.h"

enum { DRAW_WEIGHTS, DRAW_SAMPLE };

struct simlin_options {
    int train, test, in, out;
    uint64_t seed;
};

static const struct json_field fields[] = {
    {"train", JSON_FIELD_INT, JSON_AT(struct simlin_options, train), .min = 1, .max = 1e7},
    {"test", JSON_FIELD_INT, JSON_AT(struct simlin_options, test), .min = 1, .max = 1e7},
    {"in", JSON_FIELD_INT, JSON_AT(struct simlin_options, in), .min = 1, .max = 65536},
    {"out", JSON_FIELD_INT, JSON_AT(struct simlin_options, out), .min = 1, .max = 65536},
    {"seed", JSON_FIELD_U64, JSON_AT(struct simlin_options, seed), .required = false},
    {0},
};

enum { VALUES_MAX = 1 << 29 }; /* in all samples: 2 GiB */

/* w (out, in), b (out) */
static void draw_weights(float *w, float *b, const struct simlin_options *o)
{
    float bound = 1.0f / ((float)o->in * (float)o->out);
    struct rng r;

    rng_init(&r, o->seed, DRAW_WEIGHTS, 0);
    for (size_t i = 0; i < (size_t)o->in * (size_t)o->out; i++)
        w[i] = bound * rng_uniform(&r);
    for (int k = 0; k < o->out; k++)
        b[k] = 0.1f * rng_normal(&r);
}

/* Draws samples first .. first + n - 1 of the stream; sums are in double. */
static void draw(float *x, float *t, size_t n, size_t first, const float *w, const float *b,
                 const struct simlin_options *o)
{
    size_t in = (size_t)o->in;
    size_t out = (size_t)o->out;

    for (size_t i = 0; i < n; i++, x += in, t += out) {
        struct rng r;

        rng_init(&r, o->seed, DRAW_SAMPLE, first + i);
        for (size_t j = 0; j < in; j++)
            x[j] = 10 * rng_uniform(&r);
        for (size_t k = 0; k < out; k++) {
            double sum = b[k];

            for (size_t j = 0; j < in; j++)
                sum += (double)x[j] * (double)w[k * in + j];
            t[k] = (float)sum;
        }
    }
}

int simlin_open(struct dataset *d, const char *arg, const char *path, struct err *e)
{
    struct simlin_options o = {.train = 50000, .test = 10000, .in = 1024, .out = 1, .seed = 1};
    float *w, *b;
    size_t in, out;

    (void)path;
    if (data_options(&o, fields, NULL, arg, e) < 0)
        return e->code;
    in = (size_t)o.in;
    out = (size_t)o.out;
    if (((size_t)o.train + (size_t)o.test) * (in + out) + in * out > VALUES_MAX)
        return err_set(e, ERR_CONFIG, "%d + %d samples of %d + %d values: more than %d values", o.train,
                       o.test, o.in, o.out, VALUES_MAX);
    *d = (struct dataset){.n_train = (size_t)o.train,
                          .n_test = (size_t)o.test,
                          .shape = {.n_dims = 1, .dim = {o.in}},
                          .x_type = TENSOR_F32,
                          .n_targets = o.out};
    w = malloc(in * out * sizeof *w);
    b = malloc(out * sizeof *b);
    d->train_x = malloc(d->n_train * in * sizeof(float));
    d->train_t = malloc(d->n_train * out * sizeof(float));
    d->test_x = malloc(d->n_test * in * sizeof(float));
    d->test_t = malloc(d->n_test * out * sizeof(float));
    if (w && b && d->train_x && d->train_t && d->test_x && d->test_t) {
        draw_weights(w, b, &o);
        draw(d->train_x, d->train_t, d->n_train, 0, w, b, &o);
        draw(d->test_x, d->test_t, d->n_test, d->n_train, w, b, &o);
        e->code = 0;
    } else {
        dataset_clear(d);
        err_set(e, ERR_NOMEM, "no memory for %d + %d samples", o.train, o.test);
    }
    free(w);
    free(b);
    return e->code;
}
