/* shm_group_crew -- an arena between child processes of a test: what the runners of one machine do, with a
 * page of shared memory in the place of their authenticated links. */
#ifndef PSGD_SHM_CREW_H
#define PSGD_SHM_CREW_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/runner/shm/shm_group.h"

enum { CREW_MAX = RENDEZVOUS_MAX };

struct crew_board { /* seen by all of a crew */
    uint8_t names[CREW_MAX][RENDEZVOUS_NAME_BYTES];
    uint8_t secrets[CREW_MAX][CREW_MAX][RENDEZVOUS_SECRET_BYTES]; /* [earlier][later] */
    _Atomic int n_named;
    _Atomic int marks[4]; /* whatever a test wants to say */
};

struct crew {
    int n;
    pid_t pids[CREW_MAX];
    struct crew_board *board;
};

/* What a node does once all have met; its exit status, 0 if all went well. */
typedef int crew_part(struct crew *c, struct shm_group *a, int me, void *arg);

/* Starts n nodes, which meet and then do their part. A node that keeps a descriptor or a mapping of the arena
 * fails, and so does one that takes longer than five minutes. */
void crew_start(struct crew *c, int n, size_t n_floats, crew_part *part, void *arg);
int crew_wait(struct crew *c); /* for all to end; the number of those that ended otherwise than with 0 */

/* All have come, or a sentence is printed and the process ends with status 1. */
void crew_join(struct crew *c, struct rendezvous *m, int me);

/* shm_group_poll until it says 1 or fails, asleep in between. ERR_TIMEOUT at the deadline (clock_now). */
int crew_poll(struct shm_group *a, double deadline, struct err *e);

int crew_fds(void);      /* that this process has open */
int crew_mappings(void); /* of memory that nodes share, in this process */

#endif
