#include "agent/api/static_document.h"

#include <stdlib.h>
#include <string.h>

void lasting_set(struct lasting *l, char *take, size_t len)
{
    lasting_clear(l);
    l->text = take;
    l->len = len;
    etag_make(l->etag, take, len);
}

void lasting_clear(struct lasting *l)
{
    free(l->text);
    *l = (struct lasting){0};
}

void respond_lasting(const struct request *rq, struct response *rs, const struct lasting *l, const char *type)
{
    if (etag_is_in(rq->if_none_match, l->etag)) {
        etag_unchanged(rs, l->etag, l->len);
        return;
    }
    *rs = (struct response){.type = type, .lasting = l->text, .len = l->len};
    memcpy(rs->etag, l->etag, sizeof l->etag);
}
