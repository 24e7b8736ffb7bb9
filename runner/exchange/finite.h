/* finite -- refuses vectors with values that are not finite, in the round to which the vectors belong, and
 * names the node that sent them. Otherwise the loss of another node would show such a value a step later.
 *
 * Not checked are contributions to an aggregate other than the mean, which counts such values as outliers,
 * and gradients of a job with --on-nonfinite skip, whose update is left out (runner/core/step.h). */
#ifndef PSGD_FINITE_H
#define PSGD_FINITE_H

#include <stddef.h>

struct channel;
struct combining_contribution;

/* Each returns CODEC_GO or ERR_NUMERIC. */

/* The vectors and numbers that worker `from` contributes. */
int finite_check_contribution(struct channel *ch, int from, const struct combining_contribution *is);
/* The combination of this round. `from` negative: the server that has sent it; otherwise this node or the
 * collective has computed it. numbers may be NULL. */
int finite_check_combination(struct channel *ch, int from, const float *const *vectors, const float *numbers);
/* The parameters that the server `from` replies with. */
int finite_check_parameters(struct channel *ch, int from, const float *v);
/* A vector (n) of a message of node `from`, under a rule with messages of its own. */
int finite_check_message(struct channel *ch, int from, const float *v, size_t n);

#endif
