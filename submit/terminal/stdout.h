/* stdout -- standard output, for results, and whether writing them succeeded. */
#ifndef PSGD_SUBMIT_STDOUT_H
#define PSGD_SUBMIT_STDOUT_H

#include <jansson.h>
#include <stdbool.h>

#include "shared/base/err.h"

/* Call before any file is opened: reserves closed descriptors among 0 to 2, so that no file opened later gets
 * one of them and receives terminal output. Ignores SIGPIPE and SIGXFSZ: when stdout's reader ends, or a file
 * reaches the limit of `ulimit -f`, the write fails, and the error is reported. */
void stdout_init(void);

/* Has a write to stdout failed? Further output is then useless. */
bool stdout_has_failed(void);

/* Flushes stdout. 0: all output is written; 128 + SIGPIPE: the reader is gone, as after `| head`; ERR_IO. */
int stdout_finish(struct err *e);

/* Prints {"schema_version":"1","ok":...,"data":...} with a line feed; takes ownership of `data`. e: the error
 * of a command that failed, and `code` its name (exit_status.h); NULL: none. */
void stdout_json(bool ok, json_t *data, const struct err *e, const char *code);

#endif
