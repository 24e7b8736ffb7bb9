#include "agent/api/api.h"

#include <stdlib.h>
#include <string.h>

#include "agent/api/agent_state.h"
#include "agent/jobs/job_action.h"
#include "agent/jobs/retention.h"
#include "shared/base/json.h"

static const double MAX_WAIT_S = 3600, DEFAULT_WAIT_S = 60;

#define ONE(...) +1
_Static_assert(0 ROUTES(ONE) < COUNTS_ROUTES, "raise COUNTS_ROUTES");
#undef ONE
_Static_assert(N_METHODS + 1 == COUNTS_METHODS, "counts.h: COUNTS_METHODS");

#define ROUTE(method, pattern, handler, needs, max_body, flags, summary, takes, answers, ...)                \
    {METHOD_##method, pattern, handler, NEEDS_##needs, max_body,                                             \
     flags,           summary, takes,   answers,       {__VA_ARGS__}},
const struct route routes[] = {ROUTES(ROUTE)};
#undef ROUTE
const size_t n_routes = sizeof routes / sizeof routes[0];

size_t route_number(const struct route *r)
{
    return r ? (size_t)(r - routes) + 1 : 0;
}

const char *route_label(size_t i)
{
    return i == 0 ? "none" : i <= n_routes ? routes[i - 1].pattern : NULL;
}

const char *method_label(size_t i)
{
    return i < N_METHODS ? method_names[i] : "other";
}

json_t *api_body(const struct request *rq, struct response *rs)
{
    struct err e;
    json_t *doc;

    if (json_parse(&doc, rq->body ? rq->body : "", rq->body_len, "body", &e) == 0)
        return doc;
    respond_problem(rs, BAD_REQUEST, NULL, "%s", e.text);
    return NULL;
}

bool api_is_listed(const struct request *rq, const struct job *j)
{
    return !rq->is_authorised /* it may see the list all the same: of a loopback address */ ||
           rq->scope != SCOPE_SUBMIT || strcmp(j->owner, rq->who) == 0;
}

bool api_is_open(const struct request *rq, const char key_sha256[SHA256_HEX])
{
    bool has_key = key_sha256[0] && rq->job_key[0] &&
                   equal_in_constant_time(key_sha256, rq->job_key, SHA256_HEX);

    return has_key || rq->scope == SCOPE_ADMIN || (rq->scope == SCOPE_READ && rq->route->needs == NEEDS_READ);
}

static void respond_unknown(const struct agent *a, const struct request *rq, struct response *rs)
{
    const struct tombstone *f = task_find(&a->jobs, rq->arg[0]) ? NULL
                                                                : retention_tombstone(&a->jobs, rq->arg[0]);

    if (f && api_is_open(rq, f->key_sha256))
        respond_problem(rs, GONE, NULL, "%s was removed at %s: %s", f->id, f->at, f->why);
    else
        respond_problem(rs, NOT_FOUND, NULL, "%s: unknown job", rq->arg[0]);
}

struct task *api_task(struct agent *a, const struct request *rq, struct response *rs)
{
    struct task *t = task_attempt(&a->jobs, rq->arg[0], rq->attempt);

    if (!t || !api_is_open(rq, t->job.key_sha256)) {
        respond_unknown(a, rq, rs);
        return NULL;
    }
    if (rq->scope != SCOPE_READ)
        job_touch(t);
    return t;
}

bool api_timeout(double *out, const struct request *rq, struct response *rs)
{
    const char *text = query_get(rq, "timeout_s");
    char *end;

    *out = text ? strtod(text, &end) : DEFAULT_WAIT_S;
    if (!text || (!*end && strspn(text, "0123456789.") == strlen(text) && *out <= MAX_WAIT_S))
        return true;
    respond_problem(rs, BAD_REQUEST, NULL, "timeout_s=%s: not a number from 0 to %g", text, MAX_WAIT_S);
    return false;
}
