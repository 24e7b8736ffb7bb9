/* GET /openapi.json. */
#include <stdlib.h>
#include <string.h>

#include "agent/agent.h"
#include "agent/api.h"
#include "agent/etag.h"
#include "agent/openapi.h"
#include "shared/json.h"

/* It is the same as long as the agent runs, and nobody needs a token to ask for it: made once. */
static int make_document(struct agent *a, struct err *e)
{
    json_t *doc = a->openapi ? NULL : openapi_document(e);

    if (!a->openapi && !doc)
        return e->code;
    if (doc && !(a->openapi = json_line(doc)))
        err_set(e, ERR_NOMEM, "no memory for the document");
    json_decref(doc);
    return a->openapi ? 0 : e->code;
}

void api_openapi(struct agent *a, const struct request *rq, struct response *rs)
{
    struct err e = {0};

    if (make_document(a, &e) < 0) {
        respond_error(rs, &e);
        return;
    }
    rs->type = "application/json";
    rs->body = strdup(a->openapi);
    if (!rs->body) {
        respond_problem(rs, OVERLOADED, NULL, "no memory for the document");
        return;
    }
    rs->len = strlen(rs->body);
    etag_by_body(rq, rs);
}
