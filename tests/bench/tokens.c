/* tokens MODEL.json BATCH SECONDS -- tokens per second of training a language model on one thread: forward,
 * backward and a step of AdamW, on random tokens. The median of ROUNDS. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "nn/kernels/blas.h"
#include "nn/net.h"
#include "nn/optimizer.h"
#include "shared/base/json.h"
#include "shared/base/rng.h"
#include "tests/bench/bench.h"

enum { ROUNDS = 5 };

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

struct training {
    struct model_spec spec;
    struct net *net;
    struct optimizer *optimizer;
    struct net_batch batch;
};

static void draw_batch(struct training *t, int n)
{
    size_t n_tokens = (size_t)(n * t->spec.n_in);
    float *x = malloc(n_tokens * sizeof *x);
    int32_t *labels = malloc(n_tokens * sizeof *labels);
    struct rng r;

    if (!x || !labels)
        exit(1);
    rng_init(&r, 1, 0, 0);
    for (size_t i = 0; i < n_tokens; i++) {
        x[i] = (float)rng_below(&r, (uint32_t)model_spec_vocab(&t->spec));
        labels[i] = (int32_t)rng_below(&r, (uint32_t)model_spec_classes(&t->spec));
    }
    t->batch = (struct net_batch){.x = x, .truth = {.labels = labels}, .n = n};
}

static void take_step(struct training *t)
{
    struct net_score score = {0};

    net_train(t->net, &t->batch, &score);
    optimizer_step(t->optimizer, net_params(t->net), net_grads(t->net), 1e-3f, 1);
}

int main(int argc, char **argv)
{
    static struct training t;
    double rates[ROUNDS];
    json_t *doc;
    struct err e;

    if (argc != 4 || json_read(&doc, argv[1], 1 << 20, &e) < 0 || model_spec_parse(&t.spec, doc, &e) < 0 ||
        t.spec.loss != LOSS_TOKEN_CROSS_ENTROPY) {
        fprintf(stderr, "usage: tokens MODEL.json BATCH SECONDS\n");
        return 2;
    }
    blas_choose_core();
    blas_set_threads(1, 1);
    if (net_new(&t.net, &t.spec, atoi(argv[2]), &e) < 0 ||
        optimizer_new(
            &t.optimizer,
            &(struct optimizer_config){
                .kind = OPTIMIZER_ADAMW, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8, .weight_decay = 0.1f},
            t.spec.n_params, &e) < 0) {
        fprintf(stderr, "%s\n", e.text);
        return 1;
    }
    net_init(t.net, 1);
    draw_batch(&t, atoi(argv[2]));
    take_step(&t);
    for (int i = 0; i < ROUNDS; i++) {
        double start = now();
        int n = 0;

        do {
            take_step(&t);
            n++;
        } while (now() - start < atof(argv[3]) / ROUNDS);
        rates[i] = n * t.batch.n * t.spec.n_in / (now() - start);
    }
    qsort(rates, ROUNDS, sizeof *rates, by_size);
    printf("%.0f\n", rates[ROUNDS / 2]);
    return 0;
}
