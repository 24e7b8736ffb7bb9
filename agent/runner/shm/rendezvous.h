/* meeting -- nodes of one job that run on one machine show each other memory. They are processes, perhaps of
 * different agents and users.
 *
 * Each owns a piece of memory (sealed.h), which the others can read and nobody else can write. They give it
 * to each other over Unix sockets, after both ends have shown that they know a secret that came over the
 * authenticated link; the sockets then carry a byte to who sleeps, and their end tells at once that a process
 * has died.
 *
 * Among nodes in the order that all have been told alike:
 *     rendezvous_open(&m, &cfg, &e);
 *     for each later node: a random secret; rendezvous_expect(m, i, secret); {rendezvous_name(m), secret}
 *     over the
 *     link
 *     for each earlier node, when its {name, secret} is here: rendezvous_connect(m, i, name, secret, &e)
 *     rendezvous_advance until it returns 1
 *
 * One thread. What others write in their memory may change at any time, and is theirs to say: it may be
 * wrong, but a read of it cannot fail. */
#ifndef PSGD_RENDEZVOUS_H
#define PSGD_RENDEZVOUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/runner/shm/sealed.h"

enum {
    RENDEZVOUS_MAX = 64,
    RENDEZVOUS_NAME_BYTES = 16,
    RENDEZVOUS_SECRET_BYTES = 32,
    /* All nodes may come at once, and on a busy machine each waits for a processor to say who it is. */
    RENDEZVOUS_UNPROVEN_MAX = RENDEZVOUS_MAX + 16
};

struct rendezvous_config {
    int n;                /* at most RENDEZVOUS_MAX */
    const int *nodes;     /* (n) their numbers in the job, in an order that all know; copied */
    int me;               /* this node's place among them; places are what the calls below mean by `i` */
    size_t bytes;         /* of this node's memory */
    size_t least, most;   /* of another's */
    const bool *includes; /* (n) those that this node meets; NULL: all */
};

struct rendezvous;

/* Memory and a socket of this node's own. ERR_NOMEM, ERR_IO: go on without sharing. */
int rendezvous_open(struct rendezvous **out, const struct rendezvous_config *cfg, struct err *e);
void rendezvous_close(struct rendezvous *m); /* at any moment; NULL is fine. The others hear of it at once. */

const uint8_t *
rendezvous_name(const struct rendezvous *m); /* RENDEZVOUS_NAME_BYTES: where later nodes find this one */

/* Node i comes later and will show this secret. */
void rendezvous_expect(struct rendezvous *m, int i, const uint8_t secret[RENDEZVOUS_SECRET_BYTES]);
/* Goes to node i, which comes earlier. ERR_UNREACHABLE: no such name on this machine (or in this network
 * namespace). */
int rendezvous_connect(struct rendezvous *m, int i, const uint8_t name[RENDEZVOUS_NAME_BYTES],
                       const uint8_t secret[RENDEZVOUS_SECRET_BYTES], struct err *e);

/* Everything that sockets have to say now. 1: all nodes have come; 0: others have to do something first.
 * ERR_LOST: a node has ended before it was here. ERR_AUTH, ERR_PROTOCOL: it is another one, or shares the
 * wrong thing. After an error the meeting is good for nothing but rendezvous_close, and says the same
 * again. */
int rendezvous_advance(struct rendezvous *m, struct err *e);
/* For an epoll of the caller's. Whenever it is readable, call rendezvous_advance. */
int rendezvous_fd(const struct rendezvous *m);
/* Says who has not come, and returns ERR_TIMEOUT: for a caller whose own deadline has passed. */
int rendezvous_late(const struct rendezvous *m, struct err *e);

int rendezvous_n(const struct rendezvous *m);
int rendezvous_me(const struct rendezvous *m);
int rendezvous_node(const struct rendezvous *m, int i);
/* Of who has come; it stays when its owner has gone. Only one's own may be written. */
struct sealed rendezvous_memory(const struct rendezvous *m, int i);
bool rendezvous_is_gone(const struct rendezvous *m, int i); /* it was here */
void rendezvous_wake(const struct rendezvous *m, int i);    /* makes its rendezvous_fd readable */

#endif
