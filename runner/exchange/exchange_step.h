/* exchange_step -- the exchange's part in a worker's steps and at its end, for runner/core/ and for an
 * executor's loop, which call these functions in this order. A driver calls worker_next
 * (runner/core/worker.h) instead and needs exchange.h only.
 *
 *   exchange_on_block  the gradient of one of this worker's blocks is in grads (if exchange_wants_blocks)
 *   exchange_on_grad   the mean gradient over this worker's blocks is in grads
 *   exchange_on_step   the optimizer has updated params. After the last step, workers of a job that continues
 *                      without lost workers wait for each other: each may be needed until all have closed the
 *                      last round
 *
 * Each of them, and exchange_close, returns CODEC_GO, CODEC_WAIT or a code. */
#ifndef PSGD_EXCHANGE_STEP_H
#define PSGD_EXCHANGE_STEP_H

#include <stdbool.h>
#include <stddef.h>

#include "shared/base/err.h"

struct exchange;

bool exchange_wants_blocks(const struct exchange *x);
/* Does this worker take part in the present round? If not, it computes and contributes nothing: the caller
 * passes 0 samples to on_grad, and updates params only by an exchanged gradient. */
bool exchange_takes_part(const struct exchange *x);
int exchange_on_block(struct exchange *x, int block, struct err *e);
/* Before on_grad: the mean loss of these samples. */
void exchange_set_loss(struct exchange *x, double loss);
/* Before on_grad, of a training program: this worker has no more data, and passes 0 samples from now on. When
 * all have none, the job ends, as by a decision of its nodes: a synchronous job of a rule that combines with
 * the first exchange to which all have said so, others by finish_vote.h. In an asynchronous job with servers
 * the worker ends after this step. */
int exchange_set_finished(struct exchange *x, struct err *e);
int exchange_on_grad(struct exchange *x, size_t n_samples, struct err *e);

/* Does the rule exchange gradients, by which the optimizer updates? */
bool exchange_gives_gradient(const struct exchange *x);
/* Does the exchanged gradient show that a worker's gradient was not finite? True for a rule that
 * contributes plain gradients (signsgd contributes signs, so a peer's NaN does not show), and for a rule that
 * exchanges parameters. */
bool exchange_shows_gradient(const struct exchange *x);
/* Are gradients summed in memory that nodes share, where the sum may have overwritten this node's gradient?
 * If so, exchange_nonfinite_node returns a node whose contribution to the last sum was not finite, this node
 * first; -1: none on this machine. */
bool exchange_sums_in_memory(const struct exchange *x);
int exchange_nonfinite_node(const struct exchange *x);
/* Between on_grad's CODEC_GO and on_step: the gradient (n_params) for the update: grads, or a vector of the
 * codec, so that a collective's result need not be copied. */
const float *exchange_gradient(const struct exchange *x);
/* Does the job's optimizer run on this node? Otherwise it runs on the servers, and a worker does not change
 * its parameters after the exchange of gradients. */
bool exchange_updates_here(const struct exchange *x);

void exchange_updated(struct exchange *x, double lr); /* before on_step: the learning rate of the update */
int exchange_on_step(struct exchange *x, struct err *e);
/* Values that the codec sets for this worker: codec_events.h, lr_factor and below. A request to evaluate is
 * returned once. */
float exchange_lr_factor(const struct exchange *x);
bool exchange_take_evaluation(struct exchange *x);
bool exchange_wants_stop(const struct exchange *x);

/* On a worker that ends early (stop_vote_must_close), after its last step. In on_step the rule did not know
 * that the step is the last one: if it exchanges after the last step, it does so now. */
int exchange_close(struct exchange *x, struct err *e);
/* On a worker, at its end: closes one more round with the traffic after the last step (late replies of an
 * event rule), so that comm.csv adds up to the totals. */
void exchange_end_rounds(struct exchange *x);
/* Has that node sent BYE, or is it lost? */
bool exchange_has_left(const struct exchange *x, int node);
/* Is an event needed before the next call? Otherwise all of the last call is done. */
bool exchange_waits(const struct exchange *x);
bool exchange_is_over(const struct exchange *x); /* on a server: every worker has left */

#endif
