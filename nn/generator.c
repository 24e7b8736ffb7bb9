#include "nn/generator.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "nn/kernels/zeros.h"
#include "shared/base/rng.h"

/* So many steps take about as long as a forward pass of all: a product of a few rows reads the weights as
 * often as one of many. */
enum { STEPS_OF_A_PASS = 4 };

/* "gene": separates these random numbers from others with the same seed. */
static const uint64_t stream_generator = 0x656e6567;

struct choice_of_token {
    float z;
    int token;
};

struct generator {
    struct net *net;
    int time, n_known, vocab, n_outputs;
    struct sampling how;
    struct rng rng;
    float *window;                 /* (time): the end of the text */
    int n, n_done;                 /* tokens there; whose steps are computed */
    struct choice_of_token *order; /* (n_known) */
    double *weight;                /* (n_known) */
};

int generator_new(struct generator **out, struct net *net, const struct model_spec *m, int n_known,
                  const struct sampling *how, struct err *e)
{
    struct generator *g;
    const int vocab = model_spec_vocab(m), n_outputs = model_spec_classes(m);

    if (n_known > vocab || n_known > n_outputs)
        return err_set(e, ERR_CONFIG, "model \"%s\" reads %d tokens and predicts %d, the text has %d",
                       m->name, vocab, n_outputs, n_known);
    g = calloc(1, sizeof *g);
    if (!g)
        goto no_memory;
    *g = (struct generator){
        .net = net, .time = m->n_in, .n_known = n_known, .vocab = vocab, .n_outputs = n_outputs, .how = *how};
    g->window = zeros_new((size_t)g->time);
    g->order = calloc((size_t)n_known, sizeof *g->order);
    g->weight = calloc((size_t)n_known, sizeof *g->weight);
    if (!g->window || !g->order || !g->weight)
        goto no_memory;
    rng_init(&g->rng, how->seed, stream_generator, 0);
    *out = g;
    return 0;
no_memory:
    generator_free(g);
    return err_set(e, ERR_NOMEM, "no memory to draw from %d tokens", n_known);
}

void generator_free(struct generator *g)
{
    if (!g)
        return;
    free(g->window);
    free(g->order);
    free(g->weight);
    free(g);
}

int generator_add(struct generator *g, int token, struct err *e)
{
    if (token < 0 || token >= g->vocab)
        return err_set(e, ERR_CONFIG, "token %d is outside the model's vocabulary, 0 to %d", token,
                       g->vocab - 1);
    if (g->n == g->time) {
        memmove(g->window, g->window + 1, (size_t)(g->time - 1) * sizeof *g->window);
        g->n--;
        g->n_done = 0;
    }
    g->window[g->n++] = (float)token;
    return 0;
}

/* The outputs behind the last token. */
static const float *predict_next(struct generator *g)
{
    const float *z = NULL;

    if (g->n - g->n_done > g->time / STEPS_OF_A_PASS) {
        g->n_done = g->n;
        return net_forward(g->net, g->window, 1) + (size_t)(g->n - 1) * (size_t)g->n_outputs;
    }
    for (; g->n_done < g->n; g->n_done++)
        z = net_step(g->net, g->window, g->n_done);
    return z;
}

static int by_probability(const void *a, const void *b)
{
    const struct choice_of_token *x = a, *y = b;

    return x->z != y->z ? (x->z < y->z) - (x->z > y->z) : (x->token > y->token) - (x->token < y->token);
}

/* The number of the most probable tokens that have `share` of the sum of the first n. */
static int cut_tail(const double *weight, int n, double sum, double share)
{
    double part = 0;
    int k = 0;

    while (k < n && part < share * sum)
        part += weight[k++];
    return k > 0 ? k : 1;
}

static double sum_of(const double *v, int n)
{
    double sum = 0;

    for (int i = 0; i < n; i++)
        sum += v[i];
    return sum;
}

/* From g->order, the most probable token first. */
static int draw_token(struct generator *g)
{
    int n = g->how.top_k > 0 && g->how.top_k < g->n_known ? g->how.top_k : g->n_known;
    double at, sum;

    for (int i = 0; i < n; i++)
        g->weight[i] = exp(((double)g->order[i].z - (double)g->order[0].z) / g->how.temperature);
    if (g->how.top_p < 1)
        n = cut_tail(g->weight, n, sum_of(g->weight, n), g->how.top_p);
    sum = sum_of(g->weight, n);
    at = (double)(rng_u64(&g->rng) >> 11) * 0x1p-53 * sum;
    for (int i = 0; i < n; i++) {
        if (at < g->weight[i])
            return g->order[i].token;
        at -= g->weight[i];
    }
    return g->order[0].token; /* rounding */
}

int generator_next(struct generator *g, struct err *e)
{
    const float *z;
    int token;

    assert(g->n > 0);
    z = predict_next(g);
    for (int i = 0; i < g->n_known; i++) {
        if (!isfinite(z[i]))
            return err_set(e, ERR_CONFIG, "an output of the model is not a finite number");
        g->order[i] = (struct choice_of_token){z[i], i};
    }
    qsort(g->order, (size_t)g->n_known, sizeof *g->order, by_probability);
    token = g->how.temperature > 0 ? draw_token(g) : g->order[0].token;
    return generator_add(g, token, e) < 0 ? e->code : token;
}
