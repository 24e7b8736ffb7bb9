/* meeting -- how the processes of a job folder find each other, through files in DIR/meet: process 0 leads.
 *
 *   offer.json    of the leader: {"launch"}, random, new in each launch, with "name", the launcher's of the
 *                 launch, and "machine"
 *   hello-R.json  of process R, for each new offer: {"launch","nonce","machine","boot","host","address",
 *                 "attempt","state","checkpoints"}
 *   plan.json     of the leader, once there is a hello for its offer of each process: {"launch","attempt",
 *                 "one_machine","members":[{"nonce","machine","boot","host"}],"resume":{...} or null}, or,
 *                 with a sentence, "refused"
 *   ready-R.json  of process R, when its runner has loaded all: {"launch","port"}, or {"launch","failed"}
 *   start.json    of the leader: {"launch","ports"}, or {"launch","failed"}
 *   ended-R.json  of process R: {"launch","state","reason","message"}
 *   stop.json     of the leader: {"launch","reason","has_failed"}: the others are to end
 *   cancel.json   of `job_submit cancel`: {"reason"}
 *
 * Files of an earlier launch, which may have been killed anywhere, are never taken for those of this one: a
 * hello counts if it has the launch of the leader, which is new, and a plan if it has the nonce of the hello,
 * which is new as well. Each file is replaced as a whole. A network file system keeps what it knows of a
 * folder for up to a minute; opening the folder makes it look again, so that is done before each poll. */
#ifndef PSGD_MEETING_H
#define PSGD_MEETING_H

#include <jansson.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

    char host[MEETING_NAME]; /* at which the others reach it: by the plan */
    int port;                /* of its data socket; 0: it is not ready */
    bool is_here, is_ended;  /* the leader has read its hello, its end */
    bool has_address;        /* `given`, if it is not "", has one, as the leader has seen */
    bool has_visible_lock;   /* of its node's folder (member_gone.h) */
    double written_s;        /* of its state; 0: not read yet */
    double heard_at;         /* clock_now() at which that was seen to have changed; 0: never */
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
};

struct meeting_offer {
    char launch[MEETING_ID], name[MEETING_NAME], machine[MEETING_NAME];
};

/* Reads the offer in the job folder. False: there is none, or it is damaged. */
bool meeting_read_offer(struct meeting_offer *out, const char *job_folder);

/* Begins a launch: the leader writes its offer. `mine`: without nonce. ERR_NOMEM, ERR_IO. */
int meeting_open(struct meeting *m, const char *dir, int rank, int n, const struct meeting_member *mine,
                 struct err *e);
void meeting_close(struct meeting *m);

/* Each step returns 1 when it is done, 0 while it waits, an error otherwise; it is called again and again.
 *
 * All processes have met, and the attempt, the hosts and the checkpoints are known; the offers of launches
 * with other names are ignored. ERR_CONFLICT: the job has succeeded already. ERR_REFUSED: the leader has
 * refused, and *e has its sentence. ERR_CONFIG: a file of this launch is damaged. */
int meeting_gather(struct meeting *m, struct err *e);
/* Says that this node is ready at the port, or with `failed`, a sentence, that it has failed. */
int meeting_say_ready(struct meeting *m, int port, const char *failed, struct err *e);
/* All nodes are ready, and members[].port is known. ERR_LOST: one has failed. ERR_CONFIG: as above. */
int meeting_start(struct meeting *m, struct err *e);

/* The leader gives up: the others read the sentence. */
void meeting_give_up(struct meeting *m, const char *sentence);
/* Says how this node has ended. */
void meeting_say_ended(struct meeting *m, enum job_state state, const char *reason, const char *message);
/* The leader: reads who else has ended. */
void meeting_read_ends(struct meeting *m);
/* The leader: has the others end, as this one has. */
void meeting_say_stop(struct meeting *m, const char *reason, bool has_failed);
/* Whether the leader, or `job_submit cancel`, wants this node to end; `reason` has the sentence. */
bool meeting_is_stopped(struct meeting *m, char reason[200], bool *has_failed);

/* Whether the processes are on one machine, and so can share memory and see each other's locks. */
bool meeting_is_one_machine(const struct meeting_member *a, const struct meeting_member *b);
/* "node(1), node(2)": whom the present step waits for. */
void meeting_missing(const struct meeting *m, char *out, size_t size);
/* The random bytes of the keys of this launch, from the job's secret. */
void meeting_key(uint8_t out[SHA256_BYTES], const struct meeting *m, const uint8_t secret[SHA256_BYTES]);

#endif
