/* stall -- which node holds up the job. A node that waits reports to its peers, about once a second, which
 * node it waits for (FRAME_WAIT, docs/protocol.md 3). That node may itself wait for another one. After a
 * timeout a node follows these reports from peer to peer; the last node of the chain has sent none, because
 * it hangs or computes: it holds up the job.
 *
 *     0 waits for 1 in its round; 1 has reported that it waits for 2; 2 has reported nothing: node 2 holds up
 *     the job
 *
 * A node whose training program computes says so instead, as often: its peers then name the program, too.
 *
 * The node whose wait times out first reports which node holds up the job: its peers end at once, for the
 * same reason, and do not name the node that has ended first. */
#ifndef PSGD_STALL_H
#define PSGD_STALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/base/err.h"

struct exchange;
struct mesh_head;

enum { STALL_NO_NODE = -1 /* the submitter's id, which no node has */ };

/* The last report of a peer. */
struct stall_report {
    double at;          /* stopwatch_now; 0: none yet */
    double computed_at; /* when the peer's training program still computed; 0: never */
    int node; /* the node that the peer waits for; STALL_NO_NODE: it waits for a message of any node */
};

struct stall {
    struct stall_report *reports; /* (n), by slot; NULL: none has come, as in most jobs */
    int n;
};

void stall_open(struct stall *s, int n);
void stall_clear(struct stall *s);

/* Seconds of a wait before its first report, and between two reports, in a job whose waits end after
 * `timeout_s`. */
double stall_period(double timeout_s);

/* The node that this exchange waits for; STALL_NO_NODE: none, or none in particular. A server of synchronous
 * rounds waits from the first contribution of a round to the last; a server of an asynchronous job waits, at
 * a barrier, for the worker whose last message is the oldest. */
int stall_awaits(const struct exchange *x);
/* Reports to every peer that this node waits for stall_awaits(). CODEC_GO or a code. */
int stall_send_wait(struct exchange *x, struct err *e);
/* Reports to every peer that this node's training program computes. CODEC_GO or a code. */
int stall_send_computing(struct exchange *x, struct err *e);
/* Has that node reported this lately? */
bool stall_computes(const struct exchange *x, int node, double timeout_s);
/* The node that holds up this node, after a wait of `timeout_s`; STALL_NO_NODE: not known. */
int stall_blocking_node(const struct exchange *x, double timeout_s);
/* Reports to every peer that this node ends because it has waited too long for `blocking`. */
void stall_send_timeout(struct exchange *x, int blocking);

/* Writes which nodes have reported lately, as of `timeout_s`, that they wait for this one: "node 0 waits",
 * "nodes 0, 2 wait". False: none. */
bool stall_list_waiting(const struct exchange *x, double timeout_s, char *out, size_t size);

/* Handles a FRAME_WAIT. ERR_TIMEOUT: its sender, and so the job, ends because of the node that the message
 * names. ERR_PROTOCOL: the message names no node of the job. ERR_NOMEM. */
int stall_on_report(struct exchange *x, const struct mesh_head *h, struct err *e);

#endif
