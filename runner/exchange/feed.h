/* feed -- mini-batches on demand (--feed shared), in an asynchronous job with servers: every worker has all
 * samples, and the first server says which mini-batch it computes next. A fast worker computes more of them;
 * together the workers compute each once in an epoch, as with platoon's controller.
 *
 *     worker  computes mini-batch p, asks ---- FEED_ASK ----> first server
 *     worker                              <--- FEED_NEXT, q -  the next one, of any worker
 *     worker                              <--- FEED_OVER ----  all have been given out
 *
 * Mini-batches are numbered through the epochs: p is row p mod n of epoch p / n, of n in an epoch. A worker
 * asks for the next one before it computes the present one, so it waits only for a server that is slower than
 * its step. The mini-batch that a lost worker had is not computed.
 *
 * These frames are in no statistics of traffic, like those of barrier.h. */
#ifndef PSGD_FEED_H
#define PSGD_FEED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runner/mesh/mesh.h"
#include "shared/base/err.h"

struct exchange;

enum { FEED_SERVER = -2 };                                       /* the first server, which gives them out */
enum feed_order { FEED_ASK, FEED_NEXT, FEED_OVER, FEED_ORDERS }; /* the frame's index; its round: q */

struct feed {
    uint64_t n_given; /* first server: mini-batches given out */
    uint64_t next;    /* worker: number of the mini-batch that it computes next; valid if has_next */
    bool has_next, has_asked, waits, is_over;
};

bool exchange_is_fed(const struct exchange *x);
/* Asks for the next mini-batch, unless this worker has asked already. CODEC_GO or a code. */
int exchange_ask_next(struct exchange *x, struct err *e);
/* CODEC_WAIT: until the answer is here; CODEC_GO from exchange_on_event then. */
int exchange_await_next(struct exchange *x, struct err *e);
/* After that: is there a next mini-batch, and is it of that epoch, from 0? */
bool exchange_next_is_of(const struct exchange *x, uint64_t epoch, uint64_t n_rows);
uint64_t exchange_take_next(struct exchange *x); /* its number, if there is one */
bool exchange_feed_is_over(const struct exchange *x);

/* For the exchange. A FRAME_FEED, whose buffer it does not take. CODEC_GO or a code. */
int feed_on_message(struct exchange *x, const struct mesh_event *ev);
void feed_waits_for(char *out, size_t size);

#endif
