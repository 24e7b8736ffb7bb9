/* stall -- which node holds up the job. A node that waits tells its peers, about once a second, which node it
 * waits for (FRAME_WAIT, docs/protocol.md 3). The node that a peer waits for may itself wait for
 * another one. After a timeout a node follows these statements from peer to peer; the last node of the chain
 * has made none, because it hangs or computes, and is the one to name.
 *
 *     0 waits for 1 ("1" by its own round), 1 has said that it waits for 2, 2 has said nothing: 2
 *
 * The node that gives up first tells the others whom it names: they end at once, for the same reason, and do
 * not name the first that has ended. */
#ifndef PSGD_STALL_H
#define PSGD_STALL_H

#include <stdbool.h>
#include <stdint.h>

#include "shared/base/err.h"

struct exchange;
struct mesh_head;

enum { STALL_NO_NODE = -1 /* of no node: that is the submitter's id */ };

/* The last statement of a peer. */
struct stall_report {
    double at; /* stopwatch_now; 0: none yet */
    int node;  /* that the peer waits for; STALL_NO_NODE: it waits for a message from any node */
};

struct stall {
    struct stall_report *reports; /* (n), by slot */
    int n;
};

int stall_open(struct stall *s, int n, struct err *e);
void stall_clear(struct stall *s);

/* Seconds after which a node tells what it waits for, and between two such messages, where it gives up after
 * `timeout_s`. */
double stall_period(double timeout_s);

/* The node that this exchange waits for; STALL_NO_NODE: none, or none in particular. A server of synchronous
 * rounds waits from the first contribution of a round to the last; one of an asynchronous job, at a barrier,
 * for the worker that it has not heard for longest. */
int exchange_awaits(const struct exchange *x);
/* Tells every peer that this node waits for exchange_awaits(). CODEC_GO or a code. */
int exchange_send_wait(struct exchange *x, struct err *e);
/* The node that holds this one up, after a wait of `timeout_s`; STALL_NO_NODE: not known. */
int exchange_culprit(const struct exchange *x, double timeout_s);
/* Tells every peer that this node ends because it has waited for that node. */
void exchange_send_timeout(struct exchange *x, int culprit);

/* A FRAME_WAIT. ERR_TIMEOUT: its sender ends because of a node, which the message names, and the job with it.
 * ERR_PROTOCOL: it names no node of the job. */
int stall_on_report(struct exchange *x, const struct mesh_head *h, struct err *e);

#endif
