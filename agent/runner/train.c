/* train -- a worker's part: step by step, a batch of each of its blocks, forward, backward, what the codec
 * does with the gradient, the update, what the codec does with the weights; after each epoch the test set. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/runner/node.h"
#include "shared/clock.h"

enum {
    BACKLOG_MAX = 8, /* messages waiting for one peer before this node pauses for it */
    EVAL_BATCH = 256
};

struct worker_loop {
    struct node *n;
    struct feed_batch batch;
    float *sum;                    /* the gradient over several blocks, where there are several */
    double waited, compute;        /* seconds of this step */
    struct exchange_totals before; /* at the step's begin */
    uint64_t samples;
    struct net_score score;
    double grad_norm;
};

static int timed_out(struct node *n, struct err *e)
{
    char what[128];

    exchange_waits_for(n->exchange, what, sizeof what);
    err_set(e, ERR_TIMEOUT, "%s has not come for %g s", what, n->set.round_timeout_s);
    return err_hint(e, "Is that node slow or stuck? --round-timeout allows more.");
}

/* Feeds the exchange until it has what it waits for. A round has its time for each word; an event rule, of which
 * the host does not know what it waits for, for each message. */
static int wait_for_go(struct worker_loop *w, int rc, struct err *e)
{
    struct node *n = w->n;
    double start = clock_now();
    double decoding = exchange_totals(n->exchange)->decode_s;
    double deadline = start + n->set.round_timeout_s;
    char waiting[128] = "", now[128];

    while (rc == CODEC_WAIT) {
        bool came;

        rc = node_pump(n, deadline, &came, e);
        if (rc == CODEC_WAIT && came) {
            exchange_waits_for(n->exchange, now, sizeof now);
            if (n->codec.plugin->events || strcmp(now, waiting) != 0)
                deadline = clock_now() + n->set.round_timeout_s;
            memcpy(waiting, now, sizeof now);
        }
        if (rc == CODEC_WAIT && clock_now() >= deadline)
            return timed_out(n, e);
    }
    w->waited += clock_now() - start - (exchange_totals(n->exchange)->decode_s - decoding);
    return rc;
}

/* Between blocks, steps and test batches: hears what has come, so that no peer waits for this node to read, and
 * waits itself while some peer does not take what it is sent. */
static int catch_up(struct worker_loop *w, struct err *e)
{
    struct node *n = w->n;
    double start = clock_now();
    double deadline = start + n->set.round_timeout_s;
    bool came = true;

    while (came || mesh_queued(n->mesh) > BACKLOG_MAX) {
        if (node_pump(n, came ? 0 : deadline, &came, e) < 0)
            return e->code;
        if (!came && mesh_queued(n->mesh) > BACKLOG_MAX && clock_now() >= deadline)
            return err_set(e, ERR_TIMEOUT, "a peer has not taken its messages for %g s",
                           n->set.round_timeout_s);
    }
    w->waited += clock_now() - start;
    return 0;
}

/* All who hold a block drop the same of it in a step: so they have the same gradient. */
static uint64_t block_stream(const struct node *n, int i)
{
    return n->progress.step * (uint64_t)n->blocks.n_blocks + (uint64_t)n->feed.blocks[i];
}

/* Gradient over my blocks: their mean, as all have equally many samples. */
static int gradient(struct worker_loop *w, size_t row, struct err *e)
{
    struct node *n = w->n;
    float *grads = net_grads(n->net);
    size_t n_params = net_n_params(n->net);
    float part = 1.0f / (float)n->feed.n_blocks;

    for (int b = 0; b < n->feed.n_blocks; b++) {
        struct net_batch batch = {.x = w->batch.x,
                                  .truth = feed_truth(&w->batch),
                                  .n = n->set.batch_size,
                                  .seed = n->set.seed,
                                  .stream = block_stream(n, b)};
        double start;

        if (catch_up(w, e) < 0)
            return e->code;
        start = clock_now();
        feed_block(&n->feed, row, b, &w->batch);
        net_train(n->net, &batch, &w->score);
        w->compute += clock_now() - start;
        if (!isfinite(w->score.loss))
            return err_set(e, ERR_NUMERIC, "the loss is not finite in epoch %d, step %llu", n->progress.epoch,
                           (unsigned long long)n->progress.step + 1);
        if (exchange_wants_blocks(n->exchange) && exchange_on_block(n->exchange, n->feed.blocks[b], e) < 0)
            return e->code;
        for (size_t i = 0; w->sum && i < n_params; i++)
            w->sum[i] = (b > 0 ? w->sum[i] : 0) + part * grads[i];
    }
    for (size_t i = 0; w->sum && i < n_params; i++)
        grads[i] = w->sum[i];
    return 0;
}

static double norm(const float *v, size_t n)
{
    double lane[8] = {0}; /* separate sums: one would wait for itself */
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        lane[i % 8] += (double)v[i] * v[i];
    for (int k = 0; k < 8; k++)
        sum += lane[k];
    return sqrt(sum);
}

static int record_step(struct worker_loop *w, size_t row, struct err *e)
{
    struct node *n = w->n;
    const struct exchange_totals *t = exchange_totals(n->exchange);
    struct record_train r = {
        .time_s = clock_now() - n->started,
        .node = n->job.node,
        .role = n->job.role,
        .epoch = n->progress.epoch,
        .batch = row + 1,
        .batches = n->feed.n_rows,
        .step = n->progress.step,
        .samples = w->samples,
        .loss = w->score.loss / (double)w->score.n,
        .accuracy = (double)w->score.n_right / (double)w->score.n,
        .lr = n->set.learn_rate,
        .grad_norm = w->grad_norm,
        .staleness = RECORD_MISSING,
        .compute_s = w->compute,
        .encode_s = t->encode_s - w->before.encode_s,
        .send_s = t->send_s - w->before.send_s,
        .wait_s = w->waited,
        .decode_s = t->decode_s - w->before.decode_s,
        .raw_bytes = t->raw_bytes - w->before.raw_bytes,
        .sent_bytes = t->sent_bytes - w->before.sent_bytes,
        .recv_bytes = t->recv_bytes - w->before.recv_bytes,
    };

    return record_write(&n->train, &r, sizeof r, 1, e);
}

static bool is_recorded(const struct worker_loop *w)
{
    return w->n->progress.step % (uint64_t)w->n->set.record_every == 0;
}

static int step(struct worker_loop *w, size_t row, struct err *e)
{
    struct node *n = w->n;
    size_t n_samples = (size_t)(n->feed.n_blocks * n->set.batch_size);
    double start;

    w->waited = w->compute = 0;
    w->score = (struct net_score){0};
    w->before = *exchange_totals(n->exchange);
    if (gradient(w, row, e) < 0)
        return e->code;
    if (wait_for_go(w, exchange_on_grad(n->exchange, n_samples, e), e) < 0)
        return e->code;
    n->progress.step++;
    start = clock_now();
    if (is_recorded(w))
        w->grad_norm = norm(net_grads(n->net), net_n_trained(n->net));
    optimizer_step(n->optimizer, net_params(n->net), net_grads(n->net));
    net_step_state(n->net);
    w->compute += clock_now() - start;
    if (wait_for_go(w, exchange_on_step(n->exchange, e), e) < 0)
        return e->code;
    w->samples += n_samples;
    n->progress.loss = w->score.loss / (double)w->score.n;
    n->progress.accuracy = (double)w->score.n_right / (double)w->score.n;
    n->progress.sent_bytes = exchange_totals(n->exchange)->sent_bytes;
    n->progress.recv_bytes = exchange_totals(n->exchange)->recv_bytes;
    if (report_is_due(n->report))
        report_progress(n->report, &n->progress);
    if (is_recorded(w) && record_step(w, row, e) < 0)
        return e->code;
    return node_record_comm(n, e);
}

static int evaluate(struct worker_loop *w, struct err *e)
{
    struct node *n = w->n;
    struct net_score s = {0};
    struct report_progress p = n->progress;
    struct record_eval r;

    for (size_t i = 0; i < n->feed.n_test; i += EVAL_BATCH) {
        size_t k = n->feed.n_test - i < EVAL_BATCH ? n->feed.n_test - i : EVAL_BATCH;

        if (catch_up(w, e) < 0)
            return e->code;
        feed_test(&n->feed, i, k, &w->batch);
        net_evaluate(n->net,
                     &(struct net_batch){.x = w->batch.x, .truth = feed_truth(&w->batch), .n = (int)k}, &s);
    }
    p.loss = s.loss / (double)s.n;
    p.accuracy = (double)s.n_right / (double)s.n;
    r = (struct record_eval){.time_s = clock_now() - n->started,
                             .node = n->job.node,
                             .epoch = p.epoch,
                             .step = p.step,
                             .samples = w->samples,
                             .loss = p.loss,
                             .accuracy = p.accuracy,
                             .sent_bytes_total = p.sent_bytes,
                             .recv_bytes_total = p.recv_bytes};
    n->test_loss = p.loss;
    report_progress(n->report, &n->progress);
    report_eval(n->report, &p);
    if (record_write(&n->eval, &r, sizeof r, 1, e) < 0)
        return e->code;
    if (p.accuracy <= n->best_accuracy)
        return 0;
    n->best_accuracy = p.accuracy;
    return node_write_model(n, "best.safetensors", e);
}

static int loop(struct worker_loop *w, struct err *e)
{
    struct node *n = w->n;

    n->progress.epochs = n->set.epochs;
    n->progress.steps = n->feed.n_rows * (uint64_t)n->set.epochs;
    for (int epoch = 0; epoch < n->set.epochs; epoch++) {
        n->progress.epoch = epoch + 1;
        feed_epoch(&n->feed, (uint64_t)epoch);
        for (size_t row = 0; row < n->feed.n_rows; row++)
            if (step(w, row, e) < 0)
                return e->code;
        if (evaluate(w, e) < 0)
            return e->code;
    }
    if (exchange_totals(n->exchange)->n_overtaken > 0)
        fprintf(stderr, "%llu words came too late to count\n",
                (unsigned long long)exchange_totals(n->exchange)->n_overtaken);
    return 0;
}

int node_train(struct node *n, struct err *e)
{
    size_t rows = n->set.batch_size > EVAL_BATCH ? (size_t)n->set.batch_size : EVAL_BATCH;
    struct worker_loop w = {.n = n};
    int rc;

    if (n->feed.n_blocks > 1 && !(w.sum = malloc(net_n_params(n->net) * sizeof *w.sum)))
        return err_set(e, ERR_NOMEM, "no memory for the gradient of several blocks");
    rc = feed_batch_init(&w.batch, &n->feed, rows, e);
    if (rc == 0)
        rc = loop(&w, e);
    feed_batch_clear(&w.batch);
    free(w.sum);
    return rc;
}
