/* shelf -- what rules say to nodes of one machine lies in memory that those can read (rendezvous.h), and only
 * a slip of paper goes over the connection: where the message begins and how long it is.
 *
 * A node's own memory is a few places for a message each. The mesh copies a message into one; the receiver
 * copies it out when the slip comes, and looks at it only then, as its owner might change it at any time. The
 * slip is a message like any other: numbered, kept and said again over a new connection. So a place is free
 * again when all receivers have acknowledged it, and a slip that comes late still finds its message; never,
 * where one of them was given up though its process is there. Without a free place, or to a peer that has
 * enough slips, a message goes over the connection. */
#ifndef PSGD_SEND_POOL_H
#define PSGD_SEND_POOL_H

#include "agent/runner/mesh/frame.h"
#include "agent/runner/mesh/mesh.h"
#include "agent/runner/shm/rendezvous.h"

enum {
    /* Rounds have two words under way, and may keep a third (round_loss.c). */
    SEND_POOL_DESCRIPTORS_MAX = 3, /* that one peer has not acknowledged: one that hangs ... */
    SEND_POOL_SLOTS =
        2 * SEND_POOL_DESCRIPTORS_MAX, /* ... leaves places for what is said to the others, if any */
    SEND_POOL_LEAST = 4096 /* bytes from which on two copies and a checksum of them cost more than a slip */
};

struct send_pool;

/* Of the memory of a node with so many peers, for messages of at most `limit` bytes; 0: more than can be
 * counted. */
size_t send_pool_bytes(size_t limit, size_t n_peers);

/* Takes the meeting, also on failure. ERR_NOMEM. */
int send_pool_open(struct send_pool **out, struct rendezvous *m, size_t limit, struct err *e);
/* NULL is fine. Once the mesh is closed that has its places. */
void send_pool_close(struct send_pool *s);

struct sealed send_pool_memory(const struct send_pool *s, int i); /* of the meeting's node i */

/* The places are the mesh's to send from. */
void send_pool_attach(struct send_pool *s, struct mesh *m);

/* Says where in `mine` the message lies. */
void send_pool_describe(uint8_t out[FRAME_DESCRIPTOR_BYTES], struct sealed mine, const void *bytes,
                        size_t len);
/* Where it lies in `theirs`, and its length; NULL: beyond that memory, or longer than `limit`. */
const void *send_pool_find(const uint8_t descriptor[FRAME_DESCRIPTOR_BYTES], struct sealed theirs,
                           size_t limit, size_t *len);

#endif
