/* train -- drives a worker (runner/core/worker.h) in real time: computes its gradients, waits for its peers,
 * evaluates on the test set, writes records and checkpoints. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "runner/exchange/barrier.h"
#include "runner/node.h"
#include "shared/base/clock.h"

/* Polling for messages between layers takes a microsecond or two, so it is done once in this time. */
static const double POLL_S = 100e-6;

struct training {
    struct node *n;
    struct stopwatch *watch;
    struct loader_batch batch;
    double polled_at;   /* clock_now of the last poll between layers */
    struct err between; /* a failure in between_layers */
    int epoch;          /* whose order the loader has; 0: none yet */
};

/* Passes events to the worker until its wait is over. The timeout restarts with each contribution to a round;
 * at a barrier, and under an event rule (the host cannot tell what it waits for), each message restarts
 * it. */
static int wait_for_go(void *owner, const struct worker_request *request, struct err *e)
{
    const struct training *t = owner;
    struct node *n = t->n;
    char waiting[128] = "", now[128];
    struct node_wait wait;

    (void)request;
    node_wait_begin(&wait, n, stopwatch_since(t->watch));
    while (worker_waits(&n->worker)) {
        bool came;

        if (node_pump(n, node_wait_until(&wait), &came, e) < 0)
            return e->code;
        if (!worker_waits(&n->worker))
            break;
        if (came) {
            exchange_waits_for(n->exchange, now, sizeof now);
            if (codec_more(n->codec.plugin)->events || barrier_waits(n->exchange) ||
                strcmp(now, waiting) != 0)
                node_wait_begin(&wait, n, clock_now());
            memcpy(waiting, now, sizeof now);
        } else if (node_flush_records(n, e) < 0) { /* the wait may take long */
            return e->code;
        }
        if (node_wait_check(&wait, n, e) < 0)
            return e->code;
    }
    n->is_held_up = false;
    return 0;
}

/* May the exchange begin while the gradient is computed? A gradient that has been sent cannot be skipped. */
static bool overlaps(const struct node *n)
{
    return !n->step.may_skip && n->loader.n_blocks == 1;
}

/* Continues a running collective between the layers of a pass, with the gradients that are ready. */
static void between_layers(void *owner, size_t ready)
{
    struct training *t = owner;
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
    struct training *t = owner;
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
    net_train(n->net, &batch, &score);
    if (t->between.code) {
        *e = t->between;
        return e->code;
    }
    return worker_computed(&n->worker, net_grads(n->net), &score, e);
}

static int evaluate_model(void *owner, const struct worker_request *request, struct err *e)
{
    struct training *t = owner;
    struct node *n = t->n;
    struct report_progress p;
    size_t batch = (size_t)n->max_batch;
    double quality;

    (void)request;
    metrics_begin(n->metrics);
    node_take_model(n);
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
    p = node_progress(n);
    p.loss = metrics_loss(n->metrics);
    if (!metrics_value(n->metrics, METRIC_ACCURACY, &p.accuracy))
        p.accuracy = NAN;
    if (node_record_evaluation(n, p.loss, p.accuracy, e) < 0 || node_report_progress(n, e) < 0)
        return e->code;
    report_eval(n->report, &p);
    if (worker_evaluated(&n->worker, p.loss, p.accuracy, e) < 0)
        return e->code;
    quality = isnan(p.accuracy) ? -p.loss : p.accuracy;
    if (!isfinite(p.loss) || !(quality > n->best))
        return 0;
    n->best = quality;
    return node_write_model(n, artifact_name(ARTIFACT_BEST_MODEL), p.loss, e);
}

/* Writes the model if the agent has requested it. The time is not counted in any step. */
static void show_model(const struct training *t)
{
    if (!node_snapshot(t->n))
        return;
    phase_enter(t->watch, PHASE_COMPUTE);
    step_begin(&t->n->step);
}

static int record_step(void *owner, const struct worker_request *request, struct err *e)
{
    const struct training *t = owner;
    struct node *n = t->n;

    if (request->train &&
        record_write(&n->records[ARTIFACT_TRAIN], request->train, sizeof *request->train, 1, e) < 0)
        return e->code;
    if (node_record_comm(n, e) < 0)
        return e->code;
    show_model(t);
    return report_is_due(n->report, stopwatch_since(t->watch)) ? node_report_progress(n, e) : 0;
}

/* Reports dropped messages and skipped steps at the job's end. */
static void report_skipped(const struct node *n)
{
    unsigned long long overtaken = exchange_totals(n->exchange)->n_overtaken;
    char text[128];

    if (overtaken > 0)
        fprintf(stderr,
                "%llu messages were dropped: newer ones replaced them, or their receiver accepted none\n",
                overtaken);
    if (n->step.n_left_out == 0)
        return;
    snprintf(text, sizeof text,
             "node %d: %llu gradients or updates that were not finite were left out in %llu steps",
             n->job.node, (unsigned long long)n->step.n_left_out, (unsigned long long)n->step.n_done);
    report_warn(n->report, text);
}

static void report_coding(const struct node *n)
{
    struct compress_report r = exchange_coded(n->exchange);

    if (r.n_symbols > 0)
        fprintf(stderr, "coded %.0f symbols with %.3f bits each; their entropy is %.3f bits\n", r.n_symbols,
                r.n_bits / r.n_symbols, r.entropy / r.n_symbols);
}

static void report_stop(const struct node *n)
{
    struct stop why = step_stop(&n->step);

    if (why.reason != STOP_NONE)
        report_stopped(n->report, &why);
}

int node_train(struct node *n, struct err *e)
{
    static node_does *const doing[N_WORKER_WANTS] = {[WORKER_COMPUTES] = compute_block,
                                                     [WORKER_WAITS] = wait_for_go,
                                                     [WORKER_EVALUATES] = evaluate_model,
                                                     [WORKER_RECORDS] = record_step};
    struct training t = {.n = n, .watch = exchange_watch(n->exchange)};
    int rc = loader_batch_init(&t.batch, &n->loader, (size_t)n->max_batch, e);

    if (rc == 0)
        rc = node_live(n, doing, &t, e);
    loader_batch_clear(&t.batch);
    if (rc < 0)
        return rc;
    report_stop(n);
    report_skipped(n);
    report_coding(n);
    return 0;
}
