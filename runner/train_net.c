/* train_net -- the steps of a worker whose model is psgd's own network: mini-batches of its shard, gradients,
 * and the evaluation on the test set. */
#include "runner/core/accumulation.h"
#include "runner/node.h"
#include "shared/base/clock.h"

/* Polling for messages between layers takes a microsecond or two, so it is done once in this time. */
static const double POLL_S = 100e-6;

struct net_training {
    struct node *n;
    struct stopwatch *watch;
    struct loader_batch batch;
    struct accumulation passes;
    double polled_at;   /* clock_now of the last poll between layers */
    struct err between; /* a failure in between_layers */
    int epoch;          /* whose order the loader has; 0: none yet */
};

/* May the exchange begin while the gradient is computed? A gradient that has been sent cannot be skipped, and
 * the mean of several is complete after the last one. */
static bool overlaps(const struct node *n)
{
    return !n->step.may_skip && n->loader.n_blocks == 1 && n->set.accumulate == 1;
}

/* Continues a running collective between the layers of a pass, with the gradients that are ready. */
static void between_layers(void *owner, size_t ready)
{
    struct net_training *t = owner;
    struct node *n = t->n;
    enum phase last;

    if (t->between.code || !exchange_is_collecting(n->exchange))
        return;
    if (exchange_on_ready(n->exchange, ready, &t->between) < 0 || clock_now() < t->polled_at + POLL_S)
        return;
    last = phase_enter(t->watch, PHASE_WAIT);
    node_receive(n, &t->between);
    phase_enter(t->watch, last);
    t->polled_at = stopwatch_since(t->watch);
}

static int compute_block(void *owner, const struct worker_request *request, struct err *e)
{
    struct net_training *t = owner;
    struct node *n = t->n;
    struct net_batch batch = {.x = t->batch.x,
                              .truth = loader_truth(&t->batch),
                              .n = n->set.batch_size,
                              .seed = n->set.seed,
                              .stream = blocks_stream(&n->blocks, step_place(&n->step), request->block),
                              .between = between_layers,
                              .owner = t};
    struct net_score score = {0};

    if (t->epoch != request->epoch)
        loader_epoch(&n->loader, (uint64_t)request->epoch - 1);
    t->epoch = request->epoch;
    if (node_catch_up(n, e) < 0)
        return e->code;
    loader_block(&n->loader, request->row, request->i, &t->batch);
    if (overlaps(n) && exchange_on_backward(n->exchange, e) < 0)
        return e->code;
    accumulation_train(&t->passes, n->net, &batch, &score);
    if (t->between.code) {
        *e = t->between;
        return e->code;
    }
    return worker_computed(&n->worker, net_grads(n->net), &score, e);
}

/* Tokens of a sample between two receptions of messages. */
enum { TOKENS_AT_ONCE = 8 };

static int draw_sample(struct node *n, struct err *e)
{
    bool is_complete = false;

    if (text_sample_begin(&n->sample, n->net, n->spec, n->set.seed, e) < 0)
        return e->code;
    while (!is_complete) {
        if (node_catch_up(n, e) < 0)
            return e->code;
        node_swap_model(n);
        is_complete = text_sample_go_on(&n->sample, TOKENS_AT_ONCE);
        node_swap_model(n);
    }
    return node_record_sample(n, e);
}

/* Metrics are those that the model requests, besides. */
static int measure_model(void *owner, double *loss, double *accuracy, struct err *e)
{
    struct net_training *t = owner;
    struct node *n = t->n;
    size_t batch = (size_t)n->max_batch;

    metrics_begin(n->metrics);
    for (size_t i = 0; i < n->loader.n_test; i += batch) {
        size_t k = n->loader.n_test - i < batch ? n->loader.n_test - i : batch;
        struct truth truth = loader_truth(&t->batch);

        if (node_catch_up(n, e) < 0)
            return e->code;
        loader_test(&n->loader, i, k, &t->batch);
        node_swap_model(n);
        metrics_add(n->metrics, net_forward(n->net, t->batch.x, (int)k), &truth, (int)k);
        node_swap_model(n);
    }
    *loss = metrics_loss(n->metrics);
    *accuracy = metrics_accuracy(n->metrics);
    return text_sample_is_asked(&n->sample) ? draw_sample(n, e) : 0;
}

int node_train(struct node *n, struct err *e)
{
    static const struct node_work of_net = {.compute = compute_block, .evaluate = measure_model};
    struct net_training t = {.n = n, .watch = exchange_watch(n->exchange)};
    size_t block = settings_block_samples(&n->set), most = (size_t)n->max_batch;
    int rc = loader_batch_init(&t.batch, &n->loader, block > most ? block : most, e);

    if (rc == 0)
        rc = accumulation_open(&t.passes, &n->set, n->spec, e);
    if (rc == 0)
        rc = node_train_by(n, &of_net, &t, e);
    accumulation_close(&t.passes);
    loader_batch_clear(&t.batch);
    return rc;
}
