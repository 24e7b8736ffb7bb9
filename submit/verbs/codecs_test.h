/* codecs_test -- the conformance suite on one codec: each check in a process of its own. */
#ifndef PSGD_SUBMIT_CODECS_TEST_H
#define PSGD_SUBMIT_CODECS_TEST_H

#include "submit/options/submit_options.h"

/* `text` is "NAME|FILE[:KEY=VALUE,...]". Prints a line for each check, or JSON. Returns 0; EXIT_JOB_FAILED
 * where a check failed; else ERR_CODEC (it does not load), ERR_USAGE, ERR_CANCELLED, ERR_IO, ERR_NOMEM. */
int codec_test(const struct options *o, const char *text, struct err *e);

#endif
