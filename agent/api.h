/* api -- the routes and their handlers. A new route is a line in ROUTES and its handler in an api_*.c;
 * docs/protocol.md 1.3 describes requests and responses. */
#ifndef PSGD_API_H
#define PSGD_API_H

#include <jansson.h>

#include "agent/routes.h"

enum { JSON_BODY = 64 << 10, PEERS_BODY = 1 << 20 };
#define BLOB_BODY (64ull << 30)

/* ROUTE(METHOD, pattern, handler, scope that it needs, max_body, flags, keys of the query, or NULL), as in
 * struct route. */
/* clang-format off */
#define ROUTES(ROUTE) \
    ROUTE(GET, "/healthz", api_healthz, NOTHING, 0, 0, NULL) \
    ROUTE(GET, "/readyz", api_readyz, NOTHING, 0, 0, NULL) \
    ROUTE(GET, "/metrics", api_metrics, LOCAL, 0, 0, NULL) \
    ROUTE(GET, "/problems/{code}", api_problem, NOTHING, 0, 0, NULL) \
    ROUTE(GET, "/v1/status", api_status, LOCAL, 0, 0, NULL) \
    ROUTE(GET, "/v1/agent", api_agent, READ, 0, 0, NULL) \
    ROUTE(POST, "/v1/agent/drain", api_drain, ADMIN, 0, 0, NULL) \
    ROUTE(POST, "/v1/agent/resume", api_resume, ADMIN, 0, 0, NULL) \
    ROUTE(POST, "/v1/join", api_join, NOTHING, JSON_BODY, ROUTE_CODE, NULL) \
    ROUTE(GET, "/v1/prove", api_prove, NOTHING, 0, 0, "nonce", "key") \
    ROUTE(GET, "/v1/jobs", api_jobs, READ, 0, 0, "state", "limit") \
    ROUTE(POST, "/v1/jobs", api_reserve, SUBMIT, JSON_BODY, 0, NULL) \
    ROUTE(GET, "/v1/jobs/{id}", api_job, READ, 0, ROUTE_JOB, NULL) \
    ROUTE(DELETE, "/v1/jobs/{id}", api_forget, SUBMIT, 0, ROUTE_JOB, NULL) \
    ROUTE(PUT, "/v1/jobs/{id}/packages/{name}", api_package, SUBMIT, JSON_BODY, ROUTE_JOB, NULL) \
    ROUTE(POST, "/v1/jobs/{id}/start", api_start, SUBMIT, PEERS_BODY, ROUTE_JOB, NULL) \
    ROUTE(POST, "/v1/jobs/{id}/cancel", api_cancel, SUBMIT, JSON_BODY, \
          ROUTE_JOB | ROUTE_BODY_OPTIONAL, NULL) \
    ROUTE(GET, "/v1/jobs/{id}/wait", api_wait, READ, 0, ROUTE_JOB, "timeout_s") \
    ROUTE(GET, "/v1/jobs/{id}/events", api_events, READ, 0, ROUTE_JOB, "after") \
    ROUTE(GET, "/v1/jobs/{id}/logs", api_logs, READ, 0, ROUTE_JOB, "after") \
    ROUTE(GET, "/v1/jobs/{id}/records.csv", api_records, READ, 0, ROUTE_JOB, "kind") \
    ROUTE(GET, "/v1/jobs/{id}/artifacts", api_artifacts, READ, 0, ROUTE_JOB, NULL) \
    ROUTE(GET, "/v1/jobs/{id}/artifacts/{name}", api_artifact, READ, 0, ROUTE_JOB, NULL) \
    ROUTE(GET, "/v1/jobs/{id}/model", api_model, READ, 0, ROUTE_JOB, "timeout_s") \
    ROUTE(HEAD, "/v1/blobs/sha256/{hex}", api_blob_head, SUBMIT, 0, 0, NULL) \
    ROUTE(PUT, "/v1/blobs/sha256/{hex}", api_blob_put, SUBMIT, BLOB_BODY, ROUTE_UPLOAD, NULL)
/* clang-format on */

#define ROUTE(method, pattern, handler, ...) route_handler handler;
ROUTES(ROUTE)
#undef ROUTE

struct task;
struct job;

/* Parses the body; NULL: answered with 400. */
json_t *api_body(const struct request *rq, struct response *rs);

/* Returns the job that the first argument names, and renews its lease if the request may do that; NULL:
 * answered with 404, as there is none, or none that this request may see. */
struct task *api_task(struct agent *a, const struct request *rq, struct response *rs);

/* Parses timeout_s, which is 60 if it is not given, and at most 3600; false: answered with 400. */
bool api_timeout(double *out, const struct request *rq, struct response *rs);

/* Whether a list for this request has the job in it. */
bool api_is_listed(const struct request *rq, const struct job *j);

#endif
