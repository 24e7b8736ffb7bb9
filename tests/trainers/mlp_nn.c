/* mlp_nn -- a training program that computes as the built-in worker does, with its network, loader and
 * optimizer: a job that it trains has the same values as psgd's own, to the bit.
 *
 *     mlp_nn FOLDER
 *
 * FOLDER has the packages of the built-in job, named as for sim/simulator.c: settings.json, model.json,
 * train-K.safetensors for each node K, and test.safetensors. Alone it is node 0, and prints the loss and the
 * accuracy on the test set after the last step as eval.csv has them. Models with running statistics are
 * refused: psgd averages the statistics of batches there, and a training program's changes of them. */
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "nn/kernels/blas.h"
#include "nn/metrics.h"
#include "nn/net.h"
#include "nn/optimizer.h"
#include "runner/loader.h"
#include "shared/base/file.h"
#include "shared/base/json.h"
#include "shared/job/schedule.h"
#include "shared/job/settings.h"
#include "shared/trainer/psgd_trainer.h"

enum { DOCUMENT_MAX = 1 << 20 };

struct program {
    struct settings set;
    struct model_spec spec;
    struct blocks blocks;
    struct schedule schedule;
    struct net *net;
    int max_batch;
    struct optimizer *optimizer;
    struct metrics *metrics;
    struct loader loader;
    struct loader_batch batch;
    int block;      /* that this node holds */
    uint64_t epoch; /* whose order the loader has, from 1; 0: none yet */
    struct psgd *psgd;
};

static int read_document(json_t **out, const char *folder, const char *name, struct err *e)
{
    char path[PATH_MAX];

    return file_join(path, sizeof path, folder, name, e) < 0 ? e->code
                                                             : json_read(out, path, DOCUMENT_MAX, e);
}

static int read_job(struct program *g, const char *folder, struct err *e)
{
    json_t *doc;
    int rc;

    if (read_document(&doc, folder, "settings.json", e) < 0)
        return e->code;
    rc = settings_parse(&g->set, doc, e);
    json_decref(doc);
    if (rc < 0 || schedule_parse(&g->schedule, g->set.schedule, e) < 0 ||
        settings_blocks(&g->blocks, &g->set, e) < 0)
        return err_at(e, "settings");
    if (read_document(&doc, folder, "model.json", e) < 0)
        return e->code;
    rc = model_spec_parse(&g->spec, doc, e);
    json_decref(doc);
    if (rc < 0)
        return err_at(e, "model");
    if (g->spec.n_trained != g->spec.n_params)
        return err_set(e, ERR_CONFIG, "model %s has running statistics", g->spec.name);
    blas_set_threads(g->set.threads, 1);
    blas_allow_onednn(g->set.math == MATH_AUTO);
    g->max_batch = net_test_batch(&g->spec, g->set.batch_size);
    return net_new(&g->net, &g->spec, g->max_batch, e);
}

static int open_psgd(struct program *g, struct err *e)
{
    const struct tensor_view *views;
    size_t n = net_tensors(g->net, &views);
    struct psgd_tensor *layout = calloc(n, sizeof *layout);
    int rc;

    if (!layout)
        return err_set(e, ERR_NOMEM, "no memory for the layout");
    for (size_t i = 0; i < n; i++) {
        layout[i] = (struct psgd_tensor){.name = views[i].name, .n_dims = views[i].n_dims};
        memcpy(layout[i].shape, views[i].shape, sizeof layout[i].shape);
    }
    rc = psgd_open(&g->psgd, layout, (int)n);
    free(layout);
    if (rc < 0)
        return err_set(e, ERR_TRAINER, "%s", psgd_error());
    net_init(g->net, g->set.seed);
    if (psgd_has_values(g->psgd))
        memcpy(net_params(g->net), psgd_params(g->psgd), net_n_params(g->net) * sizeof(float));
    net_use_params(g->net, psgd_params(g->psgd));
    net_use_grads(g->net, psgd_grads(g->psgd));
    psgd_batches(g->psgd, (uint64_t)g->set.steps_per_epoch);
    return 0;
}

static int open_data(struct program *g, const char *folder, struct err *e)
{
    const struct optimizer_config how = {.kind = g->set.optimizer,
                                         .momentum = (float)g->set.momentum,
                                         .weight_decay = (float)g->set.weight_decay,
                                         .has_parameters = true,
                                         .beta1 = g->set.beta1,
                                         .beta2 = g->set.beta2,
                                         .epsilon = g->set.epsilon};
    int node = psgd_plan(g->psgd)->node;
    char train[PATH_MAX], test[PATH_MAX], name[48];

    snprintf(name, sizeof name, "train-%d.safetensors", node);
    if (file_join(train, sizeof train, folder, name, e) < 0 ||
        file_join(test, sizeof test, folder, "test.safetensors", e) < 0 ||
        loader_open(&g->loader, train, test, &g->blocks, node, (size_t)g->set.batch_size,
                    (size_t)g->set.steps_per_epoch, &g->spec, g->set.seed, e) < 0)
        return e->code;
    if (g->loader.n_blocks != 1)
        return err_set(e, ERR_CONFIG, "node %d holds %d blocks, and mlp_nn computes one", node,
                       g->loader.n_blocks);
    g->block = g->loader.blocks[0];
    return loader_batch_init(&g->batch, &g->loader, (size_t)g->max_batch, e) < 0 ||
                   metrics_new(&g->metrics, &g->spec, g->loader.test.labels != NULL, g->loader.n_test, e) < 0
               ? e->code
               : optimizer_new(&g->optimizer, &how, g->spec.n_trained, e);
}

/* Gradient and score of the present step's batch. */
static void compute_gradient(struct program *g, uint64_t step, struct net_score *score)
{
    const uint64_t n_rows = (uint64_t)g->set.steps_per_epoch, epoch = step / n_rows;
    struct net_batch batch = {
        .n = g->set.batch_size, .seed = g->set.seed, .stream = blocks_stream(&g->blocks, step, g->block)};

    if (g->epoch != epoch + 1)
        loader_epoch(&g->loader, epoch);
    g->epoch = epoch + 1;
    loader_block(&g->loader, (size_t)(step % n_rows), 0, &g->batch);
    batch.x = g->batch.x;
    batch.truth = loader_truth(&g->batch);
    net_train(g->net, &batch, score);
}

/* What psgd reports of an error, psgd_next reports, too. */
static void take_step(struct program *g)
{
    const struct psgd_plan *plan = psgd_plan(g->psgd);
    const struct schedule_job job = {.learn_rate = g->set.learn_rate,
                                     .warmup_steps = (uint64_t)g->set.warmup_steps,
                                     .steps_per_epoch = (uint64_t)g->set.steps_per_epoch,
                                     .n_steps = settings_steps(&g->set)};
    double lr = schedule_rate(&g->schedule, &job, plan->step), norm = 0;
    struct net_score score = {0};
    const float *by;

    if (plan->takes_part) {
        compute_gradient(g, plan->step, &score);
        psgd_accuracy(g->psgd, g->loader.train.labels ? (double)score.n_right / (double)score.n : NAN);
    }
    by = psgd_gradient(g->psgd, score.loss / (double)score.n, score.n, lr);
    if (!by)
        return;
    if (g->set.clip_norm > 0)
        norm = gradient_norm(by, g->spec.n_trained);
    optimizer_step(g->optimizer, psgd_params(g->psgd), by, (float)lr, gradient_clip(norm, g->set.clip_norm));
    psgd_stepped(g->psgd);
}

/* Returns the loss on the test set. *accuracy: NAN where there are no labels. */
static double evaluate(struct program *g, double *accuracy)
{
    size_t batch = (size_t)g->max_batch;

    metrics_begin(g->metrics);
    for (size_t i = 0; i < g->loader.n_test; i += batch) {
        size_t k = g->loader.n_test - i < batch ? g->loader.n_test - i : batch;
        struct truth truth = loader_truth(&g->batch);

        loader_test(&g->loader, i, k, &g->batch);
        metrics_add(g->metrics, net_forward(g->net, g->batch.x, (int)k), &truth, (int)k);
    }
    if (!metrics_value(g->metrics, METRIC_ACCURACY, accuracy))
        *accuracy = NAN;
    return metrics_loss(g->metrics);
}

/* The optimizer's state: its number of steps, then its vectors. The step says which samples come next. */
static int save_state(const struct program *g, struct err *e)
{
    struct tensor_view views[OPTIMIZER_TENSORS];
    size_t n = optimizer_tensors(g->optimizer, views);
    uint64_t steps = optimizer_steps(g->optimizer);
    int fd = psgd_state_fd(g->psgd);
    int rc = file_write_all(fd, &steps, sizeof steps, "the optimizer's state", e);

    for (size_t i = 0; i < n && rc == 0; i++)
        rc = file_write_all(fd, views[i].data, tensor_bytes(&views[i]), "the optimizer's state", e);
    return rc;
}

static int read_whole(int fd, void *out, size_t n, struct err *e)
{
    while (n > 0) {
        ssize_t got = read(fd, out, n);

        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return err_set(e, ERR_CONFIG, "the optimizer's state is too short");
        out = (char *)out + got;
        n -= (size_t)got;
    }
    return 0;
}

static int restore_state(struct program *g, struct err *e)
{
    struct tensor_view views[OPTIMIZER_TENSORS];
    size_t n = optimizer_tensors(g->optimizer, views);
    int fd = psgd_state_fd(g->psgd);
    uint64_t steps;

    if (read_whole(fd, &steps, sizeof steps, e) < 0)
        return e->code;
    for (size_t i = 0; i < n; i++)
        if (read_whole(fd, optimizer_vector(g->optimizer, i), tensor_bytes(&views[i]), e) < 0)
            return e->code;
    optimizer_set_steps(g->optimizer, steps);
    return 0;
}

static int train(struct program *g, struct err *e)
{
    double loss, accuracy;
    int what, rc = 0;

    while (rc == 0 && (what = psgd_next(g->psgd)) != PSGD_STOP) {
        if (what < 0)
            rc = err_set(e, ERR_TRAINER, "%s", psgd_error());
        else if (what == PSGD_GO)
            take_step(g);
        else if (what == PSGD_SAVE)
            rc = save_state(g, e);
        else if (what == PSGD_RESTORE)
            rc = restore_state(g, e);
        else {
            loss = evaluate(g, &accuracy);
            psgd_evaluated(g->psgd, loss, accuracy, g->loader.n_test);
        }
        if (psgd_is_alone(g->psgd) && psgd_plan(g->psgd)->step == settings_steps(&g->set))
            psgd_finish(g->psgd);
    }
    if (rc == 0 && psgd_is_alone(g->psgd)) {
        loss = evaluate(g, &accuracy);
        printf("loss %.9g, accuracy %.9g\n", loss, accuracy);
    }
    return rc;
}

int main(int argc, char **argv)
{
    const char *warning = blas_choose_core();
    struct program g = {0};
    struct err e = {0};
    int rc;

    if (warning)
        fprintf(stderr, "%s\n", warning);
    if (argc != 2) {
        fprintf(stderr, "usage: mlp_nn FOLDER\n");
        return EXIT_FAILURE;
    }
    rc = read_job(&g, argv[1], &e) < 0 || open_psgd(&g, &e) < 0 || open_data(&g, argv[1], &e) < 0 ||
         train(&g, &e) < 0;
    if (rc && g.psgd)
        psgd_fail(g.psgd, e.text);
    if (rc)
        fprintf(stderr, "mlp_nn: %s\n", e.text);
    psgd_close(g.psgd);
    loader_batch_clear(&g.batch);
    loader_close(&g.loader);
    metrics_free(g.metrics);
    optimizer_free(g.optimizer);
    net_free(g.net);
    blocks_clear(&g.blocks);
    model_spec_clear(&g.spec);
    return rc ? EXIT_FAILURE : EXIT_SUCCESS;
}
