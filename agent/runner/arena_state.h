/* arena_state -- what the parts of an arena share: arena.c (collectives), arena_meet.c (how nodes find each
 * other and wake each other). */
#ifndef PSGD_ARENA_STATE_H
#define PSGD_ARENA_STATE_H

#include "agent/runner/arena.h"
#include "agent/runner/arena_memory.h"

enum {
    ARENA_NONCE = 16,
    /* All nodes may come at once, and on a busy machine each waits for a processor to say who it is. */
    ARENA_STRANGERS_MAX = ARENA_NODES_MAX + 16
};

struct arena_member { /* one node, this one included */
    int node;         /* its number in the job */
    enum {
        MEMBER_UNKNOWN,  /* no secret yet */
        MEMBER_EXPECTED, /* will connect */
        MEMBER_JOINING,  /* has shown the secret and got this node's memory; its own is to come */
        MEMBER_ASKED,    /* this node has shown the secret; the answer is to come */
        MEMBER_HERE,
        MEMBER_GONE /* was here; its memory still is */
    } state;
    int fd; /* -1: none */
    uint8_t secret[ARENA_SECRET_BYTES], nonce[ARENA_NONCE];
    struct arena_view view;
    size_t n_taken; /* parts of its slice that are copied, in this collective */
};

struct arena {
    int n, me;
    size_t n_floats;
    struct arena_member members[ARENA_NODES_MAX];
    int n_here; /* members whose memory is mapped, this one included */
    uint8_t name[ARENA_NAME_BYTES];
    int epoll, listen_fd, memory_fd;    /* the last two: -1 once all are here */
    int strangers[ARENA_STRANGERS_MAX]; /* connected, nothing shown yet; -1: free */
    int next_stranger;                  /* the oldest, which goes first when there is no room */
    bool must_yield;                    /* more nodes than processors */
    bool must_hear;                     /* has slept since it last heard the sockets */
    struct arena_collective now;
    enum { STAGE_NONE, STAGE_READY, STAGE_GATHER } stage;
    uint64_t number;      /* of the collective */
    size_t n_parts, part; /* of a slice; those of this node's that are done */
    int waits_for;        /* place of the first node not known to be as far as it must be */
    struct err broken;    /* code 0: it is not */
};

/* arena_meet.c */
int arena_meet_open(struct arena *a, struct err *e);
void arena_meet_close(struct arena *a);
int arena_hear(struct arena *a, struct err *e); /* everything that sockets have to say now */
void arena_ring(struct arena *a);               /* wakes who sleeps */

#endif
