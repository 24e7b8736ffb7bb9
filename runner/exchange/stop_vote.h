/* stop_vote -- a job's nodes share the results of an evaluation: all receive the mean of all workers'
 * results, and the decision whether it ends the job. Shared are the evaluations that all workers make after
 * the same steps: those of --eval-every, and of the end of each epoch. One node, the coordinator, collects
 * the results: the first server, or, without servers, the first worker that has not left.
 *
 *     worker  its n-th result         --- STOP_VOTE_REPORT -->  coordinator  when all workers have sent their
 *     all     continue or end the job <-- STOP_VOTE_RESULT ---               n-th: the mean, and the decision
 *
 * Synchronous workers wait for the mean, so all have the same mean after the same step, and end after it.
 * Asynchronous workers do not wait: the coordinator computes the n-th mean, of each worker's latest result,
 * when the slowest worker has sent its n-th result, and a worker ends after the step in which it receives a
 * decision. Decisions are therefore as frequent as the evaluations of the slowest worker. The coordinator
 * does not wait for a worker that has completed all its steps.
 *
 * A report has the sender's latest result and the last mean that it has received, so a report can be
 * repeated. If the coordinator is a worker, and is lost or ends, the other workers send their reports to the
 * next coordinator, which waits for all of them. If a report has a mean, that mean counts, because its sender
 * may already have continued with it. In a job that continues without lost workers, every worker also
 * forwards a decision to end the job to all others, because the coordinator may leave before the others have
 * received it. With several servers, each worker forwards means to all servers but the first, for their
 * codecs.
 *
 * A server's codec may end the job, too (wants_stop): the server sends STOP_VOTE_STOP to all workers, before
 * the reply of the round in which the codec asked for it. Without servers each worker's codec decides for its
 * own worker.
 *
 * A report that claims a mean of an evaluation which some worker has not made is refused, and its sender is
 * handled like the sender of a malformed contribution, before the claim reaches other nodes.
 *
 * Statistics of traffic do not count these frames, as they do not count those of barrier.h. */
#ifndef PSGD_STOP_VOTE_H
#define PSGD_STOP_VOTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runner/exchange/stop_rule.h"
#include "runner/mesh/mesh.h"
#include "shared/base/err.h"
#include "shared/job/stop.h"

struct exchange;

/* The frame's index. */
enum stop_vote_kind {
    STOP_VOTE_REPORT,
    STOP_VOTE_RESULT,
    STOP_VOTE_STOP,
    STOP_VOTE_FINISHED, /* this and the next one: finish_vote.h */
    STOP_VOTE_LAST,
    STOP_VOTE_POINT, /* this and the next one: save_vote.h */
    STOP_VOTE_SAVED,
    STOP_VOTE_PART, /* this and the next one: test_sum.h */
    STOP_VOTE_TOTAL,
    STOP_VOTE_KINDS
};

/* The result of an evaluation. Frames contain this struct: 32 bytes, little-endian. */
struct stop_vote_result {
    uint64_t n;            /* from 1; 0: none yet */
    uint64_t step;         /* the evaluation was made after it; of a mean: the smallest of all workers' */
    double loss, accuracy; /* NAN: none */
};

/* The payload of STOP_VOTE_REPORT. The payload of STOP_VOTE_RESULT is a stop_vote_result, and the frame's
 * round has the decision. */
struct stop_vote_report {
    struct stop_vote_result own, known;
};

struct stop_vote {
    bool is_on;
    uint64_t n_most;                  /* evaluations that a job can have */
    struct stop_vote_report *reports; /* (n_workers): the last one that each worker has sent to this node */
    struct stop_vote_result own, known;
    int reported_to; /* STALL_NO_NODE: to no node yet */
    int n_left;      /* workers that had left when the coordinator was chosen */
    bool waits;
    bool has_sent_stop; /* server: STOP_VOTE_STOP has been sent to the workers */
    bool has_closed;
    struct stop_rule rule;
    struct stop stop; /* the decision; STOP_NONE: the job continues */
};

int stop_vote_open(struct exchange *x, struct err *e);
void stop_vote_clear(struct stop_vote *v);
enum {
    STOP_VOTE_BYTES = 2 * sizeof(struct stop_vote_result), /* of the longest message */
    STOP_VOTE_QUEUE = 64 /* messages for a peer that no worker of an asgd without servers waits for */
};

/* Are evaluations shared? If so, workers call stop_vote_share after each evaluation that all workers make;
 * in asgd not after the job's last. */
bool stop_vote_is_used(const struct exchange *x);
/* Shares this worker's result. CODEC_WAIT (ssgd): until exchange_on_event returns CODEC_GO, with the mean. */
int stop_vote_share(struct exchange *x, uint64_t step, double loss, double accuracy, struct err *e);
/* The decision of the job's nodes to end it after the present step; reason STOP_NONE: there is none. */
const struct stop *stop_vote_decision(const struct exchange *x);
/* On a worker, after its last step: was it ended before n_steps, by such a decision or because all
 * mini-batches of the feed are assigned, and has it not called exchange_close yet? */
bool stop_vote_must_close(const struct exchange *x);
/* Before exchange_close: will it change the worker's parameters? */
bool stop_vote_close_changes(const struct exchange *x);
/* Have workers made local steps since the last exchange of a rule with local steps? */
bool stop_vote_closes_within_round(const struct exchange *x);

/* For the exchange, finish_vote.c, save_vote.c and test_sum.c. The node that collects the workers' messages,
 * and whether a worker has not left; sends a frame of that kind, whose round is `round`, to one node, to all
 * other workers that have not left, or, on a worker, to all servers but the first, the coordinator. CODEC_GO
 * or a code. */
int stop_vote_coordinator(const struct exchange *x);
bool stop_vote_is_present(const struct exchange *x, int worker);
int stop_vote_send(struct exchange *x, int to, enum stop_vote_kind kind, uint64_t round, const void *payload,
                   size_t len);
int stop_vote_send_workers(struct exchange *x, enum stop_vote_kind kind, uint64_t round, const void *payload,
                           size_t len);
int stop_vote_send_servers(struct exchange *x, enum stop_vote_kind kind, uint64_t round, const void *payload,
                           size_t len);
/* For the exchange. Handles a FRAME_STOP_VOTE; the caller keeps its buffer. CODEC_GO or a code. */
int stop_vote_on_message(struct exchange *x, const struct mesh_event *ev);
/* After any event: a worker may have left, or a server's codec may have asked to end the job. */
int stop_vote_update(struct exchange *x);
/* On a server, before it replies: sends STOP_VOTE_STOP to the workers if its codec has asked to end the
 * job. */
int stop_vote_send_stop(struct exchange *x);
void stop_vote_waits_for(const struct exchange *x, char *out, size_t size);
int stop_vote_awaits(const struct exchange *x); /* STALL_NO_NODE: no node */

#endif
