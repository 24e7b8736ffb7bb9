/* agents -- polls the agents of worker.json, all at once and each with a timeout: for their jobs, and, for a
 * job that the page shows, for the new parts of its nodes' files. An agent that does not answer is listed
 * with the reason and does not delay the others. */
#ifndef PSGD_BROWSE_AGENTS_H
#define PSGD_BROWSE_AGENTS_H

#include "submit/browse/live.h"
#include "submit/options/submit_options.h"

struct agents;

/* Reads the list of agents. A missing worker.json is an empty list, unless the user named it. ERR_*: the list
 * is invalid. */
int agents_open(struct agents **out, const struct options *o, struct err *e);
void agents_close(struct agents *a);

/* Sends the requests that are due, and waits for an event, a signal, or timeout_s. */
void agents_poll(struct agents *a, double timeout_s);

/* Increases whenever agents_json() or agents_jobs() may have changed. */
uint64_t agents_version(const struct agents *a);
/* [{"address", "state", "message", "slots", "slots_used", "machine", "waiting"}]: "machine" has processors,
 * load and memory, of at most some seconds ago; "waiting" counts jobs that wait for the agent. */
json_t *agents_json(const struct agents *a);
/* The jobs that the agents have listed; valid until the next agents_poll. ERR_NOMEM. */
int agents_jobs(struct live_jobs *out, const struct agents *a, struct err *e);

/* The users whose jobs wait for the agents, outside of them: waiting_jobs.h. */
json_t *agents_waiting(const struct agents *a);

/* Has each agent listed its jobs, those that wait, and the scope of the token, or failed to? */
bool agents_have_answered(const struct agents *a);
/* Has the token for this agent only the scope read, which shows jobs and does not change them? */
bool agents_is_read_only(const struct agents *a, size_t agent);

/* Fetching the files of a job into agents_folder(), or cancelling the job. */
struct agents_task {
    char id[LISTED_ID];
    bool is_cancel;
};
/* Begins a task. ERR_REFUSED: too many requests wait for agents; then none of this task was begun. */
int agents_begin(struct agents *a, const struct live_job *j, bool is_cancel, struct err *e);
/* Takes a task for which all agents have answered or failed. `why`: the first failure, or code 0. False: no
 * task has ended. */
bool agents_next_done(struct agents *a, struct agents_task *out, struct err *why);
/* out: the folder with the copies of a job's files. False: there is none yet. */
bool agents_folder(char *out, size_t size, const struct agents *a, const char *id);

#endif
