/* err -- the one error idiom: a function returns 0 or a negative code, and the sentence for a person
 * goes to `struct err *e`, always the last parameter.
 *
 *     if (thing_read(&t, path, e) < 0)
 *         return err_at(e, "node %d", node);      // "node 1: data.idx: 12 bytes missing"
 *
 * The sentence says what, where and what to do; `hint` may carry the last part by itself. */
#ifndef PSGD_ERR_H
#define PSGD_ERR_H

/* What kind of failure it is. The caller maps it: HTTP to a status, job_submit to an exit status. */
enum err_code {
    ERR_INTERNAL = -100, /* our own mistake */
    ERR_NOMEM,
    ERR_USAGE,       /* wrong words on a command line */
    ERR_CONFIG,      /* a document does not say what it must: worker.json, settings, model, data */
    ERR_CODEC,       /* a codec does not compile, load or follow its contract */
    ERR_IO,          /* a file or socket call failed */
    ERR_NOSPACE,     /* the disk is full */
    ERR_UNREACHABLE, /* nobody answers at an address */
    ERR_REFUSED,     /* an agent answered no: busy, draining, too little of something */
    ERR_AUTH,        /* token, key or certificate */
    ERR_PROTOCOL,    /* the other side does not speak as docs/protocol.md says */
    ERR_TIMEOUT,
    ERR_LOST,      /* a node of the job went away */
    ERR_NUMERIC,   /* a loss or gradient is not finite */
    ERR_CANCELLED, /* somebody asked to stop */
    ERR_NOT_FOUND,
    ERR_CONFLICT /* the request does not fit the state things are in */
};

struct err {
    int code;
    char text[1024];
    char hint[384];
};

/* Each returns `code` (err_at, err_hint: the code already there), so that `return err_set(...)` reads
 * well. */
int err_set(struct err *e, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* As err_set, and ": " with the words for errno behind it. ENOSPC and ENOMEM choose their own code. */
int err_errno(struct err *e, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* Puts context in front of what is there: "context: text". */
int err_at(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int err_hint(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* A number as a sentence shows it: a NaN without its sign, which printf writes and which means nothing. */
double err_number(double v);

#endif
