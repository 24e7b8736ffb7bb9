/* shelf -- what rules say to nodes of one machine lies in memory that those can read (meeting.h), and only a
 * slip of paper goes over the connection: where the message begins and how long it is.
 *
 * A node's own memory is a few places for a message each. The mesh copies a message into one; the receiver
 * copies it out when the slip comes, and looks at it only then, as its owner might change it at any time. The
 * slip is a message like any other: numbered, kept and said again over a new connection. So a place is free
 * again when all receivers have acknowledged it, and a slip that comes late still finds its message; never,
 * where one of them was given up though its process is there. Without a free place, or to a peer that has
 * enough slips, a message goes over the connection. */
#ifndef PSGD_SHELF_H
#define PSGD_SHELF_H

#include "agent/runner/mesh/frame.h"
#include "agent/runner/mesh/mesh.h"
#include "agent/runner/shm/meeting.h"

enum {
    /* Rounds have two words under way, and may keep a third (round_loss.c). */
    SHELF_SLIPS_MAX = 3,                /* that one peer has not acknowledged: one that hangs ... */
    SHELF_PLACES = 2 * SHELF_SLIPS_MAX, /* ... leaves places for what is said to the others, if any */
    SHELF_LEAST = 4096 /* bytes from which on two copies and a checksum of them cost more than a slip */
};

struct shelf;

/* Of the memory of a node with so many peers, for messages of at most `limit` bytes; 0: more than can be
 * counted. */
size_t shelf_bytes(size_t limit, size_t n_peers);

/* Takes the meeting, also on failure. ERR_NOMEM. */
int shelf_open(struct shelf **out, struct meeting *m, size_t limit, struct err *e);
/* NULL is fine. Once the mesh is closed that has its places. */
void shelf_close(struct shelf *s);

struct sealed shelf_memory(const struct shelf *s, int i); /* of the meeting's node i */

/* The places are the mesh's to send from. */
void shelf_give(struct shelf *s, struct mesh *m);

/* Says where in `mine` the message lies. */
void shelf_write_slip(uint8_t out[FRAME_SLIP_BYTES], struct sealed mine, const void *bytes, size_t len);
/* Where it lies in `theirs`, and its length; NULL: beyond that memory, or longer than `limit`. */
const void *shelf_read_slip(const uint8_t slip[FRAME_SLIP_BYTES], struct sealed theirs, size_t limit,
                            size_t *len);

#endif
