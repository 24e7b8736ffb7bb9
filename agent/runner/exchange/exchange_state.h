/* exchange_state -- the codecs' state of one node, between rounds, as tensors of a checkpoint, and back.
 *
 *   codec/K/cursor    I64 (8): step, round, samples since the last exchange, the four words of uniform()'s
 *                     generator, the bits of lr_factor; K counts the servers' ranges, 0 alone without servers
 *   codec/K/state     U8: the codec's state; where zeros() has put an address, it is 0
 *   codec/K/vectorI   F32: the vector in the field that the codec's I-th zeros() set
 *   codec/K/residual/B/I   F32: what error feedback keeps of the I-th vector of a message, about block B
 *                          or none, -1
 *
 * The host does not know what a state means: it saves bytes, and the vectors in the fields that zeros() set.
 * A field that holds anything else by then is refused, as is a rule that may have words under way: asgd, and
 * one that runs by events and does not say that it rests between steps. */
#ifndef PSGD_EXCHANGE_STATE_H
#define PSGD_EXCHANGE_STATE_H

#include "agent/runner/exchange/exchange.h"
#include "shared/tensor_file.h"

struct exchange_state { /* {0} is an empty one */
    struct tensor_view *tensors;
    size_t n;
    void *own; /* what tensors point at and no codec owns */
};

/* ERR_CODEC: why its state cannot be saved. To be asked before the first step: then nothing is lost. */
int exchange_can_save(struct exchange *x, struct err *e);
/* Between rounds, after `step` steps of a worker (a server takes none). The vectors are not copied: write
 * before the next step. */
int exchange_save(struct exchange_state *out, struct exchange *x, uint64_t step, struct err *e);
void exchange_state_clear(struct exchange_state *s);
/* Before the first step, what was saved after `step` steps. The caller knows that it was saved by this very
 * build of the codec: the bytes of a state mean nothing to another. ERR_CONFIG: the file holds no state of
 * these codecs at that step; ends the exchange's use then. */
int exchange_restore(struct exchange *x, const struct tensor_file *f, uint64_t step, struct err *e);
/* Bytes that exchange_save would give. */
uint64_t exchange_saved_bytes(struct exchange *x);

/* A rule that exchanges parameters each so many steps closes with a round after the last step. A job that
 * goes on after it would not have had that round: is this step such a last one? */
bool exchange_closes_early(struct exchange *x, uint64_t step);
/* Rounds that are closed after so many steps, but for such a closing one. */
uint64_t exchange_rounds_after(struct exchange *x, uint64_t step);

#endif
