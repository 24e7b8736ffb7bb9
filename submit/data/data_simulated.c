/* The simulators of Parallel-SGD, generated from the seed alone: inputs x U(0, 10), and targets that are a
 * known function of them.
 *
 *   simlin   y = x w + b with w U(0, 1 / (in out)) and b N(0, 0.1): a linear model can reach a loss of 0
 *   simsin   y = amplitude sin(2 pi x / period), of each input separately. Parallel-SGD's simulator has
 *            an amplitude of 2, which its samples do not have
 *
 * To both may be added, in both halves, noise N(0, noise^2), and to a fraction `spikes` of the targets
 * `spike`, with either sign or with sides=one upwards. */
#include <math.h>
#include <stdlib.h>

#include "shared/base/rng.h"
#include "submit/data/data_sets.h"

enum { DRAW_WEIGHTS, DRAW_SAMPLE, DRAW_NOISE };
enum { VALUES_MAX = 1 << 29 }; /* in all samples: 2 GiB */

#define SIDES_CHOICES "both|one"
enum sides { BOTH_SIDES, ONE_SIDE };

struct simulator {
    int train, test, in, out;
    double noise, spikes, spike, amplitude, period;
    enum sides sides;
    uint64_t seed;
    size_t n_weights;
    float *weights; /* of simlin: w (out, in), b (out) */
    void (*targets)(float *t, const float *x, const struct simulator *s);
};

#define AT(member) JSON_AT(struct simulator, member)
/* clang-format off */
#define COMMON_FIELDS \
    {"train", JSON_FIELD_INT, AT(train), .min = 1, .max = 1e7}, \
    {"test", JSON_FIELD_INT, AT(test), .min = 1, .max = 1e7}, \
    {"in", JSON_FIELD_INT, AT(in), .min = 1, .max = 65536}, \
    {"noise", JSON_FIELD_DOUBLE, AT(noise), .min = 0, .max = 1e6}, \
    {"spikes", JSON_FIELD_DOUBLE, AT(spikes), .min = 0, .max = 1}, \
    {"spike", JSON_FIELD_DOUBLE, AT(spike), .min = 0, .max = 1e6}, \
    {"sides", JSON_FIELD_CHOICE, AT(sides), .choices = SIDES_CHOICES}, \
    {"seed", JSON_FIELD_U64, AT(seed)}
/* clang-format on */

static const struct json_field linear_fields[] = {
    COMMON_FIELDS,
    {"out", JSON_FIELD_INT, AT(out), .min = 1, .max = 65536},
    {0},
};
static const struct json_field sine_fields[] = {
    COMMON_FIELDS,
    {"amplitude", JSON_FIELD_DOUBLE, AT(amplitude), .min = 1e-6, .max = 1e6},
    {"period", JSON_FIELD_DOUBLE, AT(period), .min = 1e-6, .max = 1e6},
    {0},
};

static void draw_weights(const struct simulator *s)
{
    float bound = 1.0f / ((float)s->in * (float)s->out);
    size_t n_w = (size_t)s->in * (size_t)s->out;
    struct rng r;

    rng_init(&r, s->seed, DRAW_WEIGHTS, 0);
    for (size_t i = 0; i < s->n_weights; i++)
        s->weights[i] = i < n_w ? bound * rng_uniform(&r) : 0.1f * rng_normal(&r);
}

/* Sums are in double. */
static void linear(float *t, const float *x, const struct simulator *s)
{
    size_t in = (size_t)s->in, out = (size_t)s->out;
    const float *b = s->weights + in * out;

    for (size_t k = 0; k < out; k++) {
        double sum = b[k];

        for (size_t j = 0; j < in; j++)
            sum += (double)x[j] * (double)s->weights[k * in + j];
        t[k] = (float)sum;
    }
}

static void sine(float *t, const float *x, const struct simulator *s)
{
    for (int k = 0; k < s->out; k++)
        t[k] = (float)(s->amplitude * sin(2 * M_PI / s->period * (double)x[k]));
}

/* From a stream of its own: with noise, inputs and the rest of the targets are the same as without. */
static void add_noise(float *t, size_t sample, const struct simulator *s)
{
    struct rng r;

    rng_init(&r, s->seed, DRAW_NOISE, sample);
    for (int k = 0; k < s->out; k++) {
        double noise = s->noise * (double)rng_normal(&r);
        bool is_spike = (double)rng_uniform(&r) < s->spikes, is_up = rng_below(&r, 2) || s->sides == ONE_SIDE;

        if (is_spike)
            noise += is_up ? s->spike : -s->spike;
        t[k] = (float)((double)t[k] + noise);
    }
}

/* Draws samples first .. first + n - 1 of the stream. */
static void draw_samples(float *x, float *t, size_t n, size_t first, const struct simulator *s)
{
    size_t in = (size_t)s->in;

    for (size_t i = first; i < first + n; i++, x += in, t += s->out) {
        struct rng r;

        rng_init(&r, s->seed, DRAW_SAMPLE, i);
        for (size_t j = 0; j < in; j++)
            x[j] = 10 * rng_uniform(&r);
        s->targets(t, x, s);
        if (s->noise > 0 || s->spikes > 0)
            add_noise(t, i, s);
    }
}

static int simulate(struct dataset *d, struct simulator *s, struct err *e)
{
    size_t in = (size_t)s->in, out = (size_t)s->out;

    if (((size_t)s->train + (size_t)s->test) * (in + out) + s->n_weights > VALUES_MAX)
        return err_set(e, ERR_CONFIG, "%d + %d samples of %d + %d values: more than %d values", s->train,
                       s->test, s->in, s->out, VALUES_MAX);
    *d = (struct dataset){.n_train = (size_t)s->train,
                          .n_test = (size_t)s->test,
                          .shape = {.n_dims = 1, .dim = {s->in}},
                          .x_type = TENSOR_F32,
                          .n_targets = s->out};
    s->weights = calloc(s->n_weights + 1, sizeof *s->weights);
    d->train_x = malloc(d->n_train * in * sizeof(float));
    d->train_t = malloc(d->n_train * out * sizeof(float));
    d->test_x = malloc(d->n_test * in * sizeof(float));
    d->test_t = malloc(d->n_test * out * sizeof(float));
    if (s->weights && d->train_x && d->train_t && d->test_x && d->test_t) {
        draw_weights(s);
        draw_samples(d->train_x, d->train_t, d->n_train, 0, s);
        draw_samples(d->test_x, d->test_t, d->n_test, d->n_train, s);
        e->code = 0;
    } else {
        dataset_clear(d);
        err_set(e, ERR_NOMEM, "no memory for %d + %d samples", s->train, s->test);
    }
    free(s->weights);
    return e->code;
}

int simlin_open(struct dataset *d, const char *arg, const char *path, const struct data_use *use,
                struct err *e)
{
    struct simulator s = {
        .train = 50000, .test = 10000, .in = 1024, .out = 1, .spike = 1, .seed = 1, .targets = linear};

    (void)path;
    (void)use;
    if (data_options(&s, linear_fields, NULL, arg, e) < 0)
        return e->code;
    s.n_weights = ((size_t)s.in + 1) * (size_t)s.out;
    return simulate(d, &s, e);
}

int simsin_open(struct dataset *d, const char *arg, const char *path, const struct data_use *use,
                struct err *e)
{
    struct simulator s = {.train = 50000,
                          .test = 10000,
                          .in = 1,
                          .spike = 1,
                          .amplitude = 2,
                          .period = 2 * M_PI,
                          .seed = 1,
                          .targets = sine};

    (void)path;
    (void)use;
    if (data_options(&s, sine_fields, NULL, arg, e) < 0)
        return e->code;
    s.out = s.in;
    return simulate(d, &s, e);
}
