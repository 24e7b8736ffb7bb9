/* verbs -- the commands of job_submit. Each returns an exit status, or a negative err_code with a message. */
#ifndef PSGD_SUBMIT_VERBS_H
#define PSGD_SUBMIT_VERBS_H

#include "submit/job/submission.h"
#include "submit/options/submit_options.h"

int verb_submit(const struct options *o, struct err *e);
int verb_run(const struct options *o, struct err *e); /* of an executor */
int verb_list(const struct options *o, struct err *e);
int verb_status(const struct options *o, struct err *e);
int verb_wait(const struct options *o, struct err *e);
int verb_browse(const struct options *o, struct err *e);
int verb_report(const struct options *o, struct err *e);
int verb_logs(const struct options *o, struct err *e);
int verb_cancel(const struct options *o, struct err *e);
int verb_fetch(const struct options *o, struct err *e);
int verb_snapshot(const struct options *o, struct err *e);
int verb_validate(const struct options *o, struct err *e);
int verb_simulate(const struct options *o, struct err *e);
int verb_simulate_check(const struct options *o,
                        struct err *e); /* reads and checks the job, and runs nothing */
int verb_data(const struct options *o, struct err *e);
int verb_codecs(const struct options *o, struct err *e);
int verb_doctor(const struct options *o, struct err *e);
int verb_join(const struct options *o, struct err *e);
int verb_agents(const struct options *o, struct err *e);
int verb_why(const struct options *o, struct err *e);
int verb_compare(const struct options *o, struct err *e);
int verb_note(const struct options *o, struct err *e);
int verb_tag(const struct options *o, struct err *e);
int verb_config(const struct options *o, struct err *e);
int verb_sweep(const struct options *o, struct err *e);
int verb_plot(const struct options *o, struct err *e);
int verb_rerun(const struct options *o, struct err *e);
int verb_launch(const struct options *o, struct err *e);
int verb_predict(const struct options *o, struct err *e);
int verb_export(const struct options *o, struct err *e);
int verb_model(const struct options *o, struct err *e);

int verb_help(const struct options *o, struct err *e);
int verb_version(const struct options *o, struct err *e);

/* codecs test: runs the checks of a codec, `text`: "NAME|FILE[:KEY=VALUE,...]". Prints a line for each check, or
 * JSON. Returns 0; EXIT_JOB_FAILED if a check has failed; ERR_CODEC (the codec does not load), ERR_USAGE,
 * ERR_CANCELLED, ERR_IO, ERR_NOMEM. */
int verb_codecs_test(const struct options *o, const char *text, struct err *e);

/* Submits the job that the options describe: what submit and run share. */
int verb_submit_job(const struct options *o, struct err *e);

/* The common end of submit and wait: watches the job, collects and prints its results; also handles a
 * signal or --timeout while watching. */
int verb_finish(struct submission *s, struct err *e);

/* Joins an agent by an invitation; "-": the line on standard input; NULL is refused. */
int verb_join_by(const char *invitation, struct err *e);

/* Exit status of an ended job, from its state and whether all its results are complete. */
int verb_exit_status(const struct submission *s);

/* Prints the contents of run.json on stdout: as JSON with --json, else as a table. */
void verb_show_run(bool ok, const struct submission *s);

#endif
