/* queue_agents -- the agents that the jobs of the queue may use, as the queue watcher sees them. While jobs
 * wait for an agent, it is told of them, and asked whether one may take a slot (POST /v1/queue,
 * docs/protocol.md). */
#ifndef PSGD_SUBMIT_QUEUE_AGENTS_H
#define PSGD_SUBMIT_QUEUE_AGENTS_H

#include "submit/files/job_id.h"
#include "submit/job/job_node.h"

struct queue_agent {
    struct job_node node; /* its address, its token and the request to it */
    struct credentials credentials;
    /* What the agent is told of the waiting jobs, set by the watcher: */
    int n_waiting;          /* that have it in their list; 0: it is not asked */
    char first[JOB_ID_MAX]; /* the first of them */
    double first_since;     /* clock_wall() when that became the user's first job; 0: it is not the first */
    bool first_is_possible; /* it could start if all agents were free */
    json_t *jobs;           /* the first ones, for other users; owned */
    /* What it answers: */
    bool is_answering, is_draining; /* it has answered the last request; it takes no new jobs */
    bool is_known;                  /* ... and nothing was reserved since */
    bool is_turn;                   /* a job of this user may take a slot now */
    int n_free;                     /* slots that a job may take, of anybody */
    uint64_t seen;                  /* how often a slot had become free there */
    double aging_s;
    char why[320]; /* why none may take a slot; "": it may, or all slots are taken */

    int n_promised; /* slots that started jobs of this queue take, and that the answer does not count yet */
    bool is_asked;  /* a request runs, or its answer has not been taken */
    json_t *said;   /* what the agent was told last; owned */
    char *body;     /* of that request; owned */
    double ask_at, asked_at; /* clock_now() before which it is not asked, and of the last request */
};

enum { QUEUE_JOBS_SHOWN = 50 };

struct queue_agents {
    char id[JOB_ID_MAX]; /* of this watcher */
    struct http *http;
    size_t n;
    struct queue_agent **list; /* (n) owned */
};

int queue_agents_open(struct queue_agents *a, struct err *e);
void queue_agents_close(struct queue_agents *a);

/* The number of the agent at this address for which the same credentials are used, which is added if it is
 * new. ERR_NOMEM. */
int queue_agents_add(size_t *number, struct queue_agents *a, const struct listed_agent *at,
                     const struct credentials *c, struct err *e);

/* Takes the answers that have come. */
void queue_agents_take(struct queue_agents *a);
/* Asks the agents that have answered anew: each answers when something has changed. Call after the jobs have
 * been looked at, because a request says that no job takes the slots of the last answer. */
void queue_agents_ask(struct queue_agents *a);
/* The next answer counts what was reserved until now. */
void queue_agents_again(struct queue_agents *a, struct queue_agent *q);
/* No job waits for the agent, as the next request to it says. */
void queue_agent_tell_none(struct queue_agent *q);
/* Tells all agents that no job waits. */
void queue_agents_leave(struct queue_agents *a);
/* Slots that a job of this queue may take now. */
int queue_agent_free(const struct queue_agent *q);

#endif
