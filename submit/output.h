/* output -- stdout, where results go, and whether they got there. */
#ifndef PSGD_SUBMIT_OUTPUT_H
#define PSGD_SUBMIT_OUTPUT_H

#include <stdbool.h>

#include "shared/err.h"

/* Before anything is opened: where one of the descriptors 0 to 2 is closed, no file shall come to lie there
 * and get what is meant for people. And a reader that goes away ends no job: SIGPIPE is ignored. */
void output_init(void);

/* Something could not be written: there is no use in going on. */
bool output_has_failed(void);

/* 0, with all that was printed written; 128 + SIGPIPE where the reader has gone, as `head` goes when it has
 * seen enough; ERR_IO. */
int output_finish(struct err *e);

#endif
