/* train -- a worker's training loop. A step: a batch of each of its blocks, forward, backward, the codec's
 * exchange of the gradient, the update, the codec's exchange of the weights; after each epoch an evaluation
 * on the test set. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/runner/exchange/exchange_state.h"
#include "agent/runner/node.h"
#include "agent/runner/vector.h"
#include "shared/clock.h"

/* Between layers, polling for messages takes a microsecond or two: not more often than this. */
static const double LOOK_S = 100e-6;

struct worker_loop {
    struct node *n;
    struct stopwatch *watch;
    struct loader_batch batch;
    float *sum;   /* (n_params): the mean gradient of several blocks; NULL: one block */
    double begun; /* clock_now at the step's begin, as the next two */
    double spent[N_STEP_PHASES];
    struct exchange_totals before;
    struct net_score score;
    double lr, grad_norm;
    bool may_skip;       /* a step that is not finite is skipped, else it ends the job */
    uint64_t n_left_out; /* skipped gradients and updates of this node */
    double looked_at;    /* clock_now of the last poll between layers */
    struct err between;  /* a failure in between_layers */
};

static int timed_out(struct node *n, struct err *e)
{
    char what[128];

    exchange_waits_for(n->exchange, what, sizeof what);
    err_set(e, ERR_TIMEOUT, "%s has not arrived for %g s", what, n->set.round_timeout_s);
    return err_hint(e, "Is that node slow or stuck? --round-timeout sets the limit.");
}

/* Passes events to the exchange until it has what it waits for. The timeout restarts with each contribution
 * to a round; with an event rule, whose condition the host does not know, with each message. */
static int wait_for_go(struct worker_loop *w, int rc, struct err *e)
{
    struct node *n = w->n;
    char waiting[128] = "", now[128];
    enum phase last;
    double deadline;

    if (rc != CODEC_WAIT)
        return rc;
    last = phase_enter(w->watch, PHASE_WAIT);
    deadline = stopwatch_since(w->watch) + n->set.round_timeout_s;
    while (rc == CODEC_WAIT) {
        bool came;

        rc = node_pump(n, deadline, &came, e);
        if (rc == CODEC_WAIT && came) {
            exchange_waits_for(n->exchange, now, sizeof now);
            if (n->codec.plugin->events || strcmp(now, waiting) != 0)
                deadline = clock_now() + n->set.round_timeout_s;
            memcpy(waiting, now, sizeof now);
        }
        if (rc == CODEC_WAIT && !came && node_flush_records(n, e) < 0) /* it may take long */
            return e->code;
        if (rc == CODEC_WAIT && clock_now() >= deadline)
            return timed_out(n, e);
    }
    phase_enter(w->watch, last);
    return rc;
}

/* Steps can be skipped only while the weights themselves are finite. */
static bool can_skip(const struct worker_loop *w)
{
    return w->may_skip && isfinite(gradient_norm(net_params(w->n->net), net_n_params(w->n->net)));
}

/* Applies the policy to a step with a value that is not finite. */
static int left_out(struct worker_loop *w, const char *what, const char *then, struct err *e)
{
    struct node *n = w->n;
    char text[512];

    err_set(e, ERR_NUMERIC, "node %d, epoch %d, step %llu: %s", n->job.node, n->progress.epoch,
            (unsigned long long)n->progress.step + 1, what);
    if (!can_skip(w))
        return err_hint(e, w->may_skip
                               ? "No step can be left out any more: the weights are not finite either."
                               : "A smaller --learn_rate, --warmup-steps or --clip-norm may help; "
                                 "--on-nonfinite skip leaves such steps out.");
    if (w->n_left_out++ == 0) {
        snprintf(text, sizeof text, "%.400s; %s (the first time)", e->text, then);
        report_warn(n->report, text);
    }
    return 0;
}

/* Checks one block's loss and gradient before they are exchanged. A node that skips its gradient sends 0
 * instead: so every rule continues, no node waits, and all nodes still use the same gradient. Without
 * peers, or if the job ends anyway and an all-reduce shows it to all nodes, the check in update() is early
 * enough. */
static int check_gradient(struct worker_loop *w, double loss, struct err *e)
{
    struct node *n = w->n;
    bool can_wait = n->n_peers == 0 || (!w->may_skip && exchange_collects(n->exchange));
    const char *tensor = isfinite(loss) && can_wait ? NULL : net_nonfinite(n->net);
    char what[256];

    if (isfinite(loss) && !tensor)
        return 0;
    if (tensor)
        snprintf(what, sizeof what, "the loss is %g, and the gradient of %s is not finite", err_number(loss),
                 tensor);
    else
        snprintf(what, sizeof what, "the loss is %g", err_number(loss));
    if (left_out(w, what, "its gradient is left out", e) < 0)
        return e->code;
    memset(net_grads(n->net), 0, net_n_params(n->net) * sizeof(float));
    return 0;
}

/* An exchanged gradient can no longer be skipped. */
static bool overlaps(const struct worker_loop *w)
{
    return !w->may_skip && w->n->loader.n_blocks == 1;
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

/* Computes the gradient: the mean over this node's blocks, which have equally many samples. */
static int gradient(struct worker_loop *w, size_t row, struct err *e)
{
    struct node *n = w->n;
    float *grads = net_grads(n->net);
    size_t n_params = net_n_params(n->net);
    float part = 1.0f / (float)n->loader.n_blocks;

    for (int b = 0; b < n->loader.n_blocks; b++) {
        struct net_batch batch = {.x = w->batch.x,
                                  .truth = loader_truth(&w->batch),
                                  .n = n->set.batch_size,
                                  .seed = n->set.seed,
                                  .stream = blocks_stream(&n->blocks, n->progress.step, n->loader.blocks[b]),
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
        w->score.loss += score.loss;
        w->score.n += score.n;
        w->score.n_right += score.n_right;
        if (check_gradient(w, score.loss, e) < 0)
            return e->code;
        if (exchange_wants_blocks(n->exchange) && exchange_on_block(n->exchange, n->loader.blocks[b], e) < 0)
            return e->code;
        if (w->sum)
            (b > 0 ? vector_add : vector_scale)(w->sum, grads, part, n_params);
    }
    if (w->sum)
        memcpy(grads, w->sum, n_params * sizeof *grads);
    return 0;
}

/* Copies the exchanged gradient, from parameter `first` on, to the net's own gradients: the net uses only
 * these. */
static void copy_gradient(struct node *n, size_t first)
{
    const float *grads = exchange_gradient(n->exchange);

    if (grads != net_grads(n->net))
        memcpy(net_grads(n->net) + first, grads + first, (net_n_params(n->net) - first) * sizeof *grads);
}

/* Updates the parameters with the exchanged gradient, which may not be finite: a peer may have sent such
 * values, or sums may overflow float. Under a rule that exchanges gradients all nodes see the same values
 * and decide the same, also if every node has skipped its own gradient, where momentum alone would change
 * the parameters. */
static int update(struct worker_loop *w, struct err *e)
{
    struct node *n = w->n;
    size_t n_trained = net_n_trained(n->net);
    const float *grads = exchange_gradient(n->exchange);
    double state = gradient_norm(grads + n_trained, net_n_params(n->net) - n_trained);
    /* Otherwise the step does not depend on the norm: a value that is not finite ends the job. */
    bool norm_first = w->may_skip || n->set.clip_norm > 0 || !exchange_updates_here(n->exchange);
    float *params = net_params(n->net);
    char what[256];

    w->lr = node_learn_rate(n, n->progress.step) * (double)exchange_lr_factor(n->exchange);
    w->grad_norm = norm_first ? gradient_norm(grads, n_trained)
                              : optimizer_step(n->optimizer, params, grads, (float)w->lr, 1);
    if (!isfinite(w->grad_norm) || !isfinite(state)) {
        const char *own = grads == net_grads(n->net) ? NULL : net_nonfinite(n->net);

        copy_gradient(n, 0);
        snprintf(what, sizeof what, "%sthe gradient of %s is not finite", own ? "" : "after the exchange ",
                 own ? own : net_nonfinite(n->net));
        return left_out(w, what, "the update is left out", e);
    }
    if (!exchange_updates_here(n->exchange) || (w->may_skip && w->grad_norm == 0))
        return 0;
    if (norm_first)
        optimizer_step(n->optimizer, params, grads, (float)w->lr,
                       gradient_clip(w->grad_norm, n->set.clip_norm));
    copy_gradient(n, n_trained);
    net_step_state(n->net);
    return 0;
}

/* Time and bytes since the last switch of the stopwatch belong to the next step. */
static void begin_step(struct worker_loop *w)
{
    w->begun = stopwatch_since(w->watch);
    memcpy(w->spent, w->watch->spent, sizeof w->spent);
    w->before = *exchange_totals(w->n->exchange);
    w->score = (struct net_score){0};
    if (w->watch->tracer)
        w->watch->tracer->step = w->n->progress.step + 1;
}

static double spent_in(const struct worker_loop *w, enum phase p)
{
    return w->watch->spent[p] - w->spent[p];
}

/* Ends the step and begins the next one at the same moment. */
static struct record_train end_step(struct worker_loop *w, size_t row)
{
    struct node *n = w->n;
    const struct exchange_totals *t = exchange_totals(n->exchange);
    struct record_train r;

    n->progress.traffic = *t;
    phase_enter(w->watch, PHASE_COMPUTE);
    if (w->watch->tracer)
        tracer_span(w->watch->tracer, TRACE_STEP, w->begun, stopwatch_since(w->watch));
    r = (struct record_train){
        .time_s = stopwatch_since(w->watch) - n->started,
        .node = n->job.node,
        .role = n->job.role,
        .epoch = n->progress.epoch,
        .batch = row + 1,
        .batches = n->loader.n_rows,
        .step = n->progress.step,
        .samples = n->samples,
        .loss = n->progress.loss,
        .accuracy = n->loader.train.labels ? n->progress.accuracy : RECORD_MISSING,
        .lr = w->lr,
        .grad_norm = w->grad_norm,
        .compute_s = spent_in(w, PHASE_COMPUTE),
        .encode_s = spent_in(w, PHASE_ENCODE),
        .send_s = spent_in(w, PHASE_SEND),
        .wait_s = spent_in(w, PHASE_WAIT),
        .decode_s = spent_in(w, PHASE_DECODE),
        .raw_bytes = t->raw_bytes - w->before.raw_bytes,
        .sent_bytes = t->sent_bytes - w->before.sent_bytes,
        .recv_bytes = t->recv_bytes - w->before.recv_bytes,
        .apply_s = spent_in(w, PHASE_APPLY),
    };
    begin_step(w);
    return r;
}

static bool is_recorded(const struct worker_loop *w)
{
    return w->n->progress.step % (uint64_t)w->n->set.record_every == 0;
}

/* Writes the epoch's checkpoint, if one is due. A job that exchanges once more after its last step saves
 * the state before that: a resumed job has not had that exchange. */
static int keep(struct worker_loop *w, struct err *e)
{
    struct node *n = w->n;
    enum phase last;
    int rc;

    if (!node_keeps_epoch(n, n->progress.epoch))
        return 0;
    last = phase_enter(w->watch, PHASE_CHECKPOINT);
    rc = node_write_checkpoint(n, n->progress.epoch, e);
    phase_enter(w->watch, last);
    return rc;
}

static int evaluate(struct worker_loop *w, struct err *e)
{
    struct node *n = w->n;
    struct report_progress p = n->progress;
    size_t batch = (size_t)n->max_batch;
    bool is_last = p.step == p.steps || exchange_wants_stop(n->exchange);
    double quality;

    metrics_begin(n->metrics);
    for (size_t i = 0; i < n->loader.n_test; i += batch) {
        size_t k = n->loader.n_test - i < batch ? n->loader.n_test - i : batch;
        struct truth truth = loader_truth(&w->batch);

        if (node_catch_up(n, e) < 0)
            return e->code;
        loader_test(&n->loader, i, k, &w->batch);
        metrics_add(n->metrics, net_forward(n->net, w->batch.x, (int)k), &truth, (int)k);
    }
    p.loss = metrics_loss(n->metrics);
    if (!metrics_value(n->metrics, METRIC_ACCURACY, &p.accuracy))
        p.accuracy = NAN;
    if (node_record_evaluation(n, p.loss, p.accuracy, e) < 0 || node_report_progress(n, e) < 0)
        return e->code;
    report_eval(n->report, &p);
    /* A job whose final test loss is not finite has failed, whatever steps may be skipped. */
    if (n->loader.n_test > 0 && !isfinite(p.loss) && (is_last || !can_skip(w)))
        return err_set(e, ERR_NUMERIC, "node %d, epoch %d, step %llu: the loss on the test set is %g",
                       n->job.node, p.epoch, (unsigned long long)p.step, err_number(p.loss));
    quality = isnan(p.accuracy) ? -p.loss : p.accuracy;
    if (!isfinite(p.loss) || !(quality > n->best))
        return 0;
    n->best = quality;
    return node_write_model(n, "best.safetensors", p.loss, e);
}

/* Evaluates within an epoch, at the codec's request. The time it takes belongs to no step. */
static int evaluate_within(struct worker_loop *w, struct err *e)
{
    phase_enter(w->watch, PHASE_EVALUATE);
    if (evaluate(w, e) < 0)
        return e->code;
    phase_enter(w->watch, PHASE_COMPUTE);
    begin_step(w);
    return 0;
}

static int step(struct worker_loop *w, size_t row, struct err *e)
{
    struct node *n = w->n;
    size_t n_samples = (size_t)n->loader.n_blocks * (size_t)n->set.batch_size;
    struct record_train r;
    enum phase last;

    if (gradient(w, row, e) < 0)
        return e->code;
    if (wait_for_go(w, exchange_on_grad(n->exchange, n_samples, e), e) < 0)
        return e->code;
    last = phase_enter(w->watch, PHASE_APPLY);
    if (update(w, e) < 0)
        return e->code;
    phase_enter(w->watch, last);
    n->progress.step++;
    n->samples += n_samples;
    if (exchange_closes_early(n->exchange, n->progress.step) && keep(w, e) < 0)
        return e->code;
    if (wait_for_go(w, exchange_on_step(n->exchange, e), e) < 0)
        return e->code;
    n->progress.loss = w->score.loss / (double)w->score.n;
    n->progress.accuracy = n->loader.train.labels ? (double)w->score.n_right / (double)w->score.n : NAN;
    r = end_step(w, row);
    if (is_recorded(w) && record_write(&n->train, &r, sizeof r, 1, e) < 0)
        return e->code;
    if (node_record_comm(n, e) < 0)
        return e->code;
    if (exchange_take_evaluation(n->exchange) && row + 1 < n->loader.n_rows && evaluate_within(w, e) < 0)
        return e->code;
    return report_is_due(n->report, w->begun) ? node_report_progress(n, e) : 0;
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
    if (w->n_left_out == 0)
        return;
    snprintf(text, sizeof text,
             "node %d: %llu gradients or updates that were not finite were left out in %llu steps",
             w->n->job.node, (unsigned long long)w->n_left_out, (unsigned long long)w->n->progress.step);
    report_warn(w->n->report, text);
}

static void report_coding(const struct node *n)
{
    struct compress_report r = exchange_coded(n->exchange);

    if (r.n_symbols > 0)
        fprintf(stderr, "coded %.0f symbols with %.3f bits each; their entropy is %.3f bits\n", r.n_symbols,
                r.n_bits / r.n_symbols, r.entropy / r.n_symbols);
}

static int loop(struct worker_loop *w, struct err *e)
{
    struct node *n = w->n;

    n->progress.epochs = n->set.epochs;
    n->progress.steps = n->loader.n_rows * (uint64_t)n->set.epochs;
    for (int epoch = n->first_epoch; epoch < n->set.epochs && !exchange_wants_stop(n->exchange); epoch++) {
        size_t row = 0;

        n->progress.epoch = epoch + 1;
        phase_enter(w->watch, PHASE_COMPUTE);
        begin_step(w);
        loader_epoch(&n->loader, (uint64_t)epoch);
        for (; row < n->loader.n_rows && !exchange_wants_stop(n->exchange); row++)
            if (step(w, row, e) < 0)
                return e->code;
        if (w->watch->tracer)
            w->watch->tracer->step = 0;
        phase_enter(w->watch, PHASE_EVALUATE);
        if (row == n->loader.n_rows && !exchange_closes_early(n->exchange, n->progress.step) &&
            keep(w, e) < 0)
            return e->code;
        if (evaluate(w, e) < 0)
            return e->code;
    }
    report_skipped(w);
    report_coding(n);
    return 0;
}

int node_train(struct node *n, struct err *e)
{
    struct worker_loop w = {
        .n = n, .watch = exchange_watch(n->exchange), .may_skip = strcmp(n->set.on_nonfinite, "skip") == 0};
    int rc;

    if (n->loader.n_blocks > 1 && !(w.sum = malloc(net_n_params(n->net) * sizeof *w.sum)))
        return err_set(e, ERR_NOMEM, "no memory for the gradient of several blocks");
    rc = loader_batch_init(&w.batch, &n->loader, (size_t)n->max_batch, e);
    if (rc == 0)
        rc = loop(&w, e);
    loader_batch_clear(&w.batch);
    free(w.sum);
    return rc;
}
