/* rendezvous -- nodes of one job on one machine exchange file descriptors of shared memory. They are
 * processes, perhaps of different agents and users.
 *
 * Each node owns a memory region (sealed.h) that the others can read and only the owner can write. Nodes
 * pass the descriptors over Unix sockets, after both ends have proved that they know a secret exchanged
 * over the authenticated connection. Afterwards the sockets carry wakeup bytes, and their end reports at
 * once that a process has died.
 *
 * All nodes are configured with the same order of nodes:
 *     rendezvous_open(&r, &cfg, &e);
 *     for each later node i, with a random secret:
 *         rendezvous_expect(r, i, secret), and send it {rendezvous_name(r), secret} over the mesh
 *     for each earlier node i, once its {name, secret} arrived:
 *         rendezvous_connect(r, i, name, secret, &e)
 *     rendezvous_advance until it returns 1
 *
 * Not thread-safe. The contents of another node's memory may change at any time and may be wrong, but
 * reading it cannot fault. */
#ifndef PSGD_RENDEZVOUS_H
#define PSGD_RENDEZVOUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runner/shm/sealed.h"
#include "runner/shm/shm_source.h"

enum {
    RENDEZVOUS_MAX = 64,
    RENDEZVOUS_NAME_BYTES = SHM_NAME_BYTES,
    RENDEZVOUS_SECRET_BYTES = 32,
    /* All nodes may connect at the same time, and on a busy machine a node waits for a processor before it
     * sends its JOIN. */
    RENDEZVOUS_UNPROVEN_MAX = RENDEZVOUS_MAX + 16
};

struct rendezvous_config {
    int n;            /* at most RENDEZVOUS_MAX */
    const int *nodes; /* (n) node ids, in the same order on all nodes; copied */
    int me;           /* index of this node in `nodes`; such indices are the `i` of the calls below */
    size_t bytes;     /* size of this node's memory */
    size_t min_bytes, max_bytes;     /* allowed sizes of another node's memory */
    const bool *includes;            /* (n) nodes that this one exchanges memory with; NULL: all */
    const struct shm_source *source; /* borrowed; NULL: this process's own */
};

struct rendezvous;

/* Makes this node's memory and socket. After ERR_NOMEM or ERR_IO the caller can continue without sharing. */
int rendezvous_open(struct rendezvous **out, const struct rendezvous_config *cfg, struct err *e);
void rendezvous_close(struct rendezvous *r); /* allowed in any state; NULL is allowed; notifies the others */

/* (RENDEZVOUS_NAME_BYTES): name of the socket that later nodes connect to. */
const uint8_t *rendezvous_name(const struct rendezvous *r);

/* Expects node i, a later one, to connect with this secret. */
void rendezvous_expect(struct rendezvous *r, int i, const uint8_t secret[RENDEZVOUS_SECRET_BYTES]);
/* Connects to node i, an earlier one. ERR_UNREACHABLE: no such name on this machine (or in this network
 * namespace). */
int rendezvous_connect(struct rendezvous *r, int i, const uint8_t name[RENDEZVOUS_NAME_BYTES],
                       const uint8_t secret[RENDEZVOUS_SECRET_BYTES], struct err *e);

/* Handles pending packets without blocking. 1: all nodes have joined; 0: waiting for others. ERR_LOST: a
 * node ended before it joined. ERR_AUTH, ERR_PROTOCOL: a node failed to prove the secret, or sent no valid
 * memory. After an error only rendezvous_close is allowed; other calls return the same error. */
int rendezvous_advance(struct rendezvous *r, struct err *e);
/* A descriptor to poll: when it is readable, call rendezvous_advance. */
int rendezvous_fd(const struct rendezvous *r);
/* Returns ERR_TIMEOUT with the name of a node that has not joined, for a caller whose deadline has passed. */
int rendezvous_late(const struct rendezvous *r, struct err *e);

int rendezvous_n(const struct rendezvous *r);
int rendezvous_me(const struct rendezvous *r);
int rendezvous_node(const struct rendezvous *r, int i);
/* The memory of a node that has joined; stays mapped after its owner ended. Only this node's own is
 * writable. */
struct sealed rendezvous_memory(const struct rendezvous *r, int i);
bool rendezvous_has_ended(const struct rendezvous *r, int i); /* after it had joined */
void rendezvous_wake(const struct rendezvous *r, int i);      /* makes its rendezvous_fd readable */

#endif
