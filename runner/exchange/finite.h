/* finite -- refuses vectors with values that are not finite, in the round to which the vectors belong, and
 * names the node that sent them. Otherwise such a value would be noticed only a step later, in the loss of
 * another node.
 *
 * Not checked are contributions to an aggregate other than the mean, which counts such values as outliers,
 * and gradients of a job with --on-nonfinite skip, whose update is left out (runner/core/step.h). */
#ifndef PSGD_FINITE_H
#define PSGD_FINITE_H

#include <stddef.h>

struct channel;
struct combining_contribution;

/* Each returns CODEC_GO or ERR_NUMERIC. */

/* What worker `from` contributes: its vectors and numbers. */
int finite_check_contribution(struct channel *ch, int from, const struct combining_contribution *is);
/* The combination of this round: sent by the server `from`, which is negative; else computed by this node or
 * by the collective. numbers may be NULL. */
int finite_check_combination(struct channel *ch, int from, const float *const *vectors, const float *numbers);
/* The parameters that the server `from` replies with. */
int finite_check_parameters(struct channel *ch, int from, const float *v);
/* A vector (n) of a message of node `from`, under a rule with messages of its own. */
int finite_check_message(struct channel *ch, int from, const float *v, size_t n);

#endif
