/* optimizer_names -- the names of Parallel-SGD's optimizers (--optimizer). In psgd the codec decides what
 * nodes exchange; a job whose codec does not exchange what the named optimizer does is refused. */
#ifndef PSGD_SUBMIT_OPTIMIZER_NAMES_H
#define PSGD_SUBMIT_OPTIMIZER_NAMES_H

#include "submit/codecs/codec_probe.h"

/* The names of double buffering, as further choices of --optimizer. */
#define OPTIONS_LATE "|fast|double_buffering_gradient_averaging"

/* ERR_CONFIG: this optimizer exchanges other values than the codec. */
int optimizer_names_check(const char *optimizer, const struct codec_facts *f, struct err *e);

#endif
