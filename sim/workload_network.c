/* workload_network -- the workload with the job's own network and data, each node with its shard, as in a
 * runner (runner/train_net.c). All nodes share one network, into which each batch loads its node's
 * weights. */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nn/kernels/blas.h"
#include "nn/metrics.h"
#include "runner/core/accumulation.h"
#include "runner/loader.h"
#include "shared/base/clock.h"
#include "shared/base/file.h"
#include "shared/base/json.h"
#include "shared/job/test_part.h"
#include "shared/records/weights.h"
#include "sim/sim.h"

struct network {
    struct workload base;
    const struct settings *set;
    const struct blocks *blocks;
    char *arch, *preprocessing;
    struct model_spec spec;
    struct net *net;
    int max_batch;
    struct metrics *metrics;
    struct loader *loaders; /* (n_workers) */
    int n_loaders;          /* open ones */
    struct loader_batch batch;
    struct accumulation passes;
    float *initial;   /* (n_params) */
    float *evaluated; /* (n_params): of the latest evaluation, which nodes with equal weights share */
    double loss, accuracy;
    bool has_evaluated;
    struct tensor_view *views;
};

static void network_begin(struct workload *load, float *params)
{
    memcpy(params, ((struct network *)load)->initial, load->n_params * sizeof *params);
}

static int network_gradient(struct workload *load, const struct workload_batch *b, const float *params,
                            float *grads, struct net_score *score, struct err *e)
{
    struct network *w = (struct network *)load;
    struct loader *l = &w->loaders[b->node];
    uint64_t epoch = b->step / l->n_rows;
    struct net_batch batch = {
        .n = w->set->batch_size, .seed = w->set->seed, .stream = blocks_stream(w->blocks, b->step, b->block)};
    double begun;

    (void)e;
    memcpy(net_params(w->net), params, load->n_params * sizeof *params);
    begun = clock_now();
    if (l->epoch != epoch)
        loader_epoch(l, epoch);
    loader_block(l, (size_t)(b->step % l->n_rows), b->i, &w->batch);
    batch.x = w->batch.x;
    batch.truth = loader_truth(&w->batch);
    accumulation_train(&w->passes, w->net, &batch, score);
    load->spent_s += clock_now() - begun;
    memcpy(grads, net_grads(w->net), load->n_params * sizeof *grads);
    return 0;
}

/* Adds up the metrics of the model on a part of the test set, which all loaders have. */
static void measure_part(struct network *w, const float *params, struct test_part part)
{
    const struct loader *l = &w->loaders[0];
    size_t batch = (size_t)w->max_batch;
    double begun;

    memcpy(net_params(w->net), params, w->base.n_params * sizeof *params);
    begun = clock_now();
    metrics_begin(w->metrics);
    for (size_t i = 0; i < part.n; i += batch) {
        size_t k = part.n - i < batch ? part.n - i : batch;
        struct truth truth = loader_truth(&w->batch);

        loader_test(l, part.first + i, k, &w->batch);
        metrics_add(w->metrics, net_forward(w->net, w->batch.x, (int)k), &truth, (int)k);
    }
    w->base.spent_s += clock_now() - begun;
}

static int network_evaluate(struct workload *load, const float *params, uint64_t step, double *loss,
                            double *accuracy, struct err *e)
{
    struct network *w = (struct network *)load;

    (void)step, (void)e;
    if (!w->has_evaluated || memcmp(w->evaluated, params, load->n_params * sizeof *params) != 0) {
        memcpy(w->evaluated, params, load->n_params * sizeof *params);
        measure_part(w, params, (struct test_part){0, w->loaders[0].n_test});
        w->loss = metrics_loss(w->metrics);
        w->accuracy = metrics_accuracy(w->metrics);
        w->has_evaluated = true;
    }
    *loss = w->loss;
    *accuracy = w->accuracy;
    return 0;
}

static void network_test(struct workload *load, int node, const float *params, double *sums)
{
    struct network *w = (struct network *)load;

    measure_part(w, params, test_part_of(w->loaders[0].n_test, w->set->node_count, node));
    metrics_sums(w->metrics, sums);
}

static void network_score(struct workload *load, const double *sums, double *loss, double *accuracy)
{
    struct network *w = (struct network *)load;

    metrics_set_sums(w->metrics, sums);
    *loss = metrics_loss(w->metrics);
    *accuracy = metrics_accuracy(w->metrics);
}

static size_t network_tensors(struct workload *load, const float *params, const struct tensor_view **out)
{
    struct network *w = (struct network *)load;
    const struct tensor_view *own;
    size_t n = net_tensors(w->net, &own);

    for (size_t i = 0; i < n; i++) {
        w->views[i] = own[i];
        w->views[i].data = params ? params + net_tensor_offset(w->net, i) : own[i].data;
    }
    *out = w->views;
    return n;
}

static void network_free(struct workload *load, const char *why_failed)
{
    struct network *w = (struct network *)load;

    (void)why_failed;
    for (int i = 0; i < w->n_loaders; i++)
        loader_close(&w->loaders[i]);
    free(w->loaders);
    loader_batch_clear(&w->batch);
    accumulation_close(&w->passes);
    metrics_free(w->metrics);
    net_free(w->net);
    free(w->initial);
    free(w->evaluated);
    free(w->views);
    free(w->arch);
    free(w->preprocessing);
    free(w->base.ranges);
    model_spec_clear(&w->spec);
    free(w);
}

static const struct workload_ops ops = {.begin = network_begin,
                                        .gradient = network_gradient,
                                        .evaluate = network_evaluate,
                                        .test = network_test,
                                        .score = network_score,
                                        .tensors = network_tensors,
                                        .free = network_free};

static int load_model(struct network *w, const char *folder, struct err *e)
{
    if (model_spec_read(&w->spec, &w->arch, folder, e) < 0)
        return e->code;
    if (weights_read_preprocessing(&w->preprocessing, folder, e) < 0)
        return err_at(e, "model");
    if (placement_lay_out(&w->base.ranges, w->set->placement, &w->spec, w->set->server_count, e) < 0)
        return e->code;
    w->max_batch = net_test_batch(&w->spec, w->set->batch_size);
    return net_new(&w->net, &w->spec, w->max_batch, e);
}

static int load_shards(struct network *w, const char *folder, struct err *e)
{
    size_t block = settings_block_samples(w->set), most = (size_t)w->max_batch;
    char train[PATH_MAX], test[PATH_MAX], name[48];

    w->loaders = calloc((size_t)w->set->node_count, sizeof *w->loaders);
    if (!w->loaders)
        return err_set(e, ERR_NOMEM, "no memory for the shards of %d nodes", w->set->node_count);
    for (int i = 0; i < w->set->node_count; i++) {
        snprintf(name, sizeof name, "train-%d.safetensors", i);
        if (file_join(train, sizeof train, folder, name, e) < 0 ||
            file_join(test, sizeof test, folder, "test.safetensors", e) < 0 ||
            loader_open(&w->loaders[i], train, test, w->blocks, i, settings_block_samples(w->set),
                        (size_t)w->set->steps_per_epoch, &w->spec, w->set->seed, e) < 0)
            return err_at(e, "data of node %d", i);
        w->n_loaders = i + 1;
        loader_epoch(&w->loaders[i], 0);
    }
    return loader_batch_init(&w->batch, &w->loaders[0], block > most ? block : most, e) < 0
               ? e->code
               : accumulation_open(&w->passes, w->set, &w->spec, e);
}

static int make_room(struct network *w, struct err *e)
{
    const struct tensor_view *views;
    size_t n = net_n_params(w->net);

    w->initial = malloc(n * sizeof *w->initial);
    w->evaluated = malloc(n * sizeof *w->evaluated);
    w->views = malloc(net_tensors(w->net, &views) * sizeof *w->views);
    if (!w->initial || !w->evaluated || !w->views)
        return err_set(e, ERR_NOMEM, "no memory for the %zu weights of the network", n);
    return metrics_new(&w->metrics, &w->spec, loader_has_labels(&w->loaders[0]), w->loaders[0].n_test, e);
}

int workload_network(struct workload **out, const struct settings *set, const struct blocks *b,
                     const char *folder, struct err *e)
{
    struct network *w = calloc(1, sizeof *w);

    if (!w)
        return err_set(e, ERR_NOMEM, "no memory for a network");
    w->set = set;
    w->blocks = b;
    blas_set_threads(set->threads, 1);
    blas_allow_onednn(set->math == MATH_AUTO);
    if (load_model(w, folder, e) < 0 || test_sums_in(&w->base.n_test_sums, set, &w->spec, e) < 0 ||
        load_shards(w, folder, e) < 0 || make_room(w, e) < 0) {
        network_free(&w->base, NULL);
        return e->code;
    }
    net_init(w->net, set->seed);
    memcpy(w->initial, net_params(w->net), net_n_params(w->net) * sizeof *w->initial);
    w->base = (struct workload){.ops = &ops,
                                .n_params = net_n_params(w->net),
                                .n_trained = net_n_trained(w->net),
                                .momentum = net_momentum(w->net),
                                .has_labels = loader_has_labels(&w->loaders[0]),
                                .text = loader_text(&w->loaders[0], set, b),
                                .n_test_sums = w->base.n_test_sums,
                                .has_test = w->loaders[0].n_test > 0,
                                .arch = w->arch,
                                .preprocessing = w->preprocessing,
                                .ranges = w->base.ranges,
                                .spec = &w->spec};
    *out = &w->base;
    return 0;
}
