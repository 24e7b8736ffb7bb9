/* api -- the routes and their handlers. A new route is a line in ROUTES and its handler in an api_*.c;
 * docs/protocol.md 1.3 describes requests and responses. */
#ifndef PSGD_API_H
#define PSGD_API_H

#include <jansson.h>

#include "agent/routes.h"

enum { JSON_BODY = 64 << 10, PEERS_BODY = 1 << 20 };
#define BLOB_BODY (64ull << 30)

/* ROUTE(METHOD, pattern, handler, max_body, flags, keys of the query, or NULL), as in struct route. */
/* clang-format off */
#define ROUTES(ROUTE) \
    ROUTE(GET, "/healthz", api_healthz, 0, ROUTE_PUBLIC, NULL) \
    ROUTE(GET, "/readyz", api_readyz, 0, ROUTE_PUBLIC, NULL) \
    ROUTE(GET, "/v1/status", api_status, 0, ROUTE_LOCAL_PUBLIC, NULL) \
    ROUTE(GET, "/v1/agent", api_agent, 0, 0, NULL) \
    ROUTE(POST, "/v1/join", api_join, JSON_BODY, ROUTE_PUBLIC | ROUTE_CODE, NULL) \
    ROUTE(GET, "/v1/jobs", api_jobs, 0, 0, "state", "limit") \
    ROUTE(POST, "/v1/jobs", api_reserve, JSON_BODY, 0, NULL) \
    ROUTE(GET, "/v1/jobs/{id}", api_job, 0, ROUTE_JOB, NULL) \
    ROUTE(DELETE, "/v1/jobs/{id}", api_forget, 0, ROUTE_JOB, NULL) \
    ROUTE(PUT, "/v1/jobs/{id}/packages/{name}", api_package, JSON_BODY, ROUTE_JOB, NULL) \
    ROUTE(POST, "/v1/jobs/{id}/start", api_start, PEERS_BODY, ROUTE_JOB, NULL) \
    ROUTE(POST, "/v1/jobs/{id}/cancel", api_cancel, JSON_BODY, ROUTE_JOB | ROUTE_BODY_OPTIONAL, NULL) \
    ROUTE(GET, "/v1/jobs/{id}/wait", api_wait, 0, ROUTE_JOB, "timeout_s") \
    ROUTE(GET, "/v1/jobs/{id}/events", api_events, 0, ROUTE_JOB, "after") \
    ROUTE(GET, "/v1/jobs/{id}/logs", api_logs, 0, ROUTE_JOB, "after") \
    ROUTE(GET, "/v1/jobs/{id}/records.csv", api_records, 0, ROUTE_JOB, "kind") \
    ROUTE(GET, "/v1/jobs/{id}/artifacts", api_artifacts, 0, ROUTE_JOB, NULL) \
    ROUTE(GET, "/v1/jobs/{id}/artifacts/{name}", api_artifact, 0, ROUTE_JOB, NULL) \
    ROUTE(HEAD, "/v1/blobs/sha256/{hex}", api_blob_head, 0, 0, NULL) \
    ROUTE(PUT, "/v1/blobs/sha256/{hex}", api_blob_put, BLOB_BODY, ROUTE_UPLOAD, NULL)
/* clang-format on */

#define ROUTE(method, pattern, handler, ...) route_handler handler;
ROUTES(ROUTE)
#undef ROUTE

struct task;

/* Parses the body; NULL: answered with 400. */
json_t *api_body(const struct request *rq, struct response *rs);

/* Returns the job that the first argument names, and renews its lease if the request is authorized; NULL:
 * answered with 404. */
struct task *api_task(struct agent *a, const struct request *rq, struct response *rs);

#endif
