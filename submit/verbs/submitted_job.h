/* submitted_job -- a job that was submitted before, for the verbs about such jobs: one of the index of this
 * user, or one of another user, which agents show to a token of scope read. Such a token may follow jobs and
 * submit none, so that the index here has none of them. */
#ifndef PSGD_SUBMIT_SUBMITTED_JOB_H
#define PSGD_SUBMIT_SUBMITTED_JOB_H

#include "submit/job/submission.h"
#include "submit/launch/slurm.h"

static const double SUBMITTED_ASK_S = 3; /* how long agents may take to answer */

/* The job that the command line names; NULL: the latest. */
const char *submitted_job_operand(const struct options *o);

/* Fills `s` from the index. The caller clears it in any case, here and below. Errors as of
 * job_index_load(). */
int submitted_job_load(struct submission *s, const struct options *o, const char *id, struct err *e);
/* Fills `s` from the index and asks the nodes. If no node answers, fails with the first node's error, and `s`
 * is as the index has it. */
int submitted_job_ask(struct submission *s, const struct options *o, const char *id, struct err *e);
/* As submitted_job_ask(), and prepares the result folder. *is_kept: nothing is left to do: the job had ended,
 * all its results are already here and were shown, and some of its agents are gone, so that a new fetch would
 * get less. */
int submitted_job_ask_results(struct submission *s, bool *is_kept, const struct options *o, const char *id,
                              struct err *e);

/* Shows the results of an ended job that an earlier command has fetched; false: some are missing. */
bool submitted_job_show_kept(struct submission *s);

/* Requests GET /v1/jobs/ID from all nodes at once, with `timeout_s`; returns the number of answers. */
size_t submitted_job_ask_nodes(struct submission *s, double timeout_s);
/* Sets the job's state from its nodes' answers, and saves a changed one in the index. */
void submitted_job_update(struct submission *s);
/* Prints the errors of agents that have not answered. */
void submitted_job_print_silent(const struct submission *s);
/* Whether the job is in a folder and none of its processes has ever been started, nor is in Slurm's queue. */
bool submitted_job_is_unlaunched(const struct submission *s);
/* Whether the job is in a folder and Slurm runs it, or will: then sets its number there and its state. False
 * if Slurm does not answer. */
bool submitted_job_is_in_slurm(char id[SLURM_ID], struct slurm_state *state, const struct submission *s);
/* Writes the command that starts its processes, of several the first. Returns `out`. */
const char *submitted_job_launch_command(char *out, size_t size, const struct submission *s);
/* Prints the job's state and nodes on stdout. */
void submitted_job_show(const struct submission *s);

/* Asks the agents of the list for other users' jobs, for at most SUBMITTED_ASK_S. The newest job is first;
 * each has the form of run.json, as far as agents report it, with "submitted_by" (the name of the token;
 * null: not known) and "said", the answer of each node's agent: [{"node", "address", "job"}]. Empty: there is
 * no list, or no agent grants this user scope read and no more. NULL: no memory. *waiting: the users whose
 * jobs wait outside of the agents (browse/waiting_jobs.h), this one too; `waiting` NULL: not asked for. The
 * caller owns both. */
json_t *submitted_jobs_of_others(const struct options *o, json_t **waiting);
/* Of these, the job with that id, first characters of an id, or name; `which` NULL: the newest. Returns NULL
 * if there is none, or several. Borrowed. */
const json_t *submitted_job_of_others(const json_t *jobs, const char *which);
/* Fills an initialized submission, as far as submitted_job_show() needs it. ERR_PROTOCOL, ERR_NOMEM. */
int submitted_job_load_other(struct submission *s, const json_t *job, struct err *e);

#endif
