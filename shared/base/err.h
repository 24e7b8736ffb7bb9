/* err -- error reporting: a function returns 0 or a negative code and writes a message for the user to
 * `struct err *e`, always the last parameter.
 *
 *     if (thing_read(&t, path, e) < 0)
 *         return err_at(e, "node %d", node);      // "node 1: data.idx: 12 bytes missing"
 *
 * The message states what happened, where, and what to do; the last part may be in `hint`. */
#ifndef PSGD_ERR_H
#define PSGD_ERR_H

/* The kind of failure. The agent maps it to an HTTP status, job_submit to an exit status. */
enum err_code {
    ERR_INTERNAL = -100, /* a bug in psgd */
    ERR_NOMEM,
    ERR_USAGE,       /* a wrong command line */
    ERR_CONFIG,      /* an invalid document: worker.json, settings, model, data */
    ERR_CODEC,       /* a codec does not compile, load or follow its contract */
    ERR_TRAINER,     /* a training program is refused, fails or does not follow its contract */
    ERR_IO,          /* a file or socket call failed */
    ERR_NOSPACE,     /* the disk is full */
    ERR_UNREACHABLE, /* no answer from an address */
    ERR_REFUSED,     /* an agent refused: a codec, a level of isolation, not enough of a resource */
    ERR_AUTH,        /* token, key or certificate */
    ERR_PROTOCOL,    /* the other side violates docs/protocol.md */
    ERR_TIMEOUT,
    ERR_LOST,      /* a node of the job was lost */
    ERR_NUMERIC,   /* a loss or gradient is not finite */
    ERR_CANCELLED, /* a stop was requested */
    ERR_NOT_FOUND,
    ERR_CONFLICT, /* the request conflicts with the present state */
    ERR_BUSY      /* an agent refuses now what it may accept later: busy, draining, full disk */
};

struct err {
    int code;
    char text[1024];
    char hint[384];
};

/* Each returns `code` (err_at, err_hint: the code in *e), so that callers can `return err_set(...)`. */
int err_set(struct err *e, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* As err_set, and appends ": " and strerror(errno), and if a limit of the process, the user or the machine
 * has been reached, err_limit_text(). ENOMEM sets ERR_NOMEM, a full disk (ENOSPC, EDQUOT) ERR_NOSPACE. */
int err_errno(struct err *e, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* System calls for which an errno means a limit of their own; any other call is CALL_OTHER. */
enum call {
    CALL_OTHER,
    CALL_INOTIFY,       /* inotify_init1 */
    CALL_INOTIFY_WATCH, /* inotify_add_watch */
    CALL_EPOLL_CTL,
    CALL_PIPE,   /* pipe2 */
    CALL_FORK,   /* fork */
    CALL_THREAD, /* pthread_create */
    CALL_MAP     /* mmap, mremap */
};

/* As err_errno, after a failure of that call. */
int err_call(struct err *e, int code, enum call call, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* Prepends context to the message: "context: text". */
int err_at(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int err_hint(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

enum { ERR_LIMIT_TEXT = 256 };

/* Writes which limit a call has reached that failed with errno `error`, its present value, and what raises
 * it: "this process may have 256 open files: ulimit -n, or LimitNOFILE= of a systemd unit, raises that"; ""
 * if the error does not mean a limit. */
void err_limit_text(char out[ERR_LIMIT_TEXT], enum call call, int error);

/* Returns v for printing in a message, a NaN without its meaningless sign, which printf would print. */
double err_number(double v);

#endif
