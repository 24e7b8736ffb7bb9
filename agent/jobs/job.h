/* job -- the state of one job on this agent, as a pure function of its events: job_apply is the only
 * writer, for new events and for those replayed from a journal after a restart. No I/O, no clock. */
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
    char key_sha256[SHA256_HEX]; /* a request with this key may do anything with the job; "": there is none */
    enum job_state state;
    char reason[REASON_MAX], message[MESSAGE_MAX];
    uint64_t order;                             /* of the reservation, among those of this agent */
    double created_at, started_at, finished_at; /* clock_wall(); 0: not yet */
    double started_monotonic;                   /* clock_now() of the same boot; 0: unknown */

    struct job_package packages[N_PACKAGES];
    int data_port; /* 0: not bound yet */
    int slot;      /* of an active job (slots.h) */
    int pid;       /* of the runner; 0: none was forked */
    uint64_t start_ticks;
    char boot[PROCESS_BOOT];
    char digest[SHA256_HEX]; /* of the start document; "": not started */
    json_t *nodes;           /* NULL before start */

    int epoch, epochs;
    uint64_t step, steps, samples;
    struct comm comm;
    double loss, accuracy, eval_loss, eval_accuracy; /* NAN: not reported yet */

    int waits_for;       /* EVENT_NO_NODE: nobody, as of its last progress line, or for less than a second */
    double waits_since;  /* clock_wall() of the first line that said so */
    struct stop stopped; /* as the runner reports; STOP_NONE: not, or not yet */
    char params_sha256[SHA256_HEX]; /* of its weights in the end, as it reports; "": not, or not yet */
    bool combined_nothing;          /* no exchange had a contribution with a weight, as it reports */
    char engine[ENGINE_MAX];        /* as the runner reports; "": not reported yet */
    bool is_isolation_known;        /* the runner has reported it */
    enum isolation isolation;
    uint64_t last_seq;
    /* Lines of the runner that are recorded, or were skipped: where to continue after a restart. */
    uint64_t n_copied;
    bool has_gap; /* while a journal is replayed: lines before the next one are missing */
};

void job_init(struct job *j);
void job_clear(struct job *j);

/* Applies an event. ERR_CONFLICT: it cannot follow the earlier ones; the job is unchanged. A numbered event
 * must have seq last_seq + 1.
 *
 * With has_gap any event may follow that could after more events: a seq beyond the next one, a state that
 * can be reached, a note whose state is not known to be reached; progress shows that the job was running. The
 * events of the gap count as copied from
 * the runner: rather is a progress line missing than recorded twice. A terminal state stays final, so a
 * damaged journal never revives a job. */
int job_apply(struct job *j, const struct event *ev, struct err *e);

/* Returns whether the job needs this package and does not have it. */
bool job_lacks(const struct job *j, enum package p);
bool job_is_complete(const struct job *j); /* lacks none */
bool job_is_pending(const struct job *j);  /* waits for a slot */
bool job_is_active(const struct job *j);   /* holds one */

/* The resource as docs/protocol.md 1.4 shows it; `now` is clock_wall(). */
json_t *job_json(const struct job *j, double now);

#endif
