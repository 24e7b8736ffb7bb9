/* page_routes -- answers the requests of the page: which path has which document. */
#ifndef PSGD_SUBMIT_PAGE_ROUTES_H
#define PSGD_SUBMIT_PAGE_ROUTES_H

#include <stdint.h>

#include "submit/browse/job_list.h"
#include "submit/browse/target.h"

struct page_request {
    char method[8]; /* GET, HEAD or POST */
    struct target target;
};

struct page_response {
    int status;
    const char *type;
    char *body; /* owned; NULL: the body is the file */
    size_t len;
    int fd; /* owned; -1: none */
    uint64_t bytes;
    char name[128]; /* of a file that the browser saves; "": the browser shows the body */
    bool is_events; /* the body is the stream of job_list_events() */
};

/* Fills *out in any case, after an error with a problem (application/problem+json). */
void page_routes_answer(struct page_response *out, struct job_list *s, const struct page_request *rq);
void page_routes_problem(struct page_response *out, int status, const char *detail);
void page_response_clear(struct page_response *out);

#endif
