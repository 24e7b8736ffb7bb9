/* compare -- compares runs: the settings that differ, and the results. For `job_submit compare`, sweeps,
 * plots and the page. */
#ifndef PSGD_SUBMIT_COMPARE_H
#define PSGD_SUBMIT_COMPARE_H

#include <jansson.h>

#include "submit/results/run.h"
#include "submit/terminal/text.h"

enum { COMPARE_RUNS = 1000, COMPARE_METRICS = 8 };

/* Before the name of a metric of metrics.csv, which may be called as a result. */
#define COMPARE_METRIC "metrics/"

/* The compared results, in the order of the document: C(ID, name, meaning). */
/* clang-format off */
#define COMPARE_RESULTS(C) \
    C(ACCURACY, "accuracy", "of the last evaluation on the test set, the mean over the workers") \
    C(BEST_ACCURACY, "best_accuracy", "the highest that the mean over the workers reached") \
    C(LOSS, "loss", "of the last evaluation, the mean over the workers") \
    C(BEST_LOSS, "best_loss", "the lowest that the mean over the workers reached") \
    C(PERPLEXITY, "perplexity", "of a model of language, exp(loss)") \
    C(BITS_PER_BYTE, "bits_per_byte", "of its text: the loss in bits, divided by the bytes of a token") \
    C(TOKENS, "tokens", "of text, in the steps of all workers together") \
    C(TOKENS_PER_S, "tokens_per_s", "of the job's time") \
    C(TIME, "time_s", "seconds from the job's start to its end, of the node that took longest") \
    C(BYTES, "bytes", "sent and received by a worker, the mean over the workers") \
    C(TIME_TO_TARGET, "time_to_target_s", "seconds of training until the mean accuracy reached the target") \
    C(BYTES_TO_TARGET, "bytes_to_target", "sent and received by a worker in that time") \
    C(STEPS_TO_TARGET, "steps_to_target", "steps of a worker in that time")
/* clang-format on */
#define COMPARE_ID(ID, ...) COMPARE_##ID,
enum compare_result { COMPARE_RESULTS(COMPARE_ID) N_COMPARE_RESULTS };
#undef COMPARE_ID

extern const char *const compare_result_names[N_COMPARE_RESULTS]; /* the names above */

struct compare_numbers {
    double result[N_COMPARE_RESULTS]; /* NAN: the run lacks this result */
    double first_loss,
        last_loss;     /* of the first batches, and on the test set; NAN: not known, or not finite */
    bool has_diverged; /* the last loss on the test set is not finite, or above that of the first batch */
};

/* True if a run has the result only with a target. */
bool compare_is_to_target(enum compare_result which);

/* The highest accuracy that all of the runs reached which have been evaluated and have not diverged, rounded
 * down to four digits; NAN: there is none. */
double compare_common_target(const struct compare_numbers *runs, size_t n);

/* Sets *out to the results of one run. `target`: an accuracy; NAN: none. A run without evaluations has only
 * the results in its run.json. ERR_PROTOCOL: an invalid eval.csv; ERR_IO, ERR_NOMEM. */
int compare_measure(struct compare_numbers *out, const struct run *r, double target, struct err *e);

/* Sets *out, which the caller owns, also after an error, to {"f1": 0.5}: the last values in the metrics.csv
 * of a folder of results, each the mean over the workers.
 * ERR_PROTOCOL: an invalid file; ERR_IO, ERR_NOMEM. */
int compare_last_metrics(json_t **out, const char *folder, struct err *e);

/* Makes *run, a run that went on from a checkpoint of `earlier`, the results of both together: seconds and
 * bytes are summed. The seconds of the earlier one are those of its whole job. */
void compare_prepend(struct compare_numbers *run, const struct compare_numbers *earlier);

/* Sets *out, which the caller owns, to
 *     {"runs": [{"id", "name", "label", "state", "diverged", "resumed", "folder", "tags", "note"}],
 *      "target": 0.97,
 *      "settings": [{"name", "values"}], "results": [{"name", "values"}]}
 * A label is short and different for each run. "settings" are those that differ between runs; codec, model
 * and data are compared by their SHA-256 too. "values" has one element for each run, null where the run lacks
 * it. Results that no run has are left out. Behind them come the last values of the first COMPARE_METRICS
 * names in metrics.csv, as "metrics/f1". `target`: NAN: that of compare_common_target(), null in the document
 * if there is none. ERR_USAGE: more than COMPARE_RUNS runs. Other errors as of compare_measure(). */
int compare_runs(json_t **out, const struct run *runs, size_t n, double target, struct err *e);

/* compare_table.c, the comparison as text. */

/* A setting's value: "0.05", "yes", "fedavg"; "-": none. */
const char *compare_setting_text(char *out, size_t size, const json_t *v);
/* A result in its unit: "0.9742", "1.07 s", "2.37 MB"; "-": NAN. */
const char *compare_result_text(char out[TEXT_AMOUNT], enum compare_result which, double v);
/* The heading of a result's column, which may contain the target: "accuracy", "time to 0.97". */
const char *compare_result_head(char out[TEXT_AMOUNT], enum compare_result which, double target);
/* Prints the document of compare_runs() on stdout, a line for each run. ERR_NOMEM. */
int compare_print(const json_t *doc, struct err *e);

#endif
