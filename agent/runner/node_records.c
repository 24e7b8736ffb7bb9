/* node_records -- a node's output while it works: its records, its trace, its progress. */
#include <stdio.h>
#include <string.h>

#include "agent/runner/comm_rows.h"
#include "agent/runner/node.h"
#include "shared/clock.h"

static bool asks_for_rows(const struct metrics *m)
{
    for (int k = 0; m && k < N_METRIC_KINDS; k++)
        if (k != METRIC_CONFUSION && metrics_asked(m, (enum metric_kind)k))
            return true;
    return false;
}

int node_open_records(struct node *n, struct err *e)
{
    bool confusion = n->metrics && metrics_asked(n->metrics, METRIC_CONFUSION);

    if (record_open(&n->train, "train.csv", record_train_columns, e) < 0 ||
        record_open(&n->eval, "eval.csv", record_eval_columns, e) < 0 ||
        record_open(&n->comm, "comm.csv", record_comm_columns, e) < 0)
        return e->code;
    if (asks_for_rows(n->metrics) && record_open(&n->metric, "metrics.csv", record_metric_columns, e) < 0)
        return e->code;
    if (n->set.trace && tracer_new(&n->tracer, "trace.bin", n->job.node, e) < 0)
        return e->code;
    if (confusion && record_open(&n->confusion, "confusion.csv", record_confusion_columns, e) < 0)
        return e->code;
    return 0;
}

static int on_records(struct node *n, int (*what)(struct record_file *, struct err *), struct err *e)
{
    struct record_file *const files[] = {&n->train,  &n->eval,      &n->comm,
                                         &n->metric, &n->confusion, &n->rows_of_codec};

    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (files[i]->fd >= 0 && what(files[i], e) < 0)
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
                                .loss = n->step.loss,
                                .accuracy = n->step.accuracy,
                                .traffic = *exchange_totals(n->exchange)};

    if (n->job.node >= 0) {
        p.epochs = n->set.epochs;
        p.steps = (uint64_t)n->set.steps_per_epoch * (uint64_t)n->set.epochs;
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
        n_rows = comm_rows(rows, n->exchange, row);
        if (n_rows > 0 && record_write(&n->comm, rows, sizeof *rows, n_rows, e) < 0)
            return e->code;
    }
    return 0;
}
