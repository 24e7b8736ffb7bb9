/* problem -- the agent's error responses: RFC 9457, application/problem+json. */
#ifndef PSGD_PROBLEM_H
#define PSGD_PROBLEM_H

#include "shared/base/err.h"

enum problem {
    PROBLEM_NONE,
    BAD_REQUEST,
    UNAUTHORIZED,
    FORBIDDEN,
    NOT_FOUND,
    METHOD_NOT_ALLOWED,
    CONFLICT,
    AGENT_BUSY,
    JOB_EXISTS,
    WRONG_STATE,
    GONE,
    TIMED_OUT,
    LENGTH_REQUIRED,
    TOO_LARGE,
    UNSUPPORTED_MEDIA_TYPE,
    INVALID_DOCUMENT,
    DIGEST_MISMATCH,
    TOO_MANY_REQUESTS,
    SLOWED_DOWN,
    INTERNAL,
    DRAINING,
    OVERLOADED,
    DISK_FULL,
    CODEC_REFUSED,
    ISOLATION_TOO_LOW,
    TRAINER_REFUSED,
    N_PROBLEMS
};

int problem_status(enum problem p);
const char *problem_code(enum problem p);
const char *problem_title(enum problem p);
const char *problem_meaning(enum problem p); /* in general; the detail of a response is about its request */
const char *problem_advice(enum problem p);  /* what to do */

/* Returns the problem of this code; PROBLEM_NONE: there is none. */
enum problem problem_find(const char *code);

/* Returns the problem for an error of a function. */
enum problem problem_of(const struct err *e);

/* Returns the document, which the caller frees; "hint" is left out when NULL or "". NULL without memory. */
char *problem_document(enum problem p, const char *detail, const char *hint, const char *error_id);

#endif
