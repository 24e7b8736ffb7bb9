/* static_document -- a document that is the same as long as the agent runs, and that nobody needs a token to
 * ask for: made at the first request, and sent from the one place in memory, whatever the number of
 * clients. */
#ifndef PSGD_LASTING_H
#define PSGD_LASTING_H

#include "agent/api/etag.h"

/* {0} is not made yet. */
struct lasting {
    char *text; /* owned; NULL: not made yet */
    size_t len;
    char etag[ETAG_TEXT];
};

void lasting_set(struct lasting *l, char *take, size_t len);
void lasting_clear(struct lasting *l);

/* Responds with it and its ETag, or with 304. It must outlive the server. */
void respond_lasting(const struct request *rq, struct response *rs, const struct lasting *l,
                     const char *type);

#endif
