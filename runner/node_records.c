/* node_records -- what a node writes while it works: its records, with those of an evaluation, its trace, and
 * its progress. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "runner/exchange/exchange_state.h"
#include "runner/node.h"
#include "shared/base/clock.h"

static bool asks_for_rows(const struct metrics *m)
{
    for (int k = 0; m && k < N_METRIC_KINDS; k++)
        if (k != METRIC_CONFUSION && metrics_asked(m, (enum metric_kind)k))
            return true;
    return false;
}

static int open_rows(struct node *n, enum artifact_id a, struct err *e)
{
    return record_open(&n->records[a], artifacts[a].name, artifacts[a].columns, e);
}

int node_record(struct node *n, enum artifact_id a, const void *rows, size_t size, size_t n_rows,
                struct err *e)
{
    if (n->records[a].fd < 0 && (node_enter_folder(n, e) < 0 || open_rows(n, a, e) < 0))
        return e->code;
    return record_write(&n->records[a], rows, size, n_rows, e);
}

int node_open_records(struct node *n, struct err *e)
{
    bool confusion = n->metrics && metrics_asked(n->metrics, METRIC_CONFUSION);

    if ((!n->set.executor && (open_rows(n, ARTIFACT_TRAIN, e) < 0 || open_rows(n, ARTIFACT_EVAL, e) < 0)) ||
        open_rows(n, ARTIFACT_COMM, e) < 0)
        return e->code;
    if (asks_for_rows(n->metrics) && open_rows(n, ARTIFACT_METRICS, e) < 0)
        return e->code;
    if (n->set.trace && tracer_new(&n->tracer, artifact_name(ARTIFACT_TRACE), n->job.node, e) < 0)
        return e->code;
    if (confusion && open_rows(n, ARTIFACT_CONFUSION, e) < 0)
        return e->code;
    return 0;
}

static int on_records(struct node *n, int (*what)(struct record_file *, struct err *), struct err *e)
{
    for (int i = 0; i < N_RECORD_FILES; i++)
        if (n->records[i].fd >= 0 && what(&n->records[i], e) < 0)
            return e->code;
    return 0;
}

int node_flush_records(struct node *n, struct err *e)
{
    return on_records(n, record_flush, e);
}

int node_sync_records(struct node *n, struct err *e)
{
    return on_records(n, record_sync, e);
}

struct report_progress node_progress(const struct node *n)
{
    struct report_progress p = {.epoch = n->epoch,
                                .step = n->step.n_done,
                                .samples = n->step.n_samples,
                                .loss = n->step.loss,
                                .accuracy = n->step.accuracy,
                                .traffic = *exchange_totals(n->exchange),
                                .waits_for = node_waits_for(n)};

    if (n->job.node >= 0) {
        p.epochs = n->set.epochs;
        p.steps = settings_steps(&n->set);
    } else {
        p.step = exchange_rounds(n->exchange);
        p.steps = exchange_rounds_in_all(n->exchange);
    }
    memcpy(p.spent, exchange_watch(n->exchange)->spent, sizeof p.spent);
    return p;
}

int node_report_progress(struct node *n, struct err *e)
{
    const struct report_progress p = node_progress(n);

    if (node_flush_records(n, e) < 0)
        return e->code;
    report_progress(n->report, &p);
    return 0;
}

void node_close_trace(struct node *n)
{
    uint64_t n_dropped;
    char text[160];

    if (!n->tracer)
        return;
    exchange_watch(n->exchange)->tracer = NULL;
    n_dropped = tracer_free(n->tracer);
    n->tracer = NULL;
    if (n_dropped == 0)
        return;
    snprintf(text, sizeof text,
             "node %d: the trace has the first %d spans and messages; %llu later ones are not in it",
             n->job.node, TRACE_RECORDS_MAX, (unsigned long long)n_dropped);
    report_warn(n->report, text);
}

int node_record_comm(struct node *n, struct err *e)
{
    struct record_comm row = {.node = n->job.node}, rows[2];

    if (!exchange_round_done(n->exchange, &row.round))
        return 0;
    row.time_s = clock_now() - n->started;
    for (size_t i = 0; i < n->n_peers; i++) {
        size_t n_rows;

        row.peer = n->peers[i];
        n_rows = exchange_comm_rows(rows, n->exchange, row);
        if (n_rows > 0 && record_write(&n->records[ARTIFACT_COMM], rows, sizeof *rows, n_rows, e) < 0)
            return e->code;
    }
    return 0;
}

/* metrics.csv: one row per metric that the model requests. */
static int record_metrics(struct node *n, double time_s, struct err *e)
{
    struct record_metric rows[N_METRIC_KINDS];
    size_t n_rows = 0;

    for (int k = 0; asks_for_rows(n->metrics) && k < N_METRIC_KINDS; k++) {
        struct record_metric *r = &rows[n_rows];

        if (k == METRIC_CONFUSION || !metrics_asked(n->metrics, (enum metric_kind)k))
            continue;
        *r = (struct record_metric){.time_s = time_s,
                                    .node = n->job.node,
                                    .epoch = n->epoch,
                                    .step = n->step.n_done,
                                    .metric = metric_kind_name((enum metric_kind)k)};
        if (!metrics_value(n->metrics, (enum metric_kind)k, &r->value))
            r->value = RECORD_MISSING;
        n_rows++;
    }
    return n_rows > 0 ? record_write(&n->records[ARTIFACT_METRICS], rows, sizeof *rows, n_rows, e) : 0;
}

/* confusion.csv: one row per pair of label and predicted class that occurred. */
static int record_confusion(struct node *n, struct err *e)
{
    struct record_confusion rows[64];
    size_t n_rows = 0;
    int k;
    const uint64_t *counts = n->metrics ? metrics_confusion(n->metrics, &k) : NULL;

    for (int cell = 0; counts && cell < k * k; cell++) {
        if (counts[cell] > 0)
            rows[n_rows++] = (struct record_confusion){.node = n->job.node,
                                                       .epoch = n->epoch,
                                                       .step = n->step.n_done,
                                                       .label = cell / k,
                                                       .predicted = cell % k,
                                                       .count = counts[cell]};
        if (n_rows == sizeof rows / sizeof *rows || (n_rows > 0 && cell + 1 == k * k)) {
            if (record_write(&n->records[ARTIFACT_CONFUSION], rows, sizeof *rows, n_rows, e) < 0)
                return e->code;
            n_rows = 0;
        }
    }
    return 0;
}

int node_record_sample(struct node *n, struct err *e)
{
    const struct record_sample row = {.time_s = clock_now() - n->started,
                                      .node = n->job.node,
                                      .epoch = n->epoch,
                                      .step = n->step.n_done,
                                      .prompt = n->sample.prompt_line,
                                      .text = n->sample.line};

    return node_record(n, ARTIFACT_SAMPLES, &row, sizeof row, 1, e);
}

int node_record_evaluation(struct node *n, double loss, double accuracy, struct err *e)
{
    struct record_eval r = {.time_s = clock_now() - n->started,
                            .node = n->job.node,
                            .epoch = n->epoch,
                            .step = n->step.n_done,
                            .samples = n->step.n_samples,
                            .loss = loss,
                            .accuracy = isnan(accuracy) ? RECORD_MISSING : accuracy,
                            .sent_bytes_total = n->step.before.sent_bytes,
                            .recv_bytes_total = n->step.before.recv_bytes};

    step_describe_text(&n->step, &r);
    if (record_write(&n->records[ARTIFACT_EVAL], &r, sizeof r, 1, e) < 0 ||
        record_metrics(n, r.time_s, e) < 0)
        return e->code;
    return record_confusion(n, e);
}
