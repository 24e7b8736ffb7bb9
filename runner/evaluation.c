/* evaluation -- records a pass over the test set: rows of eval.csv, metrics.csv and confusion.csv. */
#include <math.h>

#include "runner/node.h"
#include "shared/base/clock.h"

/* metrics.csv: one row per metric that the model requests. */
static int record_metrics(struct node *n, double time_s, struct err *e)
{
    struct record_metric rows[N_METRIC_KINDS];
    size_t n_rows = 0;

    for (int k = 0; n->records[ARTIFACT_METRICS].fd >= 0 && k < N_METRIC_KINDS; k++) {
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
    const uint64_t *counts = metrics_confusion(n->metrics, &k);

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

    if (record_write(&n->records[ARTIFACT_EVAL], &r, sizeof r, 1, e) < 0 ||
        record_metrics(n, r.time_s, e) < 0)
        return e->code;
    return record_confusion(n, e);
}
