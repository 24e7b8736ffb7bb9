/* optimizer_options -- the parameters of --gradient-descent that only some optimizers have. */
#ifndef PSGD_OPTIMIZER_OPTIONS_H
#define PSGD_OPTIMIZER_OPTIONS_H

#include "submit/options/submit_options.h"

/* ERR_USAGE: the optimizer has no parameter that is given and not 0. */
int optimizer_options_check(const struct options *o, struct err *e);
/* Sets those that are not given to the optimizer's own values, 0 where it has none; and the learning rate and
 * the weight decay likewise. */
void optimizer_options_complete(struct options *o);

#endif
