/* meeting_member -- what the processes of a job folder know of each other when they meet (meeting.h). */
#ifndef PSGD_MEETING_MEMBER_H
#define PSGD_MEETING_MEMBER_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

#include "shared/base/crypto.h"
#include "shared/base/err.h"
#include "shared/base/process.h"
#include "shared/job/job_state.h"

enum { MEETING_ID = 33, MEETING_NAME = 256, MEETING_CHECKPOINTS = 16 };

/* A point of the job at which a node has a checkpoint; those of all nodes are of one point if job and round
 * are equal, and, of workers, the step (submit/results/results.h). */
struct meeting_point {
    char job[64];
    int64_t epoch, step, round;
};

/* What a process says about its node. */
struct meeting_member {
    char nonce[MEETING_ID];
    char machine[MEETING_NAME]; /* the name of its host, which another machine may have as well */
    char boot[PROCESS_BOOT];    /* of that machine */
    char launch[MEETING_NAME];  /* the launcher's name of its launch; "": it has none */
    char given[MEETING_NAME];   /* the address that --host gives; "": none */
    char address[64];           /* a numeric one of its machine that is not loopback; "": it has none */
    int node;
    int attempt; /* the last of this node; 0: none */
    enum job_state state;
    size_t n_points;
    struct meeting_point points[MEETING_CHECKPOINTS];

    char host[MEETING_NAME];   /* at which the others reach it: by the plan */
    int port;                  /* of its data socket; 0: it is not ready */
    char data_key[SHA256_HEX]; /* the public half of its runner's, with the port */
    bool is_here, is_ended;    /* the leader has read its hello, its end */
    bool has_address;          /* `given`, if it is not "", has one, as the leader has seen */
    bool has_visible_lock;     /* of its node's folder (member_gone.h) */
    bool has_vanished;         /* it is ended, and had reported no end */
    double written_s;          /* of its state; 0: not read yet */
    double heard_at;           /* clock_now() at which that was seen to have changed; 0: never */
    enum job_state end;
    char reason[40], message[1024];
};

struct meeting {
    char dir[PATH_MAX];
    int rank, n;
    struct meeting_member *members; /* (n) by rank; owned */
    char launch[MEETING_ID];        /* "": no offer was read yet */
    int attempt;                    /* by the plan */
    bool is_on_one_machine, resumes;
    struct meeting_point resume; /* from where */
    double waits_since, told_at; /* clock_now() of the present step; of its last message */
    struct err failure;          /* of this process (meeting_tell_failure); code 0: none */
    bool has_ended;              /* the leader has given up, and this process knows */
};

/* Whether the processes are on one machine, and so can share memory and see each other's locks. */
static inline bool meeting_is_one_machine(const struct meeting_member *a, const struct meeting_member *b)
{
    return strcasecmp(a->machine, b->machine) == 0 && strcmp(a->boot, b->boot) == 0;
}

#endif
