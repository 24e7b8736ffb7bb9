/* send_pool -- messages of rules to nodes of the same machine, in shared memory that these nodes can read
 * (rendezvous.h). Only a descriptor, the offset and length of the message, goes over the connection.
 *
 * A node's memory has a few slots of one message each. The mesh copies a message into a slot; the receiver
 * copies it out when the descriptor arrives, and parses only its copy, because the owner could change the
 * slot at any time. A descriptor is a message like any other: numbered, kept until acknowledged, and
 * retransmitted over a new connection. So a slot becomes free when all receivers have acknowledged it, and a
 * late descriptor still refers to its message. If a receiver was dropped while its process may still run, the
 * slot is never reused. Without a free slot, or to a peer with SEND_POOL_DESCRIPTORS_MAX unacknowledged
 * descriptors, the message itself goes over the connection. */
#ifndef PSGD_SEND_POOL_H
#define PSGD_SEND_POOL_H

#include "runner/mesh/frame.h"
#include "runner/mesh/mesh.h"
#include "runner/shm/rendezvous.h"

enum {
    /* Rounds have two contributions in flight, and may keep a third (round_loss.c). */
    SEND_POOL_DESCRIPTORS_MAX = 3,                   /* unacknowledged, per peer: one peer that hangs ... */
    SEND_POOL_SLOTS = 2 * SEND_POOL_DESCRIPTORS_MAX, /* ... leaves slots for the other peers */
    SEND_POOL_MIN_BYTES = 4096 /* shorter messages are copied and checksummed faster than described */
};

struct send_pool;

/* Size in bytes of the memory of a node with n_peers peers, for messages of at most `limit` bytes; 0:
 * overflow. */
size_t send_pool_bytes(size_t limit, size_t n_peers);
/* The largest size in bytes that a peer's memory may have: four pools for messages `times` as long as
 * `limit`, because messages of workers and of servers differ. At most SIZE_MAX / 4. There is no smallest
 * size: send_pool_find checks each descriptor against the memory. */
size_t send_pool_most_bytes(size_t limit, size_t times);

/* Takes ownership of the rendezvous, also on failure. ERR_NOMEM. */
int send_pool_open(struct send_pool **out, struct rendezvous *r, size_t limit, struct err *e);
/* Call after closing the mesh that uses its slots. NULL is allowed. */
void send_pool_close(struct send_pool *s);

struct sealed send_pool_memory(const struct send_pool *s, int i); /* of node i of the rendezvous */

/* Returns the copy of message `b` in a slot, with a reference for the caller. Makes the copy if there is none
 * or the message has become longer. NULL: no slot is free. The message itself holds no reference to its copy:
 * messages queued for a peer that hangs occupy no slot. */
struct mesh_buf *send_pool_copy(struct send_pool *s, const struct mesh_buf *b);
/* The slot is never reused: a dropped peer may still read it. */
void send_pool_withdraw(struct mesh_buf *slot);

/* Makes the descriptor of a message in `mine`. */
void send_pool_describe(uint8_t out[FRAME_DESCRIPTOR_BYTES], struct sealed mine, const void *bytes,
                        size_t len);
/* Returns the message of a descriptor in `theirs`, and its length. NULL: beyond that memory, or longer than
 * `limit`. */
const void *send_pool_find(const uint8_t descriptor[FRAME_DESCRIPTOR_BYTES], struct sealed theirs,
                           size_t limit, size_t *len);

#endif
