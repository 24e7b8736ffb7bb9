/* machine_limits -- when a call of the kernel fails because a limit is reached: which limit, its present
 * value, and what raises it. err_errno() and err_call() add it to their messages. */
#ifndef PSGD_LIMITS_H
#define PSGD_LIMITS_H

#include <stddef.h>

enum { LIMIT_TEXT = 256 };

/* The calls that mean something of their own by an error; any other call is CALL_OTHER. */
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

/* Writes "this process may have 256 open files: ulimit -n, or LimitNOFILE= of a systemd unit, raises that" of
 * a call that failed with `error`; "" if that error is no limit's. */
void limit_text(char out[LIMIT_TEXT], enum call call, int error);

#endif
