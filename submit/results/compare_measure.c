#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "shared/base/json.h"
#include "shared/records/record.h"
#include "submit/results/compare.h"
#include "submit/results/run.h"

#define COMPARE_NAME(ID, name, ...) name,
const char *const compare_result_names[N_COMPARE_RESULTS] = {COMPARE_RESULTS(COMPARE_NAME)};
#undef COMPARE_NAME

/* The totals, as the table at the end of the job had them. */
static void take_totals(struct compare_numbers *out, const json_t *doc)
{
    const json_t *mean = json_object_get(doc, "mean_over_workers");
    const json_t *nodes = json_object_get(doc, "nodes"), *node;
    double bytes = 0, n = 0;
    size_t i;

    out->result[COMPARE_ACCURACY] = json_number_at(mean, "eval_accuracy", NAN);
    out->result[COMPARE_LOSS] = json_number_at(mean, "eval_loss", NAN);
    json_array_foreach(nodes, i, node)
    {
        double elapsed = json_number_at(node, "elapsed_s", NAN);
        double of_node = json_number_at(node, "sent_bytes", NAN) + json_number_at(node, "recv_bytes", NAN);

        if (elapsed > 0)
            out->result[COMPARE_TIME] = fmax(out->result[COMPARE_TIME], elapsed);
        if (json_number_at(node, "node", NAN) >= 0 && isfinite(of_node)) {
            bytes += of_node;
            n++;
        }
    }
    if (n > 0)
        out->result[COMPARE_BYTES] = bytes / n;
}

struct best {
    double target, highest, lowest, reached_at;
};

static void see_accuracy(void *ctx, double x, double y)
{
    struct best *b = ctx;

    b->highest = fmax(b->highest, y); /* fmax of NAN and a number is the number */
    if (isnan(b->reached_at) && y >= b->target)
        b->reached_at = x;
}

static void see_loss(void *ctx, double x, double y)
{
    struct best *b = ctx;

    (void)x;
    b->lowest = fmin(b->lowest, y);
}

/* The mean curves over the seconds of training, or over bytes. *has_curve: there are evaluations. */
static int read_mean_curve(struct best *b, bool *has_curve, const struct run *r, const char *x, struct err *e)
{
    const struct series_query q = {.file = "eval", .x = x};
    struct series_request request;
    const json_t *mean;
    json_t *doc;

    *has_curve = false;
    if (series_request_set(&request, &q, e) < 0)
        return e->code;
    request.points = SERIES_POINTS;
    request.nodes_most = 0;
    if (run_series(&doc, r->folder, &request, e) < 0)
        return e->code == ERR_NOT_FOUND ? 0 : e->code;
    mean = json_object_get(doc, "mean");
    run_series_each(mean, "accuracy", see_accuracy, b);
    run_series_each(mean, "loss", see_loss, b);
    *has_curve = json_array_size(json_object_get(mean, "x")) > 0;
    json_decref(doc);
    return 0;
}

int compare_measure(struct compare_numbers *out, const struct run *r, double target, struct err *e)
{
    struct best by_time = {target, NAN, NAN, NAN}, by_bytes = by_time;
    bool has_curve;

    for (int i = 0; i < N_COMPARE_RESULTS; i++)
        out->result[i] = NAN;
    take_totals(out, r->doc);
    if (read_mean_curve(&by_time, &has_curve, r, "time", e) < 0 ||
        (has_curve && !isnan(by_time.reached_at) &&
         read_mean_curve(&by_bytes, &has_curve, r, "bytes", e) < 0))
        return e->code;
    out->result[COMPARE_BEST_ACCURACY] = by_time.highest;
    out->result[COMPARE_BEST_LOSS] = by_time.lowest;
    out->result[COMPARE_TIME_TO_TARGET] = by_time.reached_at;
    out->result[COMPARE_BYTES_TO_TARGET] = by_bytes.reached_at;
    return 0;
}

double compare_common_target(const struct compare_numbers *runs, size_t n)
{
    double least = NAN;

    for (size_t i = 0; i < n; i++)
        least = fmin(least, runs[i].result[COMPARE_BEST_ACCURACY]);
    return isnan(least) ? NAN : fmin(least, floor(least * 1e4 + 1e-6) / 1e4);
}
