/* compare -- runs side by side: the settings that differ, and what came of them. For `job_submit compare` and
 * for the page. */
#ifndef PSGD_SUBMIT_COMPARE_H
#define PSGD_SUBMIT_COMPARE_H

#include <jansson.h>

#include "submit/results/run.h"

enum { COMPARE_RUNS = 1000 };

/* The results that are compared, in the order of the document: C(ID, name, what it is). */
/* clang-format off */
#define COMPARE_RESULTS(C) \
    C(ACCURACY, "accuracy", "of the last evaluation on the test set, the mean over the workers") \
    C(BEST_ACCURACY, "best_accuracy", "the highest that the mean over the workers reached") \
    C(LOSS, "loss", "of the last evaluation, the mean over the workers") \
    C(BEST_LOSS, "best_loss", "the lowest that the mean over the workers reached") \
    C(TIME, "time_s", "seconds from the job's start to its end, of the node that took longest") \
    C(BYTES, "bytes", "sent and received by a worker, the mean over the workers") \
    C(TIME_TO_TARGET, "time_to_target_s", "seconds of training until the mean accuracy was the target") \
    C(BYTES_TO_TARGET, "bytes_to_target", "sent and received by a worker until then")
/* clang-format on */
#define COMPARE_ID(ID, ...) COMPARE_##ID,
enum compare_result { COMPARE_RESULTS(COMPARE_ID) N_COMPARE_RESULTS };
#undef COMPARE_ID

/* As in the document. */
extern const char *const compare_result_names[N_COMPARE_RESULTS];

struct compare_numbers {
    double result[N_COMPARE_RESULTS]; /* NAN: there is none */
};

/* The results of one run. A target of NAN is none. A run without evaluations has those results of its
 * run.json. ERR_PROTOCOL: its eval.csv is not one; ERR_IO, ERR_NOMEM. */
int compare_measure(struct compare_numbers *out, const struct run *r, double target, struct err *e);

/* The highest accuracy that all runs reached of those that were evaluated, rounded down to four digits; NAN:
 * none was. */
double compare_common_target(const struct compare_numbers *runs, size_t n);

/* The settings of a run as one flat object; its codec, model and data are told apart by their SHA-256 too. */
json_t *compare_settings(const struct run *r);
/* [{"name","values":[one per run]}] of those settings that differ; null where a run has none. NULL: no
 * memory. */
json_t *compare_differences(json_t *const *settings, size_t n);

/* A setting's value: "0.05", "yes", "fedavg"; "-": none. */
const char *compare_setting_text(char *out, size_t size, const json_t *v);

/* *out, which the caller owns: {"runs": [{"id", "name", "label", "state", "folder", "tags", "note"}],
 * "target": 0.97, "settings": as compare_differences, "results": [{"name", "values"}]}. `target` NAN: the
 * common one, null in the document if there is none. Results that no run has are left out. ERR_USAGE: more
 * than COMPARE_RUNS. */
int compare_runs(json_t **out, const struct run *runs, size_t n, double target, struct err *e);

#endif
