/* node_codec -- a node's setup for its codec: the exchange with the job's settings, the model's layers, the
 * optimizer if it runs on servers, and codec.csv. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/runner/exchange/layers.h"
#include "agent/runner/node.h"
#include "shared/clock.h"

double node_learn_rate(const struct node *n, uint64_t step)
{
    const struct schedule_job job = {.learn_rate = n->set.learn_rate,
                                     .warmup_steps = (uint64_t)n->set.warmup_steps,
                                     .steps_per_epoch = (uint64_t)n->set.steps_per_epoch,
                                     .n_steps = (uint64_t)n->set.steps_per_epoch * (uint64_t)n->set.epochs};

    return schedule_rate(&n->schedule, &job, step);
}

/* Returns how many of the parameters [from, from + n) the optimizer updates; the rest are running
 * statistics. */
static size_t trained_of(const struct node *node, size_t from, size_t n)
{
    size_t n_trained = net_n_trained(node->net);

    return from >= n_trained ? 0 : n_trained - from < n ? n_trained - from : n;
}

/* Like a worker's update: a gradient that is not finite ends the job or is skipped, by the same policy. */
static int update(void *owner, size_t from, size_t n, uint64_t step, float lr_factor, struct err *e)
{
    struct node *node = owner;
    float *params = net_params(node->net) + from;
    const float *grads = net_grads(node->net) + from;
    size_t n_trained = trained_of(node, from, n);
    double norm = gradient_norm(grads, n_trained);
    bool may_skip = strcmp(node->set.on_nonfinite, "skip") == 0;

    if (!isfinite(norm) || !isfinite(gradient_norm(grads + n_trained, n - n_trained))) {
        if (!may_skip)
            return err_set(e, ERR_NUMERIC, "node %d, step %llu: the gradient of the workers is not finite",
                           node->job.node, (unsigned long long)step + 1);
        fprintf(stderr, "step %llu: the gradient of the workers is not finite; the update is left out\n",
                (unsigned long long)step + 1);
        return 0;
    }
    if (may_skip && norm == 0)
        return 0;
    optimizer_step(node->optimizer, params, grads, (float)(node_learn_rate(node, step) * (double)lr_factor),
                   gradient_clip(norm, node->set.clip_norm));
    for (size_t i = n_trained; i < n; i++)
        params[i] -= grads[i];
    return 0;
}

static int record(void *owner, const struct codec *c, const char *name, double value, struct err *e)
{
    struct node *n = owner;
    const struct record_codec row = {.time_s = n->started > 0 ? clock_now() - n->started : 0,
                                     .node = c->node,
                                     .step = c->step,
                                     .round = c->round,
                                     .name = name,
                                     .value = value};

    if (n->rows_of_codec.fd < 0 && (node_enter_folder(n, e) < 0 ||
                                    record_open(&n->rows_of_codec, "codec.csv", record_codec_columns, e) < 0))
        return e->code;
    return record_write(&n->rows_of_codec, &row, sizeof row, 1, e);
}

static int list_layers(struct node *n, struct err *e)
{
    const struct tensor_view *t;

    n->n_layers = (int)net_tensors(n->net, &t);
    return layers_list(&n->layers, t, (size_t)n->n_layers, e);
}

/* Covers all trained parameters on a worker, those in its range on a server. */
static int open_optimizer(struct node *n, struct err *e)
{
    size_t from = 0, to = net_n_params(n->net);
    int server = -2 - n->job.node;

    if (n->job.node < 0) {
        from = collective_slice(net_n_params(n->net), server, n->set.server_count);
        to = collective_slice(net_n_params(n->net), server + 1, n->set.server_count);
    }
    return optimizer_new(&n->optimizer,
                         &(struct optimizer_config){.kind = n->set.gradient_descent,
                                                    .momentum = (float)n->set.momentum,
                                                    .weight_decay = (float)n->set.weight_decay},
                         trained_of(n, from, to - from), e);
}

int node_open_exchange(struct node *n, struct err *e)
{
    struct exchange_config cfg = exchange_config_of(&n->set, n->job.node);

    if (list_layers(n, e) < 0)
        return e->code;
    cfg.plugin = n->codec.plugin;
    cfg.blocks = &n->blocks;
    cfg.n_params = net_n_params(n->net);
    cfg.params = net_params(n->net);
    cfg.grads = net_grads(n->net);
    cfg.layers = n->layers;
    cfg.n_layers = n->n_layers;
    cfg.update = update;
    cfg.record = record;
    cfg.owner = n;
    if (exchange_new(&n->exchange, &cfg, e) < 0)
        return e->code;
    return exchange_updates_here(n->exchange) ? open_optimizer(n, e) : 0;
}
