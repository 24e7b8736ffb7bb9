/* verdict -- what a job's nodes make of an evaluation: the mean of all workers' results, and whether the job
 * ends by it. It counts evaluations that all workers make, after the same steps: those of --eval-every and
 * of each epoch's end. One node, the coordinator, collects the results: the first server, or, without
 * servers, the first worker that has not left.
 *
 *     worker  its n-th result       --- VERDICT_REPORT -->  coordinator  when all workers have sent an n-th:
 *     all     go on, or end the job <-- VERDICT_RESULT ---               their mean, and the decision
 *
 * Synchronous workers wait for the result, so that all have the same one after the same step, and end after
 * it. Asynchronous workers go on: the n-th result is the mean of each worker's latest one when the last of
 * them has sent its n-th, and a worker ends after the step in which a decision reaches it. So decisions come
 * as often as the slowest worker evaluates; one that has taken all its steps is not waited for.
 *
 * A report has the sender's latest result, and the last mean that it knows, so it may be sent again. If a
 * coordinator between workers is lost or has ended, the others send theirs to the next one, which waits for
 * all of them: a mean that one of them knows counts, as it may have gone on by it. A decision to end the job
 * is also passed on by every worker to all others, where the job goes on without lost ones, as its sender
 * may leave before it is asked. With several servers each worker passes results on to all but the first, for
 * their codecs.
 *
 * A server's codec may end the job, too (wants_stop): VERDICT_STOP to all workers, before the reply of the
 * round in which it asked for it. Between workers each worker's codec decides for itself.
 *
 * No node is believed that an evaluation is known which another one has not made: such a worker is refused
 * like one that sends a malformed contribution, before others hear of it.
 *
 * These frames are in no statistics of traffic, like those of barrier.h. */
#ifndef PSGD_VERDICT_H
#define PSGD_VERDICT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runner/exchange/stop_rule.h"
#include "runner/mesh/mesh.h"
#include "shared/base/err.h"
#include "shared/job/stop.h"

struct exchange;

enum verdict_kind { VERDICT_REPORT, VERDICT_RESULT, VERDICT_STOP, VERDICT_KINDS }; /* the frame's index */

/* Of an evaluation, also in frames: 32 bytes, little-endian. */
struct verdict_result {
    uint64_t n;            /* from 1; 0: none yet */
    uint64_t step;         /* after which it was made; of a mean the least */
    double loss, accuracy; /* NAN: none */
};

/* The payload of VERDICT_REPORT; that of VERDICT_RESULT is a verdict_result, and the frame's round the
 * decision. */
struct verdict_report {
    struct verdict_result own, known;
};

struct verdict {
    bool is_on;
    uint64_t n_most;                /* evaluations that a job can have */
    struct verdict_report *reports; /* (n_workers): what each has sent to this node */
    struct verdict_result own, known;
    int reported_to; /* STALL_NO_NODE: nobody yet */
    int n_left;      /* workers that had left when the coordinator was chosen */
    bool waits;
    bool has_told; /* a server: that its codec ends the job */
    bool has_closed;
    struct stop_rule rule;
    struct stop stop; /* the decision; STOP_NONE: to go on */
};

int verdict_open(struct exchange *x, struct err *e);
void verdict_clear(struct verdict *v);
enum {
    VERDICT_BYTES = 2 * sizeof(struct verdict_result), /* of the longest message */
    VERDICT_QUEUE = 64 /* messages for a peer that no worker of an asgd without servers waits for */
};

/* Whether evaluations are shared: workers then call exchange_evaluated after each one that all workers make;
 * in asgd not after the job's last. */
bool exchange_shares_evaluations(const struct exchange *x);
/* This worker's result. CODEC_WAIT (ssgd): until the mean is known; then CODEC_GO from exchange_on_event. */
int exchange_evaluated(struct exchange *x, uint64_t step, double loss, double accuracy, struct err *e);
/* Why the job ends after the present step, by a decision of its nodes; STOP_NONE: it does not. */
const struct stop *exchange_stopped(const struct exchange *x);
/* On a worker that ends by such a decision, after its last step: the rule did not know in on_step that this
 * is the last one, and exchanges once more if it would have then. CODEC_GO, CODEC_WAIT or a code. */
bool exchange_must_close(const struct exchange *x);
int exchange_close(struct exchange *x, struct err *e);
/* Before it: will it change the worker's parameters? */
bool exchange_close_changes(const struct exchange *x);

bool exchange_close_is_amid(const struct exchange *x); /* between two rounds of a rule with local steps */

/* For the exchange. A FRAME_VERDICT, whose buffer it does not take. CODEC_GO or a code. */
int verdict_on_message(struct exchange *x, const struct mesh_event *ev);
/* After any event: a worker may have left, or a server's codec may have asked to end the job. */
int verdict_look(struct exchange *x);
/* On a server, before it replies: has its codec asked for it? Then tells the workers. */
int verdict_tell_stop(struct exchange *x);
void verdict_waits_for(const struct exchange *x, char *out, size_t size);
int verdict_awaits(const struct exchange *x); /* STALL_NO_NODE: no node */

#endif
