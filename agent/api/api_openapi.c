/* GET /openapi.json. */
#include <string.h>

#include "agent/api/agent_state.h"
#include "agent/api/api.h"
#include "agent/api/openapi.h"
#include "shared/base/json.h"

static int make_document(struct static_document *l, struct err *e)
{
    json_t *doc = openapi_document(e);
    char *text = doc ? json_line(doc) : NULL;

    json_decref(doc);
    if (text)
        static_document_set(l, text, strlen(text));
    else if (doc)
        err_set(e, ERR_NOMEM, "no memory for the document");
    return text ? 0 : e->code;
}

void api_openapi(struct agent *a, const struct request *rq, struct response *rs)
{
    struct err e = {0};

    if (!a->openapi.text && make_document(&a->openapi, &e) < 0)
        respond_error(rs, &e);
    else
        respond_static(rq, rs, &a->openapi, "application/json");
}
