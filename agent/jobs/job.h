/* job -- the state of one job on this agent, as a pure function of its events, and the JSON that clients get
 * of it. job_apply is the only writer, for new events and for those that are replayed from the journal after
 * a restart. No I/O, no clock. */
#ifndef PSGD_JOB_H
#define PSGD_JOB_H

#include "agent/jobs/event.h"
#include "shared/job/package.h"

struct job_package {
    bool here;
    char hex[PACKAGE_FILES_MAX][SHA256_HEX];
};

struct job {
    struct job_spec spec;
    char owner[OWNER_MAX + 1];   /* the name of the token that reserved it; "": the agent requires none */
    char key_sha256[SHA256_HEX]; /* of X-Job-Key: its sender may do anything with the job; "": none */
    enum job_state state;
    char reason[REASON_MAX], message[MESSAGE_MAX];
    uint64_t order;                             /* of the reservation, among those of this agent */
    double created_at, started_at, finished_at; /* clock_wall(); 0: not yet */
    double started_monotonic;                   /* clock_now() of the same boot; 0: unknown */

    struct job_package packages[N_PACKAGES];
    int data_port;             /* 0: not bound yet */
    char data_key[SHA256_HEX]; /* the public half of the runner's; "": not reported yet */
    int slot;                  /* of an active job (jobs.h) */
    int pid;                   /* of the runner; 0: none was forked */
    uint64_t start_ticks;
    char boot[PROCESS_BOOT];
    char digest[SHA256_HEX]; /* of the start document; "": not started */

    int epoch, epochs;
    uint64_t step, steps, samples;
    struct comm comm;
    double loss, accuracy, eval_loss, eval_accuracy; /* NAN: not reported yet */

    int waits_for;      /* node for which it waits since a second or more; EVENT_NO_NODE: none */
    double waits_since; /* clock_wall() of the first progress line with this node */

    /* As the runner reports. */
    struct stop stopped;            /* STOP_NONE: not stopped before its epochs were done */
    char params_sha256[SHA256_HEX]; /* of the node's last weights; "": not reported */
    bool combined_nothing;          /* no exchange had a contribution with a weight */
    char engine[ENGINE_MAX];        /* "": not reported yet */
    bool is_isolation_known;        /* `isolation` was reported */
    enum isolation isolation;

    uint64_t last_seq;
    uint64_t n_copied; /* lines of the runner, recorded or skipped: a restarted agent continues after them */
    bool has_gap;      /* while a journal is replayed: lines before the next one are missing */
};

void job_init(struct job *j);

/* Applies an event. ERR_CONFLICT: it cannot follow the earlier ones; the job is unchanged. A numbered event
 * must have seq last_seq + 1.
 *
 * With has_gap an event is accepted if the missing events could lead to it: seq may skip numbers, a state
 * must be reachable from the present one, and a note is accepted in every state that is not terminal.
 * Progress implies that the job was running. The missing events count as copied from the runner: a progress
 * line may get lost and is never recorded twice. A terminal state stays final, so a damaged journal never
 * revives a job. */
int job_apply(struct job *j, const struct event *ev, struct err *e);

/* Returns whether the job needs this package and does not have it. */
bool job_lacks(const struct job *j, enum package p);
bool job_is_complete(const struct job *j); /* lacks none */
bool job_is_pending(const struct job *j);  /* waits for a slot */
bool job_is_active(const struct job *j);   /* holds one */

/* Returns the resource of docs/protocol.md 1.4, which the caller frees; `now` is clock_wall(). */
json_t *job_json(const struct job *j, double now);

#endif
