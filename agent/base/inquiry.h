/* inquiry -- a process that prints one short answer about this machine: it is started when a client asks,
 * not waited for, and killed after some seconds. */
#ifndef PSGD_INQUIRY_H
#define PSGD_INQUIRY_H

#include "shared/base/child.h"
#include "shared/base/loop.h"

/* The caller sets the first five. */
struct inquiry {
    struct loop *loop;
    uint64_t *n_changes; /* incremented after the answer: waiting requests are asked again */
    /* Called once an inquiry, with what the process has printed. `failure`: why that is no answer; code 0: it
     * is one. */
    void (*answered)(void *arg, const char *text, size_t len, const struct err *failure);
    void *arg;
    const char *doubt; /* what may be wrong where the process fails: "is it Python 3?" */
    struct child child;
    struct watch watch;
    struct timer deadline;
    int out;            /* the process's stdout */
    double answered_at; /* clock_now(); 0: not yet */
};

/* Starts the process, whose stdout is set here. ERR_IO, ERR_NOMEM: it does not run, and `answered` is not
 * called. */
int inquiry_ask(struct inquiry *q, struct child_how *how, struct err *e);
bool inquiry_is_open(const struct inquiry *q);  /* the process runs */
bool inquiry_is_fresh(const struct inquiry *q); /* answered in the last seconds, or open */
bool inquiry_is_own(const struct inquiry *q, pid_t child);
void inquiry_close(struct inquiry *q); /* ends the process, if it runs, without an answer; {0} is allowed */

/* For struct child_how's `confine`: this process blocks the signals that end it. Returns 0, or -1 and
 * errno. */
int inquiry_unblock_signals(void);

#endif
