/* routes -- what a route is (the table of all is in api.h), and request and response as plain structs: a
 * handler maps one to the other and knows no socket. */
#ifndef PSGD_ROUTES_H
#define PSGD_ROUTES_H

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
struct curve;
struct route;

struct request {
    enum method method; /* N_METHODS: another one, which no route takes */
    const struct route *route;
    char arg[N_ARGS_MAX][ARG_MAX + 1]; /* the path's values for {…} of the pattern, checked */
    struct {
        const char *key; /* the route's own string */
        char value[QUERY_VALUE_MAX + 1];
    } query[N_QUERY_MAX];
    size_t n_query;
    bool is_authorised; /* sent a token that is valid, or none is required */
    bool has_tls;
    enum scope scope;              /* of that token; admin where none is required */
    char who[OWNER_MAX + 1];       /* the name of that token; "": none is required */
    char job_key[SHA256_HEX];      /* SHA-256 of X-Job-Key; "": not sent */
    int attempt;                   /* X-Job-Attempt: which attempt of the job; 0: not sent, the latest */
    bool wants_ndjson, wants_html; /* Accept names it */
    const char *if_none_match;     /* as sent; NULL: not. Valid while the request is handled */
    const char *body;              /* zero-terminated */
    size_t body_len;
};

enum response_kind {
    RESPONSE_BYTES,
    RESPONSE_FILE,   /* `bytes` of `fd`, from offset `after`; fd -1: only the length, of no body */
    RESPONSE_STREAM, /* events of job `id` after `after` */
    RESPONSE_WAIT,   /* the job, once terminal or at `deadline` */
    RESPONSE_CURVE,  /* `curve`, once it is ready */
    RESPONSE_MODEL   /* the model of the node, once it has written it for the `after`-th time (model_now.h) */
};

/* {0} is 200 without a body. */
struct response {
    enum response_kind kind;
    int status; /* 0: 200 */
    const char *type;
    char *body;              /* owned */
    const char *static_body; /* in place of body: `len` bytes that outlive the server */
    struct curve *curve;     /* RESPONSE_CURVE: owned, freed by free_curve */
    void (*free_curve)(struct curve *);
    size_t len;
    int fd; /* RESPONSE_FILE: owned until the server takes it */
    uint64_t bytes;
    char id[JOB_ID_MAX + 1];
    int attempt;
    uint64_t after;
    bool is_ndjson;
    bool holds;      /* a stream that holds the reservation of its job */
    double deadline; /* clock_now() */
    char location[80];
    char allow[40]; /* 405 */
    char etag[24];  /* "": none */
    int retry_after_s;
    const char *policy; /* Content-Security-Policy of a page; NULL: not one for browsers */
};

typedef void route_handler(struct agent *a, const struct request *rq, struct response *rs);

enum route_flags {
    ROUTE_UPLOAD = 1,        /* the body is a blob named {hex}: streamed to the store, not to the handler */
    ROUTE_BODY_OPTIONAL = 2, /* no Content-Length means an empty body */
    ROUTE_CODE = 8,          /* the body has a code instead of a token */
    ROUTE_JOB = 4            /* the first argument is a job id; the request renews its reservation */
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
    unsigned flags;
    const char *summary;
    const char *takes;   /* the schema of the body; NULL: there is none */
    const char *answers; /* "200 Job, 304, 409": statuses and, if they have a body, its schema. A status from
                          * 400 on without one is a problem; those of the gate (gate.h) are not listed */
    const char *keys[N_QUERY_MAX + 1]; /* of the query */
};

/* Returns whether `path` fits the pattern; fills rq->arg. */
bool route_matches(const struct route *r, const char *path, size_t len, struct request *rq);

const char *query_get(const struct request *rq, const char *key); /* NULL: not given */

/* Parses the whole number of at most 15 digits under `key`, at least `least`; `otherwise` if the key is not
 * given. Returns false if it is no such number, and fills the response. */
bool query_number(uint64_t *out, const struct request *rq, struct response *rs, const char *key,
                  uint64_t least, uint64_t otherwise);

/* Fills a response. The detail is a printf format; the hint may be NULL. */
void respond_problem(struct response *rs, enum problem p, const char *hint, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
void respond_error(struct response *rs, const struct err *e);
void respond_json(struct response *rs, int status, json_t *take); /* takes the value */
void respond_page(struct response *rs, json_t *take);             /* 200, printed for people; takes it */
void response_clear(struct response *rs);

#endif
