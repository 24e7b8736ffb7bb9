/* api -- the routes of the agent: what a route is, the table of all, and request and response as plain
 * structs. A handler maps one to the other and knows no socket. A new route is a line in ROUTES and its
 * handler in an api_NAME.c; docs/protocol.md 1.3 describes requests and responses, agent/api/openapi.json
 * their documents. */
#ifndef PSGD_API_H
#define PSGD_API_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/api/problem.h"
#include "agent/base/agent_options.h"
#include "agent/jobs/event.h"

enum method { METHOD_GET, METHOD_HEAD, METHOD_POST, METHOD_PUT, METHOD_DELETE, N_METHODS };
extern const char *const method_names[N_METHODS]; /* "GET", ... */
enum { TARGET_MAX = 512, N_ARGS_MAX = 2, ARG_MAX = 64, N_QUERY_MAX = 6, QUERY_VALUE_MAX = 256 };

struct agent;
struct job;
struct api_response;
struct route;
struct task;

struct request {
    enum method method; /* N_METHODS: another one, which no route takes */
    const struct route *route;
    char arg[N_ARGS_MAX][ARG_MAX + 1]; /* the path's values for {…} of the pattern, checked */
    struct {
        const char *key; /* the route's own string */
        char value[QUERY_VALUE_MAX + 1];
    } query[N_QUERY_MAX];
    size_t n_query;
    bool is_authorised; /* its token is valid, or the agent requires none */
    bool has_tls;
    enum scope scope;              /* of the token; admin where none is required */
    char who[OWNER_MAX + 1];       /* the name of the token; "": none is required */
    char job_key[SHA256_HEX];      /* SHA-256 of X-Job-Key; "": not sent */
    int attempt;                   /* X-Job-Attempt: which attempt of the job; 0: not sent, the latest */
    bool wants_ndjson, wants_html; /* Accept names it */
    const char *if_none_match;     /* as sent; NULL: not sent. Valid while the request is handled */
    const char *body;              /* zero-terminated */
    size_t body_len;
};

/* What a response waits for: is_over is asked when a job has changed, and at least once a second; `finish`
 * fills the response once is_over is true, or when the agent stops; `drop` frees rs->awaited. */
struct wait_kind {
    bool (*is_over)(const struct agent *a, const struct api_response *rs);
    void (*finish)(struct agent *a, struct api_response *rs);
    void (*drop)(void *awaited); /* NULL: there is nothing to free */
};

enum response_kind {
    RESPONSE_BYTES,
    RESPONSE_FILE,   /* `bytes` of `fd`, from offset `after`; fd -1: only the length, without a body */
    RESPONSE_STREAM, /* events of job `id` after `after` */
    RESPONSE_WAIT    /* not made yet: `wait` says when and how */
};

/* {0} is 200 without a body. */
struct api_response {
    enum response_kind kind;
    int status; /* 0: 200 */
    const char *type;
    char *body;              /* owned */
    const char *static_body; /* in place of body: `len` bytes that outlive the server */
    size_t len;
    int fd; /* RESPONSE_FILE: owned until the server takes it */
    uint64_t bytes;
    char id[JOB_ID_MAX + 1]; /* RESPONSE_STREAM, RESPONSE_WAIT: of the job, with the attempt */
    int attempt;
    uint64_t after;
    bool is_ndjson;
    bool holds; /* a stream that holds the reservation of its job */
    const struct wait_kind *wait;
    void *awaited;   /* of `wait`, which frees it */
    double deadline; /* of RESPONSE_WAIT, clock_now(): is_over is asked then, too */
    char location[80];
    char allow[40]; /* 405 */
    char etag[24];  /* "": none */
    int retry_after_s;
    const char *policy; /* Content-Security-Policy of a page; NULL: not one for browsers */
};

typedef void route_handler(struct agent *a, const struct request *rq, struct api_response *rs);

enum route_flags {
    ROUTE_UPLOAD = 1,        /* the body is a blob named {hex}: streamed to the store, not to the handler */
    ROUTE_BODY_OPTIONAL = 2, /* no Content-Length means an empty body */
    ROUTE_JOB = 4,           /* the first argument is a job id; the request renews its reservation */
    ROUTE_CODE = 8           /* the body has a code instead of a token */
};

/* What a request must show. */
enum needs {
    NEEDS_NOTHING,
    NEEDS_LOCAL, /* nothing from a loopback address, otherwise as NEEDS_READ */
    NEEDS_READ,  /* a token of this scope or a higher one */
    NEEDS_SUBMIT,
    NEEDS_ADMIN
};

struct route {
    enum method method;
    const char *pattern; /* /v1/jobs/{id}: {id} a job's id, {hex} a SHA-256, {name} one plain segment */
    route_handler *handler;
    enum needs needs;
    uint64_t max_body; /* 0: no body allowed */
    unsigned flags;    /* enum route_flags */
    const char *summary;
    const char *takes;   /* the schema of the body; NULL: there is none */
    const char *answers; /* "200 Job, 304, 409": statuses, each with the schema of its body if it has one. A
                          * status from 400 on without one is a problem; those of the gate (gate.h) are not
                          * listed */
    const char *keys[N_QUERY_MAX + 1]; /* of the query */
};

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
    ROUTE(GET, "/v1/agent/runner", api_runner, READ, 0, 0, \
          "what the agent's job_runner computes with", NULL, "200 Runner", NULL) \
    ROUTE(GET, "/v1/agent/trainers", api_trainers, READ, 0, 0, \
          "what a training program finds on the agent's machine", NULL, "200 Trainers", NULL) \
    ROUTE(POST, "/v1/agent/drain", api_drain, ADMIN, 0, 0, \
          "take no new jobs", NULL, "200 Draining", NULL) \
    ROUTE(POST, "/v1/agent/resume", api_resume, ADMIN, 0, 0, \
          "take jobs again", NULL, "200 Draining", NULL) \
    ROUTE(GET, "/v1/queue", api_queue, READ, 0, 0, \
          "the users whose jobs wait for this agent, and their jobs", NULL, "200 Queues", NULL) \
    ROUTE(POST, "/v1/queue", api_ask_turn, SUBMIT, JSON_BODY, 0, \
          "say that jobs wait, and ask whether one may take a slot now; answers after a change", \
          "QueueRequest", "200 Turn, 422, 429", "timeout_s") \
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
    ROUTE(PUT, "/v1/jobs/{id}/packages", api_packages, SUBMIT, JSON_BODY, ROUTE_JOB, \
          "name the blobs of all of the job's packages", "Packages", "200 Lacks, 409, 422, 507", NULL) \
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

/* Returns whether `path` fits the pattern; fills rq->arg. */
bool route_matches(const struct route *r, const char *path, size_t len, struct request *rq);

/* Of GET /metrics: the index of a route is 1 for the first one and 0 for NULL. route_label returns NULL if no
 * route has the index. */
size_t route_number(const struct route *r);
const char *route_label(size_t i);
const char *method_label(size_t i);

const char *query_get(const struct request *rq, const char *key); /* NULL: not given */

/* The functions with a struct api_response that return false or NULL have filled it with a problem.
 *
 * Parses the whole number of at most 15 digits under `key`, at least `least`; `otherwise` if the key is not
 * given. */
bool query_number(uint64_t *out, const struct request *rq, struct api_response *rs, const char *key,
                  uint64_t least, uint64_t otherwise);

/* Parses timeout_s, in seconds up to 3600; 60 if it is not given. */
bool api_timeout(double *out, const struct request *rq, struct api_response *rs);

/* Parses the body, which the caller frees. */
json_t *api_body(const struct request *rq, struct api_response *rs);

/* In api_jobs.c: returns the job that the first argument names, and renews its lease if the request may do
 * that. NULL, with status 404: there is no such job, or the request may not see it. */
struct task *api_task(struct agent *a, const struct request *rq, struct api_response *rs);

/* Whether the request may reach the job with this key. Two members with scope `submit` must not reach each
 * other's jobs. A request without the job's key gets the same answer whether or not the job exists. */
bool api_is_open(const struct request *rq, const char key_sha256[SHA256_HEX]);

/* In api_queue.c: the users whose jobs wait outside of the agent. The caller owns it. */
json_t *api_queues_json(struct agent *a, const struct request *rq);

/* Whether the request may see the jobs of all users. */
bool api_sees_all(const struct request *rq);
/* Whether a list for this request has the job in it. */
bool api_is_listed(const struct request *rq, const struct job *j);

/* Fills a response. The detail is a printf format; the hint may be NULL. */
void respond_problem(struct api_response *rs, enum problem p, const char *hint, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
void respond_error(struct api_response *rs, const struct err *e);
void respond_json(struct api_response *rs, int status, json_t *take); /* takes the value */
void respond_page(struct api_response *rs, json_t *take); /* 200, indented for readers; takes the value */
void response_clear(struct api_response *rs);

#endif
