/* exit_status -- how a command of job_submit fails: its exit status, the error's name in messages and
 * JSON. */
#ifndef PSGD_SUBMIT_EXIT_STATUS_H
#define PSGD_SUBMIT_EXIT_STATUS_H

enum {
    EXIT_JOB_FAILED = 1,
    EXIT_USAGE = 2,
    EXIT_UNREACHABLE = 3,
    EXIT_REFUSED = 4,
    EXIT_TIMEOUT = 5,
    EXIT_INVALID = 6,
    EXIT_AUTH = 7,
    EXIT_CANCELLED = 8,
    EXIT_INCOMPLETE = 9,
    EXIT_INTERNAL = 70
};

struct failure {
    int code; /* of shared/base/err.h */
    int status;
    const char *name;
};

extern const struct failure failures[];
extern const int n_failures;
extern const char failure_exit_help[];

const char *failure_name(int code);
int failure_status(int code); /* of a command that was interrupted: that of the signal */

#endif
