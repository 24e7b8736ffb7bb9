/* limit MODEL.json BATCH -- microseconds of the matrix products alone of one training step, on one thread:
 * by nn/kernels/matmul, which is a bound for any engine that computes these products, and by the better one
 * of the libraries. A convolution counts as the products of its unfolded images, one image at a time;
 * nn/layers/conv_winograd needs smaller products. */
#include <cblas.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "nn/kernels/blas.h"
#include "nn/kernels/matmul.h"
#include "nn/kernels/onednn.h"
#include "shared/base/json.h"
#include "shared/job/model_spec.h"
#include "tests/bench/bench.h"

enum { PRODUCTS_MAX = 1024, ROUNDS = 9 };

struct product {
    bool a_t, b_t;
    int m, n, k, times;
    float *a, *b, *c;
};

static struct product products[PRODUCTS_MAX];
static int n_products;

static float *matrix(int rows, int cols)
{
    size_t n = (size_t)rows * (size_t)cols;
    float *p = malloc(n * sizeof *p);

    if (!p)
        exit(1);
    for (size_t i = 0; i < n; i++)
        p[i] = (float)(i * 2654435761u >> 8 & 1023) / 1024 - 0.5f;
    return p;
}

static void add(bool a_t, bool b_t, int m, int n, int k, int times)
{
    products[n_products++] = (struct product){a_t,          b_t,          m,           n, k, times,
                                              matrix(m, k), matrix(k, n), matrix(m, n)};
}

/* y = x w for `rows` rows, `times` times: forward, dw, and dx where it is needed. */
static void add_layer(int rows, int in, int out, int times, bool wants_dx)
{
    add(false, false, rows, out, in, times);
    add(true, false, in, out, rows, times);
    if (wants_dx)
        add(false, true, rows, in, out, times);
}

static void add_recurrent(const struct layer_spec *l, int batch, int n_gates, bool wants_dx)
{
    int units = (int)l->tensors[1].shape[0];
    int steps = l->in.dim[0];

    add_layer(batch * steps, l->in.dim[1], n_gates * units, 1, wants_dx);
    add(false, false, batch, n_gates * units, units, steps);
    add(false, true, batch, units, n_gates * units, steps);
    add(true, false, units, n_gates * units, batch * steps, 1);
}

/* The products of the heads, of which only the lower triangles are computed: half of them. */
static void add_attention(const struct layer_spec *l, int batch, bool wants_dx)
{
    int time = l->in.dim[0], d = l->in.dim[1], e = d / l->attention.heads;
    int times = (batch * l->attention.heads + 1) / 2;

    add_layer(batch * time, d, 3 * d, 1, wants_dx);
    add_layer(batch * time, d, d, 1, true);
    for (int i = 0; i < 2; i++) {
        add(false, true, time, time, e, times);  /* Q K^T, dO V^T */
        add(false, false, time, e, time, times); /* P V, dS K */
        add(true, false, time, e, time, times);  /* P^T dO, dS^T Q */
    }
}

static void add_model(const struct model_spec *m, int batch)
{
    bool wants_dx = false;

    for (int i = 0; i < m->n_layers && n_products + 4 < PRODUCTS_MAX; i++) {
        const struct layer_spec *l = &m->layers[i];
        const size_t *w = l->tensors[0].shape;

        if (l->kind == LAYER_DENSE)
            add_layer(batch * l->n_in / (int)w[0], (int)w[0], (int)w[1], 1, wants_dx);
        else if (l->kind == LAYER_HEAD)
            add_layer(batch * l->in.dim[0], l->in.dim[1], l->out.dim[1], 1, true);
        else if (l->kind == LAYER_ATTENTION)
            add_attention(l, batch, wants_dx);
        else if (l->kind == LAYER_CONV2D)
            add_layer(l->out.dim[0] * l->out.dim[1], (int)(w[0] * w[1] * w[2]), (int)w[3], batch, wants_dx);
        else if (l->kind == LAYER_LSTM || l->kind == LAYER_GRU)
            add_recurrent(l, batch, l->kind == LAYER_LSTM ? 4 : 3, wants_dx);
        wants_dx |= l->n_tensors > 0;
    }
}

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* False: it does not support such a product. */
typedef bool multiply(const struct product *p);

static bool as_ours(const struct product *p)
{
    matmul(p->a_t, p->b_t, p->m, p->n, p->k, p->a, p->b, 0, p->c);
    return true;
}

static bool by_openblas(const struct product *p)
{
    cblas_sgemm(CblasRowMajor, p->a_t ? CblasTrans : CblasNoTrans, p->b_t ? CblasTrans : CblasNoTrans, p->m,
                p->n, p->k, 1, p->a, p->a_t ? p->m : p->k, p->b, p->b_t ? p->k : p->n, 0, p->c, p->n);
    return true;
}

static bool by_onednn(const struct product *p)
{
    return onednn_matmul(p->a_t, p->b_t, p->m, p->n, p->k, p->a, p->b, 0, p->c);
}

static bool step(multiply *by)
{
    for (int i = 0; i < n_products; i++)
        for (int k = 0; k < products[i].times; k++)
            if (!by(&products[i]))
                return false;
    return true;
}

/* The median of ROUNDS, in microseconds; INFINITY: it does not support them all. */
static double step_time(multiply *by)
{
    double seconds[ROUNDS];

    if (!step(by))
        return INFINITY;
    for (int i = 0; i < ROUNDS; i++) {
        double start = now();
        int n = 0;

        do {
            step(by);
            n++;
        } while (now() - start < 0.05);
        seconds[i] = (now() - start) / n;
    }
    qsort(seconds, ROUNDS, sizeof *seconds, by_size);
    return seconds[ROUNDS / 2] * 1e6;
}

int main(int argc, char **argv)
{
    static struct model_spec spec;
    json_t *doc;
    struct err e;

    if (argc != 3 || json_read(&doc, argv[1], 1 << 20, &e) < 0 || model_spec_parse(&spec, doc, &e) < 0) {
        fprintf(stderr, "usage: limit MODEL.json BATCH\n");
        return 2;
    }
    blas_choose_core();
    blas_set_threads(1, 1);
    add_model(&spec, atoi(argv[2]));
    printf("%.1f %.1f\n", step_time(as_ours), fmin(step_time(by_openblas), step_time(by_onednn)));
    model_spec_clear(&spec);
    json_decref(doc);
    return 0;
}
