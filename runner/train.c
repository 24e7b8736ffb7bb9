/* train -- drives a worker (runner/core/worker.h) in real time: waits for its peers, writes records, models
 * and checkpoints. What computes is a struct node_work: psgd's network (train_net.c), or a user's program
 * (runner/trainer/). */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "runner/exchange/barrier.h"
#include "runner/exchange/test_sum.h"
#include "runner/node.h"
#include "shared/base/clock.h"

struct training {
    struct node *n;
    struct stopwatch *watch;
    const struct node_work *work;
    void *owner;        /* of the work */
    uint64_t n_rounds;  /* that were closed at the last step */
    double round_began; /* clock_now: since when that many are */
    bool has_warned;    /* of a long round */
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

static int compute_work(void *owner, const struct worker_request *request, struct err *e)
{
    const struct training *t = owner;

    return t->work->compute(t->owner, request, e);
}

static int update_work(void *owner, const struct worker_request *request, struct err *e)
{
    const struct training *t = owner;

    return t->work->update(t->owner, request, e);
}

static int store_params(void *owner, const struct worker_request *request, struct err *e)
{
    const struct training *t = owner;

    (void)request;
    return t->n->training->store(t->n, e);
}

static int record_evaluation(struct node *n, double loss, double accuracy, struct err *e)
{
    struct report_progress p = node_progress(n);
    double quality;

    p.loss = loss;
    p.accuracy = accuracy;
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

static int evaluate_model(void *owner, const struct worker_request *request, struct err *e)
{
    const struct training *t = owner;
    struct node *n = t->n;
    double loss = NAN, accuracy = NAN;
    int rc;

    (void)request;
    node_take_model(n);
    rc = t->work->evaluate(t->owner, &loss, &accuracy, e);
    if (rc < 0)
        return rc;
    if (rc == NODE_NOT_EVALUATED)
        return node_report_progress(n, e) < 0 ? e->code : worker_evaluated(&n->worker, NAN, NAN, e);
    if (!test_sum_is_used(n->exchange))
        return record_evaluation(n, loss, accuracy, e);
    metrics_sums(n->metrics, test_sum_numbers(n->exchange));
    return 0;
}

/* The model has not changed since it was evaluated, because this worker has waited since. */
static int score_model(void *owner, const struct worker_request *request, struct err *e)
{
    struct node *n = ((const struct training *)owner)->n;

    (void)request;
    metrics_set_sums(n->metrics, test_sum_numbers(n->exchange));
    return record_evaluation(n, metrics_loss(n->metrics), metrics_accuracy(n->metrics), e);
}

/* Writes the model if the agent has requested it. The time is not counted in any step. */
static void show_model(const struct training *t)
{
    if (!node_snapshot(t->n))
        return;
    phase_enter(t->watch, PHASE_COMPUTE);
    step_begin(&t->n->step);
}

/* Within a round of local steps no checkpoint is written, and a node that gets SIGTERM waits only NODE_SAVE_S
 * for it: what would be lost is foreseen in the first round that takes longer. */
static void warn_of_long_round(struct training *t)
{
    const struct node *n = t->n;
    const uint64_t closed = exchange_rounds(n->exchange);
    const double now = clock_now();
    char text[224];

    if (!t->has_warned && now - t->round_began > NODE_SAVE_S && node_saves_at_end(n) &&
        exchange_has_local_steps(n->exchange)) {
        snprintf(text, sizeof text,
                 "node %d: a round takes more than %d s, so that SIGTERM would end the job without a "
                 "checkpoint of its own: --local-steps N makes rounds shorter",
                 n->job.node, NODE_SAVE_S);
        report_warn(n->report, text);
        t->has_warned = true;
    }
    if (closed != t->n_rounds)
        t->round_began = now;
    t->n_rounds = closed;
}

static int record_step(void *owner, const struct worker_request *request, struct err *e)
{
    struct training *t = owner;
    struct node *n = t->n;

    if (request->train &&
        record_write(&n->records[ARTIFACT_TRAIN], request->train, sizeof *request->train, 1, e) < 0)
        return e->code;
    if (node_record_comm(n, e) < 0)
        return e->code;
    warn_of_long_round(t);
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

int node_train_by(struct node *n, const struct node_work *work, void *owner, struct err *e)
{
    node_does *const doing[N_WORKER_WANTS] = {
        [WORKER_COMPUTES] = compute_work, [WORKER_UPDATES] = update_work,      [WORKER_STORES] = store_params,
        [WORKER_WAITS] = wait_for_go,     [WORKER_EVALUATES] = evaluate_model, [WORKER_SCORES] = score_model,
        [WORKER_RECORDS] = record_step};
    struct training t = {.n = n,
                         .watch = exchange_watch(n->exchange),
                         .work = work,
                         .owner = owner,
                         .n_rounds = exchange_rounds(n->exchange),
                         .round_began = clock_now()};

    if (node_live(n, doing, &t, e) < 0)
        return e->code;
    report_stop(n);
    report_skipped(n);
    report_coding(n);
    return 0;
}
