/* turns -- whose turn it is to take a free slot. The jobs of users who have queue watchers (docs/queue.md)
 * wait outside of the agent; each watcher says here that it has some, and asks whether its user may take a
 * slot.
 *
 * Fair share: of the users who wait, the one who has used the slots of this agent least may take a free slot
 * first. Use is measured in seconds of a slot; those of an hour ago count half. Another user may take the
 * slot once each of those before has said that it starts nothing now, or TURN_S after the slot became free.
 *
 * Aging: a job that has been the first of its user for aging_s, and that could start if all agents were free,
 * keeps the agents that it may use: no other job gets their slots until it has started. Of several such jobs
 * the one that has waited longest, as its watcher says, keeps them: every agent decides the same.
 *
 * No I/O, no clock. */
#ifndef PSGD_AGENT_TURNS_H
#define PSGD_AGENT_TURNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/jobs/event.h"

enum {
    TURNS_WAITERS = 256, /* watchers at a time */
    TURNS_USERS = 1024,  /* whose use is remembered: those who used the agent last */
    TURN_USER = 64 + 1 + 128,
    QUEUE_ID = 32
};

static const double TURN_S = 2, HALF_S = 3600, WAITER_S = 10;

/* A queue watcher. */
struct turn_waiter {
    char id[QUEUE_ID + 1], user[TURN_USER];
    char owner[OWNER_MAX + 1];  /* the name of its token, by which it is recognized */
    json_t *jobs;               /* what it says of its waiting jobs; owned */
    int n_waiting;              /* jobs that could use this agent */
    char first[JOB_ID_MAX + 1]; /* its first job */
    bool sees_all;              /* its token may see the jobs of all users */
    double first_since;         /* when that became the first, clock_wall() of the watcher */
    double first_seen;          /* the same, clock_now() of this agent */
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
    uint64_t n_freed;   /* incremented when slots may have become free */
    double freed_at;    /* clock_now() of the last time */
    uint64_t n_changes; /* of all of this */
};

/* The user for whom a job is run: the name of the token, or, of a token that several people may share
 * ("owner", "cluster", none), the user in the name that job_submit sends. */
void turns_user(char out[TURN_USER], const char *owner, const char *submitter);

/* Adds a use of `seconds`. */
void turns_charge(struct turns *t, const char *user, double seconds, double now);
/* The decayed use of the user, without jobs that have not ended. */
double turns_used(const struct turns *t, const char *user, double now);
void turns_freed(struct turns *t, double now);

/* The waiter of that id and owner, which is added if there is room; NULL: there is none. */
struct turn_waiter *turns_waiter(struct turns *t, const char *id, const char *owner);
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
