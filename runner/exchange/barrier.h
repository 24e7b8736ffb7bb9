/* barrier -- in an asynchronous job with servers: a point at which no message is in transit and every worker
 * has done the same number of steps, or has ended. A worker sends a barrier message to each server and waits;
 * a connection keeps the order, so its earlier messages have arrived when that one does. When the last
 * worker's message has arrived, a server sends all of them an answer, after every reply that they wait for.
 *
 *     worker  reaches a step, waits  ---- FRAME_BARRIER, step -----> server  counts the workers that wait
 *     worker  continues             <---- FRAME_BARRIER, step ------  server  when all wait
 *
 * At a step's barrier each node writes its checkpoint: together they are one state of the job. At the last
 * barrier, where workers end, the answer carries the model that the server holds: it is the job's result, and
 * the model with which every worker ends. The rule is told that a worker waiting there has left.
 *
 * A worker waits here for the slowest worker, however long that takes. A worker that still computes sends
 * BARRIER_COMPUTES about once a second; a server that has received a message from every such worker sends
 * BARRIER_UNDER_WAY to the waiting workers, whose --round-timeout then begins anew. If a worker sends
 * nothing, the job ends at that timeout, and the error names the silent worker; with --on-node-loss continue
 * the server drops the silent worker, and the job continues.
 *
 * Statistics of traffic do not count these frames, as they do not count the initial weights. */
#ifndef PSGD_BARRIER_H
#define PSGD_BARRIER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runner/mesh/mesh.h"
#include "shared/base/err.h"

struct exchange;

enum barrier_kind {
    BARRIER_POINT,     /* of a worker: it has done the step; of a server: all workers have */
    BARRIER_END,       /* of a worker: it has completed its part; of a server: all have, with its model */
    BARRIER_UNDER_WAY, /* of a server: all workers that are not at the barrier compute */
    BARRIER_COMPUTES,  /* of a worker at no barrier: it computes, although it has sent nothing for a while */
    BARRIER_KINDS
};

struct barrier_worker {
    uint64_t step;
    bool waits;         /* at that step's barrier */
    bool has_ended;     /* waits at the last barrier */
    bool is_gone;       /* is lost, or has left after the last barrier */
    bool has_sent;      /* a message of it has arrived since the last BARRIER_UNDER_WAY */
    double received_at; /* stopwatch_now of its last message */
};

struct barrier {
    struct barrier_worker *workers; /* server: (n_workers); NULL: a job without barriers, or a worker */
    double sent_at;                 /* of the last BARRIER_COMPUTES or BARRIER_UNDER_WAY */
    double waited_since;            /* server: since when a worker waits */
    bool *answered;                 /* worker: (n_servers) */
    int n_open;                     /* worker: servers whose answer is missing; 0: it is at no barrier */
    enum barrier_kind kind;         /* worker: of the barrier at which it waits */
    uint64_t step;
};

int barrier_open(struct exchange *x, struct err *e);
void barrier_clear(struct barrier *b);
size_t barrier_bytes(const struct exchange *x); /* of the longest message */

/* Does the job have barriers? Then a worker calls barrier_reach before each checkpoint, and
 * at its end. */
bool barrier_is_used(const struct exchange *x);
/* A worker has done `step` steps; BARRIER_END: and its part of the job. Returns CODEC_WAIT until all
 * servers have answered, CODEC_GO from exchange_on_event then, or a code. */
int barrier_reach(struct exchange *x, enum barrier_kind kind, uint64_t step, struct err *e);
bool barrier_waits(const struct exchange *x); /* does this worker wait at a barrier? */

/* On a server, after each event: do all workers wait? If so, it may save its state, and must then call
 * barrier_release. *step: the last step that all of them have done. */
bool barrier_is_reached(const struct exchange *x, enum barrier_kind *kind, uint64_t *step);
int barrier_release(struct exchange *x, struct err *e);
/* Call these once a period or more often. A server sends BARRIER_UNDER_WAY to the workers at a barrier, a
 * worker that computes sends BARRIER_COMPUTES to the servers. CODEC_GO or a code. */
int barrier_send_under_way(struct exchange *x, double period, struct err *e);
int barrier_send_computing(struct exchange *x, double period, struct err *e);
/* On a server of a job that continues without lost workers: drops the workers that have sent nothing for
 * `limit_s` while others wait for them at a barrier; the mesh then reports them as lost. */
void barrier_drop_silent(struct exchange *x, double limit_s);

/* For the exchange. Handles a FRAME_BARRIER; the caller keeps its buffer. ERR_PROTOCOL: the frame is invalid;
 * on a server of a job that continues without lost workers, its sender is lost instead. */
int barrier_on_message(struct exchange *x, const struct mesh_event *ev);
/* Notes a message of any kind. ERR_PROTOCOL, or its sender is lost: a worker that waits at a barrier sends
 * none. */
int barrier_on_any_message(struct exchange *x, const struct mesh_head *h);
void barrier_on_gone(struct exchange *x, int node);
void barrier_waits_for(const struct exchange *x, char *out, size_t size);
bool barrier_is_deserted(const struct exchange *x); /* on a server with barriers: all workers have left */
int barrier_awaits(const struct exchange *x);       /* STALL_NO_NODE: no node */
/* On a server: does the worker wait at a barrier, and so still receive messages? At the last one the rule was
 * told that it has left. */
bool barrier_still_receives(const struct exchange *x, int node);

#endif
