/* submitted_job -- a job of the index, for the verbs about jobs that were submitted before. */
#ifndef PSGD_SUBMIT_SUBMITTED_JOB_H
#define PSGD_SUBMIT_SUBMITTED_JOB_H

#include "submit/job/submission.h"

static const double SUBMITTED_ASK_S = 3; /* so long its agents may take to answer */

/* The job that the command line names; NULL: the latest. */
const char *verb_operand(const struct options *o);

/* Fills `s` from the index. The caller clears it in any case, here and below. Errors as of
 * job_index_load(). */
int submitted_load(struct submission *s, const struct options *o, const char *id, struct err *e);
/* The same, and asks its nodes. If none of them answers, fails with the first node's error, and `s` is as the
 * index has it. */
int submitted_ask(struct submission *s, const struct options *o, const char *id, struct err *e);
/* The same, and prepares its result folder. *is_kept: nothing is left to do, because the job had ended, all
 * its results are already here and were shown, and some of its agents are gone, so that a new fetch would get
 * less. */
int submitted_load_for_results(struct submission *s, bool *is_kept, const struct options *o, const char *id,
                               struct err *e);

/* Requests GET /v1/jobs/ID from all nodes at once, with `timeout_s`; returns the number of answers. */
size_t submitted_ask_nodes(struct submission *s, double timeout_s);
/* Sets its state from its nodes' answers; a changed one is saved for later commands. */
void submitted_update(struct submission *s);
/* Prints why agents have not answered. */
void submitted_print_silent(const struct submission *s);
/* Prints its state and nodes on stdout. */
void submitted_show(const struct submission *s);

#endif
