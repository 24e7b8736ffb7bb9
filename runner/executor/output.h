/* output -- the result file of a node that runs an executor: output.txt in the working folder. */
#ifndef PSGD_OUTPUT_H
#define PSGD_OUTPUT_H

#include <stddef.h>
#include <stdint.h>

#include "shared/base/err.h"

enum { OUTPUT_HELD = 64 * 1024 };

struct output {
    int fd;     /* -1: not open */
    char *held; /* (OUTPUT_HELD), of which n_held are not written yet */
    size_t n_held;
    uint64_t n_bytes; /* so far */
};

/* Each may fail with ERR_NOSPACE and ERR_IO, opening also with ERR_NOMEM. */
int output_open(struct output *o, struct err *e);
/* ERR_CODEC: the file would have more than EXECUTOR_OUTPUT_MAX bytes. */
int output_write(struct output *o, const void *bytes, size_t n, struct err *e);
int output_sync(struct output *o, struct err *e); /* writes what is held, and syncs it to the disk */
void output_close(struct output *o);

#endif
