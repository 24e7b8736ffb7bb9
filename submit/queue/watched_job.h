/* watched_job -- a job of the queue as the queue watcher sees it: what its document says, and its process. */
#ifndef PSGD_SUBMIT_WATCHED_JOB_H
#define PSGD_SUBMIT_WATCHED_JOB_H

#include <sys/types.h>

#include "submit/queue/queue_agents.h"
#include "submit/queue/queue_plan.h"
#include "submit/results/queue_folder.h"

struct watched_job {
    char id[JOB_ID_MAX];
    struct queue_place place;
    bool is_seen;  /* in the last list */
    char bad[320]; /* why its document cannot be read; "": it can */
    struct plan_job plan;
    size_t *agents;    /* (n_listed + n_servers) owned; plan.agents */
    size_t *chosen;    /* (n_workers + n_servers) owned: its agents, while its process has not placed it */
    pid_t pid;         /* of its process; 0: this process has started none */
    int fd;            /* of that process; -1 */
    bool is_placed;    /* the agents count its nodes, or it needs none that are free */
    bool is_resumed;   /* its process was started without noting agents for it */
    bool is_elsewhere; /* a process that an earlier watcher has started runs it */
    int n_failed;      /* processes in a row that have failed, or that agents refused */
    double again_at;   /* clock_now() before which it is not tried again */
    int attempt;       /* the last one */
    json_t *shown;     /* what other users see of it; owned */
};

/* Reads the job's document, and adds the agents that it may use to `agents`; or notes in j->bad why it cannot
 * be read. */
void watched_job_read(struct watched_job *j, struct queue_agents *agents);
/* Sets j->attempt to the number in the queue if that is higher. */
void watched_job_read_attempt(struct watched_job *j);
/* Frees what the job owns, but not its process. */
void watched_job_forget(struct watched_job *j);

#endif
