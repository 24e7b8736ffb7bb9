/* api -- the routes and their handlers. A new route is a line in ROUTES and its handler in an api_*.c;
 * docs/protocol.md 1.3 describes requests and responses, agent/api/openapi.json their documents. */
#ifndef PSGD_API_H
#define PSGD_API_H

#include <jansson.h>

#include "agent/api/routes.h"

enum { JSON_BODY = 64 << 10, PEERS_BODY = 1 << 20 };
#define BLOB_BODY (64ull << 30)

/* ROUTE(METHOD, pattern, handler, scope that it needs, max_body, flags, summary, schema of the body or NULL,
 * answers, keys of the query or NULL), as in struct route. */
/* clang-format off */
#define ROUTES(ROUTE) \
    ROUTE(GET, "/", api_page, NOTHING, 0, 0, \
          "the page that shows the agent and its jobs in a browser", NULL, "200 Html, 304", NULL) \
    ROUTE(GET, "/healthz", api_healthz, NOTHING, 0, 0, \
          "says ok while the process is alive", NULL, "200 Text", NULL) \
    ROUTE(GET, "/readyz", api_readyz, NOTHING, 0, 0, \
          "says whether the agent accepts jobs", NULL, "200 Ready, 503 Ready", NULL) \
    ROUTE(GET, "/metrics", api_metrics, LOCAL, 0, 0, \
          "what the agent counts, for Prometheus", NULL, "200 Prometheus", NULL) \
    ROUTE(GET, "/openapi.json", api_openapi, NOTHING, 0, 0, \
          "this document", NULL, "200 OpenApi, 304", NULL) \
    ROUTE(GET, "/problems/{code}", api_problem, NOTHING, 0, 0, \
          "what a problem means, and what to do", NULL, "200 Page", NULL) \
    ROUTE(GET, "/v1/status", api_status, LOCAL, 0, 0, \
          "what runs here, waits and has ended", NULL, "200 Status", NULL) \
    ROUTE(GET, "/v1/agent", api_agent, READ, 0, 0, \
          "the agent, its machine and its limits", NULL, "200 Agent", NULL) \
    ROUTE(POST, "/v1/agent/drain", api_drain, ADMIN, 0, 0, \
          "take no new jobs", NULL, "200 Draining", NULL) \
    ROUTE(POST, "/v1/agent/resume", api_resume, ADMIN, 0, 0, \
          "take jobs again", NULL, "200 Draining", NULL) \
    ROUTE(POST, "/v1/join", api_join, NOTHING, JSON_BODY, ROUTE_CODE, \
          "a token for a new client, by a code", "JoinRequest", "201 Joined, 401, 409, 422, 429", NULL) \
    ROUTE(GET, "/v1/prove", api_prove, NOTHING, 0, 0, \
          "proof that the agent knows a token, before it is sent", NULL, "200 Proof, 404", "nonce", "key") \
    ROUTE(GET, "/v1/jobs", api_jobs, READ, 0, 0, \
          "the jobs, newest first", NULL, "200 Jobs, 304", "state", "limit") \
    ROUTE(POST, "/v1/jobs", api_reserve, SUBMIT, JSON_BODY, 0, \
          "reserve a slot for a node of a job", "Reservation", \
          "201 Job, 200 Job, 409, 413, 422, 429, 503, 507", NULL) \
    ROUTE(GET, "/v1/jobs/{id}", api_job, READ, 0, ROUTE_JOB, \
          "a job", NULL, "200 Job, 304", NULL) \
    ROUTE(DELETE, "/v1/jobs/{id}", api_forget, SUBMIT, 0, ROUTE_JOB, \
          "remove a job that has ended, with its files", NULL, "204, 409", NULL) \
    ROUTE(PUT, "/v1/jobs/{id}/packages/{name}", api_package, SUBMIT, JSON_BODY, ROUTE_JOB, \
          "name the blobs of one of the job's packages", "PackageFiles", "204, 409, 422, 507", NULL) \
    ROUTE(POST, "/v1/jobs/{id}/start", api_start, SUBMIT, PEERS_BODY, ROUTE_JOB, \
          "start the node, once all nodes are ready", "Start", "202 Job, 409, 422, 507", NULL) \
    ROUTE(POST, "/v1/jobs/{id}/cancel", api_cancel, SUBMIT, JSON_BODY, ROUTE_JOB | ROUTE_BODY_OPTIONAL, \
          "end the job", "Cancel", "202 Job, 200 Job, 422", NULL) \
    ROUTE(GET, "/v1/jobs/{id}/wait", api_wait, READ, 0, ROUTE_JOB, \
          "the job, once it has ended or the time is over", NULL, "200 Job", "timeout_s") \
    ROUTE(GET, "/v1/jobs/{id}/events", api_events, READ, 0, ROUTE_JOB, \
          "the job's events as they occur", NULL, "200 Events", "after") \
    ROUTE(GET, "/v1/jobs/{id}/logs", api_logs, READ, 0, ROUTE_JOB, \
          "the node's log", NULL, "200 Text, 304", "after") \
    ROUTE(GET, "/v1/jobs/{id}/records.csv", api_records, READ, 0, ROUTE_JOB, \
          "one of the job's CSV files so far", NULL, "200 Csv, 304", "kind", "after") \
    ROUTE(GET, "/v1/jobs/{id}/artifacts", api_artifacts, READ, 0, ROUTE_JOB, \
          "the job's files", NULL, "200 Artifacts, 304", NULL) \
    ROUTE(GET, "/v1/jobs/{id}/artifacts/{name}", api_artifact, READ, 0, ROUTE_JOB, \
          "one of these files", NULL, "200 Bytes, 304", NULL) \
    ROUTE(GET, "/v1/jobs/{id}/metrics", api_curves, READ, 0, ROUTE_JOB, \
          "curves of the job's records, in a bounded number of points", NULL, "200 Series, 304, 409, 504", \
          "file", "names", "x", "points", "from", "to") \
    ROUTE(GET, "/v1/jobs/{id}/model", api_model, READ, 0, ROUTE_JOB, \
          "the model that the node has now, as safetensors", NULL, "200 Bytes, 409, 504", "timeout_s") \
    ROUTE(HEAD, "/v1/blobs/sha256/{hex}", api_blob_head, SUBMIT, 0, 0, \
          "whether the agent has these bytes", NULL, "200, 404", NULL) \
    ROUTE(PUT, "/v1/blobs/sha256/{hex}", api_blob_put, SUBMIT, BLOB_BODY, ROUTE_UPLOAD, \
          "send bytes, under their SHA-256", "Bytes", "200, 201, 422, 503, 507", NULL)
/* clang-format on */

#define ROUTE(method, pattern, handler, ...) route_handler handler;
ROUTES(ROUTE)
#undef ROUTE

extern const struct route routes[];
extern const size_t n_routes;

/* As counts.h counts it: 1 for the first route, 0 for NULL; and the labels of the numbers. route_label: NULL:
 * there is no such number. */
size_t route_number(const struct route *r);
const char *route_label(size_t i);
const char *method_label(size_t i);

struct task;
struct job;

/* Parses the body; NULL: answered with 400. */
json_t *api_body(const struct request *rq, struct response *rs);

/* Returns the job that the first argument names, and renews its lease if the request may do that; NULL:
 * answered with 404, as there is none, or none that this request may see. */
struct task *api_task(struct agent *a, const struct request *rq, struct response *rs);

/* Parses timeout_s, which is 60 if it is not given, and at most 3600; false: answered with 400. */
bool api_timeout(double *out, const struct request *rq, struct response *rs);

/* Whether the request may reach the job with this key. Two members with scope `submit` must not reach each
 * other's jobs. A request without the job's key gets the same answer whether or not the job exists. */
bool api_is_open(const struct request *rq, const char key_sha256[SHA256_HEX]);

/* Whether a list for this request has the job in it. */
bool api_is_listed(const struct request *rq, const struct job *j);

#endif
