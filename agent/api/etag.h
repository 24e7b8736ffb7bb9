/* etag -- the ETag of a resource, and whether a request's If-None-Match has it: a client that polls an
 * unchanged resource gets 304 without a body. The tags are weak (RFC 9110 8.8.1): that of a job does not
 * change while only its elapsed time does. */
#ifndef PSGD_ETAG_H
#define PSGD_ETAG_H

#include <sys/stat.h>

#include "agent/api/api.h"

/* Tags a 200 by its body, which must be complete, and makes it a 304 if the request has that tag. */
void etag_by_body(const struct request *rq, struct api_response *rs);

/* The same for a file, by its inode, time and size and by the part that is served. Runners append to files or
 * replace them as a whole, and both change one of these. */
void etag_by_file(const struct request *rq, struct api_response *rs, const struct stat *st);

/* Responds with a job, or with {"jobs": [job, ...]}, and its tag, or with 304. Takes the value. The tag does
 * not depend on `elapsed_s`, which changes without an event and follows from started_at. */
void respond_jobs(const struct request *rq, struct api_response *rs, json_t *take);

/* What the functions above do it with: the tag of `len` bytes, and the 304 for a body of `bytes`. */
enum { ETAG_TEXT = sizeof((struct api_response *)0)->etag };
void etag_make(char out[ETAG_TEXT], const void *bytes, size_t len);
void etag_unchanged(struct api_response *rs, const char etag[ETAG_TEXT], uint64_t bytes);

/* Whether a value of If-None-Match (NULL: not sent) has the tag, by the weak comparison, or is `*`. */
bool etag_is_in(const char *if_none_match, const char *etag);

/* A document that stays the same while the agent runs and needs no token. It is made at the first request and
 * sent to every client from the same memory. {0} is not made yet. */
struct static_document {
    char *text; /* owned; NULL: not made yet */
    size_t len;
    char etag[ETAG_TEXT];
};

void static_document_set(struct static_document *d, char *take, size_t len);
void static_document_clear(struct static_document *d);

/* Responds with the document and its ETag, or with 304. The document must outlive the server. */
void respond_static(const struct request *rq, struct api_response *rs, const struct static_document *d,
                    const char *type);

#endif
