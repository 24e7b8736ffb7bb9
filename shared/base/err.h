/* err -- error reporting: a function returns 0 or a negative code and writes a message for the user to
 * `struct err *e`, always the last parameter.
 *
 *     if (thing_read(&t, path, e) < 0)
 *         return err_at(e, "node %d", node);      // "node 1: data.idx: 12 bytes missing"
 *
 * The message states what happened, where, and what to do; the last part may be in `hint`. */
#ifndef PSGD_ERR_H
#define PSGD_ERR_H

#include "shared/base/machine_limits.h"

/* The kind of failure. The agent maps it to an HTTP status, job_submit to an exit status. */
enum err_code {
    ERR_INTERNAL = -100, /* a bug in psgd */
    ERR_NOMEM,
    ERR_USAGE,       /* a wrong command line */
    ERR_CONFIG,      /* an invalid document: worker.json, settings, model, data */
    ERR_CODEC,       /* a codec does not compile, load or follow its contract */
    ERR_IO,          /* a file or socket call failed */
    ERR_NOSPACE,     /* the disk is full */
    ERR_UNREACHABLE, /* no answer from an address */
    ERR_REFUSED,     /* an agent refused: busy, draining, not enough of a resource */
    ERR_AUTH,        /* token, key or certificate */
    ERR_PROTOCOL,    /* the other side violates docs/protocol.md */
    ERR_TIMEOUT,
    ERR_LOST,      /* a node of the job was lost */
    ERR_NUMERIC,   /* a loss or gradient is not finite */
    ERR_CANCELLED, /* a stop was requested */
    ERR_NOT_FOUND,
    ERR_CONFLICT /* the request conflicts with the present state */
};

struct err {
    int code;
    char text[1024];
    char hint[384];
};

/* Each returns `code` (err_at, err_hint: the code in *e), so that callers can `return err_set(...)`. */
int err_set(struct err *e, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* As err_set, and appends ": " and strerror(errno), and where that is a limit of the machine, which one and
 * what raises it (machine_limits.h). ENOSPC and ENOMEM set their own code. */
int err_errno(struct err *e, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* The same for a call of the kernel whose errors mean other limits. */
int err_call(struct err *e, int code, enum call call, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* Prepends context to the message: "context: text". */
int err_at(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int err_hint(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Returns v for printing in a message, a NaN without its meaningless sign, which printf would print. */
double err_number(double v);

#endif
