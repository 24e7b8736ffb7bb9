/* agents -- asks the agents of the list again and again, all at once and each with a limit of time: which
 * jobs they have, and, of jobs that somebody looks at, what their nodes' files have got since. Silent
 * agents are named with the reason, and hold up nothing. */
#ifndef PSGD_BROWSE_AGENTS_H
#define PSGD_BROWSE_AGENTS_H

#include "submit/browse/live.h"
#include "submit/options/submit_options.h"

struct agents;

/* Reads the list of agents; a missing worker.json that is not named is none. ERR_*: the list is invalid. */
int agents_open(struct agents **out, const struct options *o, struct err *e);
void agents_close(struct agents *a);

/* Asks what is due, and waits for an event, a signal, or timeout_s. */
void agents_poll(struct agents *a, double timeout_s);

/* A higher one whenever what follows may be another one. */
uint64_t agents_version(const struct agents *a);
/* [{"address", "state", "message", "slots", "slots_used"}] */
json_t *agents_json(const struct agents *a);
/* The jobs that the agents have listed; valid until the next agents_poll. ERR_NOMEM. */
int agents_jobs(struct live_jobs *out, const struct agents *a, struct err *e);

/* Whether all agents have said which jobs they have, and what the token may do there, or why not. */
bool agents_have_answered(const struct agents *a);
/* Whether the token that is used there has scope read: it shows jobs, and allows nothing else. */
bool agents_only_show(const struct agents *a, size_t agent);

/* Begins to fetch a job's files, into the folder of that name; or to cancel the job. Tells `done` when all
 * agents have answered, or none can: why not, or a code of 0. ERR_REFUSED: too many requests wait for agents;
 * the job's have not begun. */
struct agents_task {
    char id[LISTED_ID];
    bool is_cancel;
};
int agents_begin(struct agents *a, const struct live_job *j, bool is_cancel, struct err *e);
bool agents_next_done(struct agents *a, struct agents_task *out, struct err *why);
/* The folder with the copies of a job's files; false: there is none yet. */
bool agents_folder(char *out, size_t size, const struct agents *a, const char *id);

#endif
