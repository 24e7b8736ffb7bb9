/* meeting -- nodes of one job that run on one machine show each other memory. They are processes, perhaps of
 * different agents and users.
 *
 * Each owns a piece of memory (sealed.h), which the others can read and nobody else can write. They give it
 * to each other over Unix sockets, after both ends have shown that they know a secret that came over the
 * authenticated link; the sockets then carry a byte to who sleeps, and their end tells at once that a process
 * has died.
 *
 * Among nodes in the order that all have been told alike:
 *     meeting_open(&m, &cfg, &e);
 *     for each later node: a random secret; meeting_expect(m, i, secret); {meeting_name(m), secret} over the
 *     link
 *     for each earlier node, when its {name, secret} is here: meeting_connect(m, i, name, secret, &e)
 *     meeting_hear until it returns 1
 *
 * One thread. What others write in their memory may change at any time, and is theirs to say: it may be
 * wrong, but a read of it cannot fail. */
#ifndef PSGD_MEETING_H
#define PSGD_MEETING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/runner/shm/sealed.h"

enum {
    MEETING_MAX = 64,
    MEETING_NAME_BYTES = 16,
    MEETING_SECRET_BYTES = 32,
    /* All nodes may come at once, and on a busy machine each waits for a processor to say who it is. */
    MEETING_STRANGERS_MAX = MEETING_MAX + 16
};

struct meeting_config {
    int n;              /* at most MEETING_MAX */
    const int *nodes;   /* (n) their numbers in the job, in an order that all know; copied */
    int me;             /* this node's place among them; places are what the calls below mean by `i` */
    size_t bytes;       /* of this node's memory */
    size_t least, most; /* of another's */
    const bool *meets;  /* (n) those that this node meets; NULL: all */
};

struct meeting;

/* Memory and a socket of this node's own. ERR_NOMEM, ERR_IO: go on without sharing. */
int meeting_open(struct meeting **out, const struct meeting_config *cfg, struct err *e);
void meeting_close(struct meeting *m); /* at any moment; NULL is fine. The others hear of it at once. */

const uint8_t *
meeting_name(const struct meeting *m); /* MEETING_NAME_BYTES: where later nodes find this one */

/* Node i comes later and will show this secret. */
void meeting_expect(struct meeting *m, int i, const uint8_t secret[MEETING_SECRET_BYTES]);
/* Goes to node i, which comes earlier. ERR_UNREACHABLE: no such name on this machine (or in this network
 * namespace). */
int meeting_connect(struct meeting *m, int i, const uint8_t name[MEETING_NAME_BYTES],
                    const uint8_t secret[MEETING_SECRET_BYTES], struct err *e);

/* Everything that sockets have to say now. 1: all nodes have come; 0: others have to do something first.
 * ERR_LOST: a node has ended before it was here. ERR_AUTH, ERR_PROTOCOL: it is another one, or shares the
 * wrong thing. After an error the meeting is good for nothing but meeting_close, and says the same again. */
int meeting_hear(struct meeting *m, struct err *e);
/* For an epoll of the caller's. Whenever it is readable, call meeting_hear. */
int meeting_fd(const struct meeting *m);
/* Says who has not come, and returns ERR_TIMEOUT: for a caller whose own deadline has passed. */
int meeting_late(const struct meeting *m, struct err *e);

int meeting_n(const struct meeting *m);
int meeting_me(const struct meeting *m);
int meeting_node(const struct meeting *m, int i);
/* Of who has come; it stays when its owner has gone. Only one's own may be written. */
struct sealed meeting_memory(const struct meeting *m, int i);
bool meeting_is_gone(const struct meeting *m, int i); /* it was here */
void meeting_ring(const struct meeting *m, int i);    /* makes its meeting_fd readable */

#endif
