/* feed -- mini-batches on demand (--feed shared), in an asynchronous job with servers: every worker has all
 * samples, and the first server assigns its next mini-batch. A fast worker computes more mini-batches;
 * together the workers compute each once in an epoch, as with platoon's controller.
 *
 *     worker  computes mini-batch p, asks ---- FEED_ASK ----> first server
 *     worker                              <--- FEED_NEXT, q -  the next mini-batch that no worker has
 *     worker                              <--- FEED_OVER ----  all mini-batches have been assigned
 *
 * Mini-batches are numbered over all epochs: with n in an epoch, p is row p mod n of epoch p / n. A worker
 * asks for the next one before it computes the present one, so it waits only if the server is slower than its
 * step. The mini-batch of a lost worker is not computed.
 *
 * Statistics of traffic do not count these frames, as they do not count those of barrier.h. */
#ifndef PSGD_FEED_H
#define PSGD_FEED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runner/mesh/mesh.h"
#include "shared/base/err.h"

struct exchange;

enum { FEED_SERVER = -2 };                                       /* the first server, which assigns them */
enum feed_order { FEED_ASK, FEED_NEXT, FEED_OVER, FEED_ORDERS }; /* the frame's index; its round: q */

struct feed {
    uint64_t n_given; /* first server: mini-batches assigned so far */
    uint64_t next;    /* worker: number of the mini-batch that it computes next; valid if has_next */
    bool has_next, has_asked, waits, is_over;
};

bool feed_is_used(const struct exchange *x); /* --feed shared */
/* Asks for the next mini-batch, unless this worker has asked already. CODEC_GO or a code. */
int feed_ask(struct exchange *x, struct err *e);
/* CODEC_WAIT: until exchange_on_event returns CODEC_GO, with the answer. */
int feed_await(struct exchange *x, struct err *e);
/* After the answer: is there a next mini-batch, and is it of that epoch, from 0? */
bool feed_next_is_of(const struct exchange *x, uint64_t epoch, uint64_t n_rows);
/* Returns the number of the assigned mini-batch; call only if feed_next_is_of. */
uint64_t feed_take(struct exchange *x);
bool feed_is_over(const struct exchange *x);

/* For the exchange. Handles a FRAME_FEED; the caller keeps its buffer. CODEC_GO or a code. */
int feed_on_message(struct exchange *x, const struct mesh_event *ev);
void feed_waits_for(char *out, size_t size);

#endif
