/* exchange_state -- saves the codecs' state of one node, between rounds, as tensors of a checkpoint, and
 * restores it.
 *
 *   codec/K/cursor    I64 (11), by enum checkpoint_cursor (shared/records/weights.h): step, round, samples
 *                     since the last exchange, the four 64-bit words of uniform()'s generator, the bits of
 *                     lr_factor, n_local, the bits of lr_sum, in asgd the server's round of the parameters;
 *                     K is the number of a worker's server, otherwise 0
 *   codec/K/state     U8: the codec's state; a field set by zeros() or array() is saved as 0
 *   codec/K/vectorI   F32, of array() U8: the vector in the field that the codec's I-th such call set
 *   codec/K/global   F32: the parameters that all workers have in common, of a rule that keeps them
 *   verdict/known    I64 (4), verdict/errors F64 (n): where evaluations are shared, the last mean of all
 *                    workers' results (number, step, the bits of loss and accuracy), and the errors of all
 *                    means, which --patience compares (stop_rule.h)
 *   codec/K/residual/B/I   F32: the residual that error feedback keeps of the I-th vector of a message, about
 *                          block B, or -1
 *   codec/K/copy/W   F32: where servers send differences, the parameters as worker W has them; 0
 *                    where all workers have the same, and on a worker
 *   codec/K/left/W   F32: what a server's last message to it left out, where contributions lack that
 *
 * The host does not know what a state means: it saves bytes, and the vectors in the fields that zeros() and
 * array() set. It refuses a field that holds anything else, and a rule that may have messages in transit:
 * asgd, and an event rule without is_quiescent_between_steps. */
#ifndef PSGD_EXCHANGE_STATE_H
#define PSGD_EXCHANGE_STATE_H

#include "runner/exchange/exchange.h"
#include "shared/records/tensor_file.h"

struct exchange_state { /* {0} is an empty one */
    struct tensor_view *tensors;
    size_t n;
    void *own; /* the data of tensors that are not vectors of a codec */
};

/* ERR_CODEC: why the state cannot be saved. Call it before the first step, so that no work is lost. */
int exchange_can_save(struct exchange *x, struct err *e);
/* Between rounds, in asgd at a barrier, after `step` steps of a worker (a server takes none). The vectors
 * are not copied: write before the next step. */
int exchange_save(struct exchange_state *out, struct exchange *x, uint64_t step, struct err *e);
void exchange_state_clear(struct exchange_state *s);
/* Before the first step: restores what was saved after `step` steps. The caller has checked that the same
 * build of the codec saved it: another build may lay out its state differently. ERR_CONFIG: the file holds no
 * state of these codecs at that step; the exchange must not be used then. */
int exchange_restore(struct exchange *x, const struct tensor_file *f, uint64_t step, struct err *e);
/* Bytes that exchange_save would return. */
uint64_t exchange_saved_bytes(struct exchange *x);

/* Does the job end after `step` with an extra round? A rule that exchanges parameters every local_steps steps
 * has one after the last step: a job with more epochs would have no round at this step. */
bool exchange_closes_early(struct exchange *x, uint64_t step);
/* The number of rounds that are closed after so many steps, without such an extra round. In a job with
 * barriers the actual number may differ: a server's rounds are the contributions of all workers, and an epoch
 * may end between two. */
uint64_t exchange_rounds_after(struct exchange *x, uint64_t step);
/* The rounds that this node closes in the whole job, if no worker is lost; 0: not known, of an event rule. */
uint64_t exchange_rounds_in_all(struct exchange *x);

#endif
