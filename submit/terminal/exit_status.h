/* exit_status -- the exit status of a command of job_submit for each error, and the error's name in messages
 * and in JSON. */
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

struct error_exit_status {
    int code; /* enum err_code */
    int status;
    const char *name;
};

extern const struct error_exit_status exit_statuses[];
extern const int n_exit_statuses;
extern const char exit_status_help[];

const char *exit_status_error_name(int code); /* "UNREACHABLE" */
/* The exit status of a command that ends with this error; 128 + the signal, if a signal has interrupted
 * it. */
int exit_status_of(int code);

#endif
