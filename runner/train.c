/* train -- a worker's training loop. A step: a batch of each of its blocks, forward, backward, the codec's
 * exchange of the gradient, the update, the codec's exchange of the weights; after each epoch an evaluation
 * on the test set. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "runner/exchange/barrier.h"
#include "runner/exchange/exchange_state.h"
#include "runner/exchange/feed.h"
#include "runner/exchange/verdict.h"
#include "runner/node.h"
#include "runner/snapshot.h"
#include "shared/base/clock.h"

/* Between layers, polling for messages takes a microsecond or two: not more often than this. */
static const double LOOK_S = 100e-6;

struct worker_loop {
    struct node *n;
    struct stopwatch *watch;
    struct loader_batch batch;
    double looked_at;                /* clock_now of the last poll between layers */
    struct err between;              /* a failure in between_layers */
    bool has_ended;                  /* its last evaluation is made */
    uint64_t evaluated;              /* the step after which it has evaluated last */
    double test_loss, test_accuracy; /* then */
};

/* Passes events to the exchange until it has what it waits for. The timeout restarts with each
 * contribution to a round; with an event rule, whose condition the host does not know, and at a barrier,
 * with each message. */
static int wait_for_go(struct worker_loop *w, int rc, struct err *e)
{
    struct node *n = w->n;
    char waiting[128] = "", now[128];
    enum phase last;
    struct node_wait wait;

    if (rc != CODEC_WAIT)
        return rc;
    last = phase_enter(w->watch, PHASE_WAIT);
    node_wait_begin(&wait, n, stopwatch_since(w->watch));
    while (rc == CODEC_WAIT) {
        bool came;

        rc = node_pump(n, node_wait_until(&wait), &came, e);
        if (rc == CODEC_WAIT && came) {
            exchange_waits_for(n->exchange, now, sizeof now);
            if (codec_more(n->codec.plugin)->events || exchange_is_at_barrier(n->exchange) ||
                strcmp(now, waiting) != 0)
                node_wait_begin(&wait, n, clock_now());
            memcpy(waiting, now, sizeof now);
        }
        if (rc == CODEC_WAIT && !came && node_flush_records(n, e) < 0) /* it may take long */
            return e->code;
        if (rc == CODEC_WAIT && node_wait_check(&wait, n, e) < 0)
            return e->code;
    }
    n->is_held_up = false;
    phase_enter(w->watch, last);
    return rc;
}

/* An exchanged gradient can no longer be skipped. */
static bool overlaps(const struct worker_loop *w)
{
    return !w->n->step.may_skip && w->n->loader.n_blocks == 1;
}

/* Continues a running collective between the layers of a pass, with the gradients that are ready. */
static void between_layers(void *owner, size_t ready)
{
    struct worker_loop *w = owner;
    struct node *n = w->n;
    enum phase last;

    if (w->between.code || !exchange_is_collecting(n->exchange))
        return;
    if (exchange_on_ready(n->exchange, ready, &w->between) < 0 || clock_now() < w->looked_at + LOOK_S)
        return;
    last = phase_enter(w->watch, PHASE_WAIT);
    node_receive(n, &w->between);
    phase_enter(w->watch, last);
    w->looked_at = stopwatch_since(w->watch);
}

/* Computes the gradients of this node's blocks. */
static int gradient(struct worker_loop *w, size_t row, struct err *e)
{
    struct node *n = w->n;

    for (int b = 0; b < n->loader.n_blocks; b++) {
        int block = n->loader.blocks[b];
        struct net_batch batch = {.x = w->batch.x,
                                  .truth = loader_truth(&w->batch),
                                  .n = n->set.batch_size,
                                  .seed = n->set.seed,
                                  .stream = blocks_stream(&n->blocks, step_place(&n->step), block),
                                  .between = between_layers,
                                  .owner = w};
        struct net_score score = {0};

        if (node_catch_up(n, e) < 0)
            return e->code;
        loader_block(&n->loader, row, b, &w->batch);
        if (overlaps(w) && exchange_on_backward(n->exchange, e) < 0)
            return e->code;
        net_train(n->net, &batch, &score);
        if (w->between.code) {
            *e = w->between;
            return e->code;
        }
        if (step_add_block(&n->step, net_grads(n->net), block, &score, e) < 0)
            return e->code;
    }
    return 0;
}

/* Writes the epoch's checkpoint, if one is due. A job that exchanges once more after its last step saves
 * the state before that: a resumed job has not had that exchange. */
static int keep(struct worker_loop *w, struct err *e)
{
    struct node *n = w->n;
    enum phase last;
    int rc;

    if (!node_keeps_epoch(n, n->epoch))
        return 0;
    last = phase_enter(w->watch, PHASE_CHECKPOINT);
    rc = node_write_checkpoint(n, n->epoch, e);
    phase_enter(w->watch, last);
    return rc;
}

static int check_test(const struct worker_loop *w, struct err *e)
{
    const struct step *s = &w->n->step;

    return w->n->loader.n_test == 0 ? 0 : step_check_test(s, w->test_loss, step_is_last(s), e);
}

static int evaluate(struct worker_loop *w, struct err *e)
{
    struct node *n = w->n;
    struct report_progress p;
    size_t batch = (size_t)n->max_batch;
    double quality;

    metrics_begin(n->metrics);
    node_take_model(n);
    for (size_t i = 0; i < n->loader.n_test; i += batch) {
        size_t k = n->loader.n_test - i < batch ? n->loader.n_test - i : batch;
        struct truth truth = loader_truth(&w->batch);

        if (node_catch_up(n, e) < 0)
            return e->code;
        loader_test(&n->loader, i, k, &w->batch);
        node_swap_model(n);
        metrics_add(n->metrics, net_forward(n->net, w->batch.x, (int)k), &truth, (int)k);
        node_swap_model(n);
    }
    p = node_progress(n);
    p.loss = metrics_loss(n->metrics);
    if (!metrics_value(n->metrics, METRIC_ACCURACY, &p.accuracy))
        p.accuracy = NAN;
    if (node_record_evaluation(n, p.loss, p.accuracy, e) < 0 || node_report_progress(n, e) < 0)
        return e->code;
    report_eval(n->report, &p);
    w->evaluated = n->step.n_done;
    w->test_loss = p.loss;
    w->test_accuracy = p.accuracy;
    if (check_test(w, e) < 0)
        return e->code;
    quality = isnan(p.accuracy) ? -p.loss : p.accuracy;
    if (!isfinite(p.loss) || !(quality > n->best))
        return 0;
    n->best = quality;
    return node_write_model(n, artifact_name(ARTIFACT_BEST_MODEL), p.loss, e);
}

/* Writes the model if it is asked for. The time it takes belongs to no step. */
static void show_model(struct worker_loop *w)
{
    if (!snapshot_take(w->n))
        return;
    phase_enter(w->watch, PHASE_COMPUTE);
    step_begin(&w->n->step);
}

/* The other workers have evaluated after the same step: what all make of it. */
static int share(struct worker_loop *w, struct err *e)
{
    struct exchange *x = w->n->exchange;

    if (!exchange_shares_evaluations(x))
        return 0;
    return wait_for_go(w, exchange_evaluated(x, w->evaluated, w->test_loss, w->test_accuracy, e), e);
}

/* Evaluates within an epoch. The time it takes belongs to no step. */
static int evaluate_within(struct worker_loop *w, struct err *e)
{
    phase_enter(w->watch, PHASE_EVALUATE);
    if (evaluate(w, e) < 0 || (step_is_evaluated(&w->n->step) && share(w, e) < 0))
        return e->code;
    phase_enter(w->watch, PHASE_COMPUTE);
    step_begin(&w->n->step);
    return 0;
}

static int step(struct worker_loop *w, size_t row, struct err *e)
{
    struct node *n = w->n;
    struct step *s = &n->step;
    struct record_train r;
    bool is_evaluated;
    enum phase last;

    if (!exchange_takes_part(n->exchange))
        step_sit_out(s);
    else if (gradient(w, row, e) < 0)
        return e->code;
    if (wait_for_go(w, step_exchange(s, e), e) < 0)
        return e->code;
    last = phase_enter(w->watch, PHASE_APPLY);
    if (step_update(s, e) < 0)
        return e->code;
    phase_enter(w->watch, last);
    if (exchange_closes_early(n->exchange, s->n_done) && keep(w, e) < 0)
        return e->code;
    if (wait_for_go(w, exchange_on_step(n->exchange, e), e) < 0)
        return e->code;
    r = step_end(s, n->started);
    if (step_is_recorded(s) && record_write(&n->records[ARTIFACT_TRAIN], &r, sizeof r, 1, e) < 0)
        return e->code;
    if (node_record_comm(n, e) < 0)
        return e->code;
    show_model(w);
    is_evaluated = exchange_take_evaluation(n->exchange) || step_is_evaluated(s);
    if (is_evaluated && row + 1 < n->loader.n_rows && !step_is_last(&n->step) && evaluate_within(w, e) < 0)
        return e->code;
    return report_is_due(n->report, stopwatch_since(w->watch)) ? node_report_progress(n, e) : 0;
}

/* Reports dropped messages and skipped steps at the job's end. */
static void report_skipped(struct worker_loop *w)
{
    unsigned long long overtaken = exchange_totals(w->n->exchange)->n_overtaken;
    char text[128];

    if (overtaken > 0)
        fprintf(stderr,
                "%llu messages were dropped: newer ones replaced them, or their receiver accepted none\n",
                overtaken);
    if (w->n->job.node == 0 && exchange_combined_nothing(w->n->exchange))
        report_warn(w->n->report, "no exchange had a contribution with a weight: nothing was combined");
    if (w->n->step.n_left_out == 0)
        return;
    snprintf(text, sizeof text,
             "node %d: %llu gradients or updates that were not finite were left out in %llu steps",
             w->n->job.node, (unsigned long long)w->n->step.n_left_out,
             (unsigned long long)w->n->step.n_done);
    report_warn(w->n->report, text);
}

static void report_coding(const struct node *n)
{
    struct compress_report r = exchange_coded(n->exchange);

    if (r.n_symbols > 0)
        fprintf(stderr, "coded %.0f symbols with %.3f bits each; their entropy is %.3f bits\n", r.n_symbols,
                r.n_bits / r.n_symbols, r.entropy / r.n_symbols);
}

/* In a job with barriers: waits for the others. */
static int meet(struct worker_loop *w, enum barrier_kind kind, struct err *e)
{
    struct node *n = w->n;
    uint64_t n_epochs = n->step.n_done / (uint64_t)n->set.steps_per_epoch;

    if (!exchange_has_barriers(n->exchange) || (kind == BARRIER_EPOCH && !node_keeps_epoch(n, n->epoch)))
        return 0;
    return wait_for_go(w, exchange_reach(n->exchange, kind, n_epochs, e), e);
}

static void report_stop(const struct node *n)
{
    struct stop why = step_stop(&n->step);

    if (why.reason != STOP_NONE)
        report_stopped(n->report, &why);
}

/* The job's last evaluation, of the model that is its result: unless it was made after the last step, and
 * nothing has changed since. In ssgd workers share that of a whole epoch, which a longer job goes on with. */
static int evaluate_last(struct worker_loop *w, bool is_new, bool is_whole, struct err *e)
{
    if (!is_new)
        return check_test(w, e);
    if (evaluate(w, e) < 0)
        return e->code;
    return is_whole && w->n->set.sync == SYNC_SSGD ? share(w, e) : 0;
}

/* The job ends here: a decision of its nodes may have come after the last step's exchange. */
static int end_job(struct worker_loop *w, bool is_whole, struct err *e)
{
    struct node *n = w->n;
    bool is_new = w->evaluated != n->step.n_done || exchange_close_changes(n->exchange) ||
                  exchange_has_barriers(n->exchange);

    w->has_ended = true;
    if (exchange_must_close(n->exchange) &&
        (wait_for_go(w, exchange_close(n->exchange, e), e) < 0 || node_record_comm(n, e) < 0))
        return e->code;
    if (meet(w, BARRIER_END, e) < 0)
        return e->code;
    phase_enter(w->watch, PHASE_EVALUATE);
    if (evaluate_last(w, is_new, is_whole, e) < 0)
        return e->code;
    report_stop(n);
    return 0;
}

/* After an epoch's last step, or the job's. */
static int end_epoch(struct worker_loop *w, bool is_whole, struct err *e)
{
    struct node *n = w->n;
    bool is_last = step_is_last(&n->step);
    /* What a longer job goes on with is replaced at the job's end: by the result that comes with the last
     * barrier, or by an exchange that a longer job has later. */
    bool keeps_before = is_last && (exchange_has_barriers(n->exchange) || exchange_must_close(n->exchange));

    if (is_whole && (meet(w, BARRIER_EPOCH, e) < 0 || (keeps_before && keep(w, e) < 0)))
        return e->code;
    phase_enter(w->watch, PHASE_EVALUATE);
    if (is_last ? end_job(w, is_whole && !keeps_before, e) < 0 : evaluate(w, e) < 0 || share(w, e) < 0)
        return e->code;
    /* After the evaluation: a job that goes on from here has all rows up to here. */
    return is_whole && !keeps_before ? keep(w, e) : 0;
}

/* The epoch's mini-batches of this node's blocks. */
static int own_rows(struct worker_loop *w, size_t *row, struct err *e)
{
    struct node *n = w->n;

    for (; *row < n->loader.n_rows && !step_is_last(&n->step); ++*row)
        if (step(w, *row, e) < 0)
            return e->code;
    return 0;
}

/* Those that the first server gives to this worker. The first one of a later epoch is kept for it. */
static int shared_rows(struct worker_loop *w, struct err *e)
{
    struct node *n = w->n;
    uint64_t *place = &n->step.place, n_rows = n->loader.n_rows;

    while (!step_is_last(&n->step)) {
        if (wait_for_go(w, exchange_await_next(n->exchange, e), e) < 0)
            return e->code;
        if (!exchange_next_is_of(n->exchange, (uint64_t)n->epoch - 1, n_rows))
            return 0;
        *place = exchange_take_next(n->exchange);
        if (exchange_ask_next(n->exchange, e) < 0 || step(w, (size_t)(*place % n_rows), e) < 0)
            return e->code;
    }
    return 0;
}

static int loop(struct worker_loop *w, struct err *e)
{
    struct node *n = w->n;

    for (int epoch = n->first_epoch; epoch < n->set.epochs && !step_is_last(&n->step); epoch++) {
        size_t row = 0;

        n->epoch = epoch + 1;
        phase_enter(w->watch, PHASE_COMPUTE);
        step_begin(&n->step);
        loader_epoch(&n->loader, (uint64_t)epoch);
        if (exchange_is_fed(n->exchange) ? shared_rows(w, e) < 0 : own_rows(w, &row, e) < 0)
            return e->code;
        if (w->watch->tracer)
            w->watch->tracer->step = 0;
        if (end_epoch(w, row == n->loader.n_rows && !exchange_closes_early(n->exchange, n->step.n_done), e) <
            0)
            return e->code;
    }
    /* What ends the job may come during an epoch's evaluation, or follow from it. */
    if (!w->has_ended && end_job(w, false, e) < 0)
        return e->code;
    exchange_end_rounds(n->exchange);
    report_skipped(w);
    report_coding(n);
    return node_record_comm(n, e);
}

int node_train(struct node *n, struct err *e)
{
    struct worker_loop w = {.n = n, .watch = exchange_watch(n->exchange)};
    int rc = loader_batch_init(&w.batch, &n->loader, (size_t)n->max_batch, e);

    if (rc == 0)
        rc = loop(&w, e);
    loader_batch_clear(&w.batch);
    return rc;
}
