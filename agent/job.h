/* job -- the state of one job on this agent, as a pure function of its events: job_apply is the only writer,
 * for what happens now and for what a journal tells after a restart alike. No input, no output, no clock. */
#ifndef PSGD_JOB_H
#define PSGD_JOB_H

#include "agent/event.h"
#include "shared/package.h"

struct job_package {
    bool here;
    char hex[PACKAGE_FILES_MAX][SHA256_HEX];
};

struct job {
    struct job_spec spec;
    enum job_state state;
    char reason[REASON_MAX], message[MESSAGE_MAX];
    double created_at, started_at, finished_at; /* clock_wall(); 0: not yet */

    struct job_package packages[N_PACKAGES];
    int data_port; /* 0: not bound yet */
    int pid;       /* of the runner; 0: none was forked */
    uint64_t start_ticks;
    char digest[SHA256_HEX]; /* of the start document; "": not started */
    json_t *nodes;           /* NULL before start */

    int epoch, epochs;
    uint64_t step, steps;
    struct comm comm;
    double loss, accuracy, eval_loss, eval_accuracy; /* NAN: not told yet */

    char engine[ENGINE_MAX]; /* as the runner says; "": not told yet */
    uint64_t last_seq;
    /* Progress, eval, log and engine lines taken over from the runner: where to go on after a restart. */
    uint64_t n_copied;
};

void job_init(struct job *j);
void job_clear(struct job *j);

/* ERR_CONFLICT: the event cannot follow what happened before; the job is as it was. A numbered event must
 * have seq last_seq + 1. */
int job_apply(struct job *j, const struct event *ev, struct err *e);

/* Whether the job needs this package and it is not complete. */
bool job_lacks(const struct job *j, enum package p);
bool job_is_complete(const struct job *j); /* lacks none */
bool job_is_pending(const struct job *j);  /* waits for a slot */
bool job_is_active(const struct job *j);   /* holds one */

/* The resource as docs/protocol.md 1.4 shows it; `now` is clock_wall(). */
json_t *job_json(const struct job *j, double now);

#endif
