/* turns -- whose turn it is to take a free slot. The jobs of users who have queue watchers (docs/queue.md)
 * wait outside of the agent; each watcher says here that it has some, and asks whether its user may take a
 * slot.
 *
 * Fair share: users who wait are served by their use of this agent, the least first. The use of a user is the
 * seconds for which the user's jobs had a slot; seconds of an hour ago count half. Each user may take a free
 * slot as soon as the watchers of all users with less use have said that they start nothing on it, or TURN_S
 * after the slot became free.
 *
 * Aging: for a job that has been its user's first for aging_s, and that could start if all agents were free,
 * the agents that it may use keep their slots: they start no other job. If there are several such jobs, slots
 * are kept for the one that became the first at the earliest time. Watchers report that time, so that all
 * agents choose the same job; an agent does not take a report of more than CLAIM_S before its own
 * observation. A slot that stays free is kept for aging_s. Then the agent keeps slots for no job for aging_s,
 * and for that job again for twice as long as the last time: a job that never starts cannot block the
 * agent, and one that waits for long jobs gets its agents in the end.
 *
 * No I/O, no clock. */
#ifndef PSGD_AGENT_TURNS_H
#define PSGD_AGENT_TURNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/jobs/event.h"

enum {
    TURNS_WAITERS = 256,  /* watchers at a time */
    TURNS_OF_TOKEN = 8,   /* of them of one token; one more replaces the token's that was silent longest */
    TURNS_OF_SHARED = 64, /* of a token that several people may share */
    TURNS_USERS = 1024,   /* entries of users; the entry of the user with the least use is replaced */
    TURN_USER = 64 + 1 + 128,
    QUEUE_ID = 32
};

static const double TURN_S = 2, HALF_S = 3600, WAITER_S = 10, CLAIM_S = 5;

/* A queue watcher. */
struct turn_waiter {
    char id[QUEUE_ID + 1], user[TURN_USER];
    char owner[OWNER_MAX + 1];  /* the name of its token, by which it is recognized */
    json_t *jobs;               /* what it says of its waiting jobs; owned */
    int n_waiting;              /* jobs that could use this agent */
    char first[JOB_ID_MAX + 1]; /* its first job */
    bool sees_all;              /* its token may see the jobs of all users */
    double first_since;         /* when that became the first, clock_wall(): turns_set_first() */
    double first_seen;          /* since when the agent counts its wait, clock_now() */
    double kept_s, keep_most_s; /* for how long a free slot was kept for it, and is at most; 0: aging_s */
    bool first_is_possible;     /* it could start if all agents were free */
    double until;               /* clock_now() when it is forgotten, without a request */
    unsigned n_open;            /* its requests that wait for an answer */
    uint64_t passed;            /* the number of the free slot that it does not take; 0: none */
};

struct turn_user {
    char name[TURN_USER];
    double used_s, at; /* decayed use, at that time */
};

struct turns {
    double aging_s;                            /* agent --aging */
    struct turn_waiter waiters[TURNS_WAITERS]; /* (n_waiters) */
    size_t n_waiters;
    struct turn_user users[TURNS_USERS]; /* (n_users) */
    size_t n_users;
    double kept_at;     /* clock_now() of the last turns_keep() with a free slot; 0: there was none */
    double rest_until;  /* clock_now() before which slots are kept for nobody; 0: now */
    uint64_t n_freed;   /* incremented when slots may have become free */
    double freed_at;    /* clock_now() of the last time */
    uint64_t n_changes; /* of all of this */
};

/* The user who is charged for a job: the owner's name, which is that of the token. Several people may share
 * the agent's own token ("owner"), a cluster's ("cluster"), or have none: then it is the part of `submitter`,
 * which job_submit sends, before the @. */
void turns_user(char out[TURN_USER], const char *owner, const char *submitter);

/* Adds a use of `seconds`. */
void turns_charge(struct turns *t, const char *user, double seconds, double now);
/* The decayed use of the user, without jobs that have not ended. */
double turns_used(const struct turns *t, const char *user, double now);
void turns_freed(struct turns *t, double now);

/* The waiter of that id and owner; NULL: there is none. */
struct turn_waiter *turns_find(const struct turns *t, const char *id, const char *owner);
/* The same, which is added if there is room; NULL: there is none. */
struct turn_waiter *turns_waiter(struct turns *t, const char *id, const char *owner);
/* The watcher reports its first job, and when that became the first, clock_wall(). `wall`: clock_wall() at
 * `now`. */
void turns_set_first(struct turn_waiter *w, const char *first, double since, double now, double wall);
/* Counts for how long slots stay free for the job for which they are kept. Call it regularly. */
void turns_keep(struct turns *t, int n_free, double now);
void turns_forget(struct turns *t, struct turn_waiter *w);
/* Forgets the waiters of which nothing was heard. Returns whether there were any. */
bool turns_expire(struct turns *t, double now);

struct turn_claim {
    const char *user, *job; /* job NULL: any of the user's */
    double used_s;          /* use of the user, with running jobs */
    bool holds_others;      /* it has slots of other agents, for which others may wait: turns do not matter */
    const char *owner;      /* the name of the token with which it is asked for; NULL: nobody reads `why` */
    bool sees_all;          /* that token may see the jobs of all users */
};
/* Whether the claim may take one of `n_free` slots now; `used_s` is called for the use of other users until
 * `now`. If not, `why` has the reason, which names no job that its reader may not see. */
bool turns_may_take(const struct turns *t, const struct turn_claim *c, int n_free, double now,
                    double (*used_s)(const void *arg, const char *user, double now), const void *arg,
                    char *why, size_t size);

#endif
