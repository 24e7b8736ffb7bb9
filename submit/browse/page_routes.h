/* page_routes -- what the page asks for: each path's document. */
#ifndef PSGD_SUBMIT_PAGE_ROUTES_H
#define PSGD_SUBMIT_PAGE_ROUTES_H

#include <stdint.h>

#include "submit/browse/job_list.h"
#include "submit/browse/target.h"

struct browse_request {
    char method[8]; /* GET, HEAD or POST */
    struct target target;
};

struct browse_answer {
    int status;
    const char *type;
    char *body; /* owned; NULL: the file */
    size_t len;
    int fd; /* owned; -1: none */
    uint64_t bytes;
    char name[128]; /* of a file that is to be kept, not shown; "": it is shown */
    bool is_events; /* a stream of events of the list of jobs */
};

/* Fills *out in any case, if need be with what went wrong (application/problem+json). */
void browse_route(struct browse_answer *out, struct job_list *s, const struct browse_request *rq);
void browse_problem(struct browse_answer *out, int status, const char *detail);
void browse_answer_clear(struct browse_answer *out);

#endif
