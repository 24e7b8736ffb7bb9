/* barrier -- in an asynchronous job with servers: a point at which no message is in transit and every worker
 * has completed the same epoch, or has ended. A worker says so to each server and waits; the messages that it
 * sent before have arrived when this one does. When the last worker has said so, a server answers all of
 * them, after every reply that it owed them.
 *
 *     worker  reaches an epoch, waits ---- FRAME_BARRIER, epoch ----> server  counts the workers that wait
 *     worker  goes on               <---- FRAME_BARRIER, epoch -----  server  when all do
 *
 * At an epoch's barrier each node writes its checkpoint: together they are one state of the job. At the last
 * one, where workers end, the answer carries the model that the server holds: it is the job's result, and the
 * model that every worker ends with. For the rule a worker that waits there has left.
 *
 * A worker waits here for the slowest worker, however long that takes. A worker that still computes sends
 * BARRIER_COMPUTES about once a second; a server that has received a message from every such worker sends
 * BARRIER_UNDER_WAY to the waiting workers, whose --round-timeout then begins anew. If a worker sends
 * nothing, the job ends at that timeout, and the error names the silent worker; with --on-node-loss continue
 * the server drops the silent worker, and the job continues.
 *
 * These frames are in no statistics of traffic, as the initial weights are not. */
#ifndef PSGD_BARRIER_H
#define PSGD_BARRIER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runner/mesh/mesh.h"
#include "shared/base/err.h"

struct exchange;

enum barrier_kind {
    BARRIER_EPOCH,     /* a worker has completed the epoch; a server: all have */
    BARRIER_END,       /* a worker has completed its part of the job; a server: all have, with its model */
    BARRIER_UNDER_WAY, /* a server: not yet, but all others compute */
    BARRIER_COMPUTES,  /* a worker, at no barrier: it has sent nothing for a while, but computes */
    BARRIER_KINDS
};

struct barrier_worker {
    uint64_t epoch;
    bool waits;     /* at that epoch's barrier */
    bool has_ended; /* waits at the last one */
    bool is_gone;   /* is lost, or has left after it */
    bool has_sent;  /* a message of it has arrived since servers last said that a barrier is under way */
    double received_at;
};

struct barrier {
    struct barrier_worker
        *workers;   /* server: (n_workers); NULL: the job has no barriers, or this is a worker */
    double sent_at; /* when this node last told others that it computes, or that a barrier is under way */
    double waited_since;    /* server: that anyone waits */
    bool *answered;         /* worker: (n_servers) */
    int n_open;             /* worker: servers that it waits for; 0: it is at no barrier */
    enum barrier_kind kind; /* worker: of the barrier that it waits at */
    uint64_t epoch;
};

int barrier_open(struct exchange *x, struct err *e);
void barrier_clear(struct barrier *b);
size_t barrier_bytes(const struct exchange *x); /* of the longest message */

/* Workers then call exchange_reach after each epoch that keeps a checkpoint, and at their end. */
bool exchange_has_barriers(const struct exchange *x);
/* A worker has completed `epoch` epochs; BARRIER_END: and its part of the job. Returns CODEC_WAIT until all
 * servers have answered, CODEC_GO from exchange_on_event then, or a code. */
int exchange_reach(struct exchange *x, enum barrier_kind kind, uint64_t epoch, struct err *e);
bool exchange_is_at_barrier(const struct exchange *x);

/* On a server, after each event: whether all workers wait, so that it may save its state and must then call
 * exchange_release. *epoch: the last epoch that all of them have completed. */
bool exchange_is_reached(const struct exchange *x, enum barrier_kind *kind, uint64_t *epoch);
int exchange_release(struct exchange *x, struct err *e);
/* Once a period or more often, on a server: tells workers at a barrier that it is under way. On a worker that
 * computes: tells servers that it does. CODEC_GO or a code. */
int exchange_send_under_way(struct exchange *x, double period, struct err *e);
int exchange_send_computing(struct exchange *x, double period, struct err *e);
/* On a server of a job that goes on without lost workers: drops those that have not been heard for `limit_s`
 * while others wait for them at a barrier; the mesh then reports them as lost. */
void exchange_drop_silent(struct exchange *x, double limit_s);

/* For the exchange. A FRAME_BARRIER, whose buffer it does not take. ERR_PROTOCOL: not a valid one; on a
 * server of a job that goes on, its sender is lost instead. */
int barrier_on_message(struct exchange *x, const struct mesh_event *ev);
/* Any message of that node. ERR_PROTOCOL, or its sender is lost: it waits at a barrier, and sends none. */
int barrier_on_any_message(struct exchange *x, const struct mesh_head *h);
void barrier_on_gone(struct exchange *x, int node);
void barrier_waits_for(const struct exchange *x, char *out, size_t size);
bool barrier_is_deserted(const struct exchange *x); /* on a server with barriers: no worker is left */
int barrier_awaits(const struct exchange *x);       /* STALL_NO_NODE: no node */
/* On a server: does the worker wait at the last barrier? It has left for the rule, but still listens. */
bool barrier_still_receives(const struct exchange *x, int node);

#endif
