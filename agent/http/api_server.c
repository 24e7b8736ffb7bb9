#include "agent/http/api_server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/base/log.h"
#include "agent/jobs/event_stream.h"
#include "shared/base/clock.h"
#include "shared/http/tls_session.h"

enum { LINES_PER_S = 16 };
/* Most bytes of request bodies in memory: for authenticated clients, and for others. */
static const size_t BODIES_MAX = 64 << 20, UNAUTHENTICATED_BODIES_MAX = 4 << 20;

_Static_assert((int)TLS_CLIENT_MAX == (int)OWNER_MAX, "a client's certificate names an owner");

/* One request with its response: the `own` of its http_call. */
struct api_call {
    struct http_call *call;
    char request_id[20];
    double begun;              /* clock_now() */
    const struct route *asked; /* rq.route, also after a refusal, which makes that NULL */
    struct request rq;
    struct api_response rs;
    char *body;
    size_t body_size;
    struct blob_upload upload;
    struct stream stream;
};

static struct api_server *server_of(const struct api_call *x)
{
    return http_arg(x->call);
}

static bool waits(const struct api_call *x)
{
    return x->rs.kind == RESPONSE_WAIT;
}

static bool wait_is_over(const struct api_call *x)
{
    return x->rs.wait->is_over(server_of(x)->agent, &x->rs);
}

static bool is_ready(const struct http_call *c)
{
    const struct api_call *x = c->own;

    return x->stream.is_open ? stream_is_ready(&x->stream) : wait_is_over(x);
}

/* One line a second for each source, and LINES_PER_S of all sources, so that they cannot fill the disk. A
 * malformed request is answered and not logged. */
static void log_refusal(struct api_call *x, const char *why)
{
    struct api_server *h = server_of(x);

    if (!sources_may_log(h->sources, http_source(x->call), clock_now()) || h->n_logged == LINES_PER_S) {
        h->n_unlogged++;
        return;
    }
    h->n_logged++;
    log_line(LOG_LEVEL_WARN, "agent", NULL, "http: %s %.100s from %s refused: %s", x->request_id,
             x->call->head->target, x->call->peer_host, why);
}

/* Sets the body. If http_respond succeeds, it owns what the response owned of it. */
static void set_body(struct http_response *out, struct api_call *x)
{
    struct api_response *rs = &x->rs;

    if (rs->kind == RESPONSE_STREAM) {
        stream_open(&x->stream, &server_of(x)->agent->jobs, rs->id, rs->attempt, rs->after, rs->is_ndjson,
                    rs->holds);
        out->kind = HTTP_STREAM;
    } else if (rs->kind == RESPONSE_FILE && (rs->fd < 0 || rs->bytes > 0)) {
        out->kind = rs->fd < 0 ? HTTP_LENGTH : HTTP_FILE;
        out->fd = rs->fd;
        out->at = rs->after;
        out->len = rs->bytes;
    } else {
        out->kind = rs->body ? HTTP_BYTES : HTTP_STATIC;
        out->bytes = rs->body;
        out->static_bytes = rs->static_body ? rs->static_body : "";
        out->len = rs->len;
    }
}

static void respond(struct api_call *x)
{
    struct api_server *h = server_of(x);
    struct api_response *rs = &x->rs;
    struct http_response a = {.status = rs->status ? (unsigned)rs->status : 200};
    char number[16];

    snprintf(number, sizeof number, "%d", rs->retry_after_s);
    const struct header headers[] = {
        {"Content-Type", rs->type},
        {"X-Request-Id", x->request_id},
        {"X-Content-Type-Options", "nosniff"},
        {"Cache-Control", "no-store"},
        {"Location", rs->location[0] ? rs->location : NULL},
        {"Allow", rs->allow[0] ? rs->allow : NULL},
        {"ETag", rs->etag[0] ? rs->etag : NULL},
        {"WWW-Authenticate", a.status == 401 ? "Bearer" : NULL},
        {"Retry-After", rs->retry_after_s ? number : NULL},
        {"Content-Security-Policy", rs->policy},
        {"Referrer-Policy", rs->policy ? "no-referrer" : NULL},
    };
    a.headers = headers;
    a.n_headers = sizeof headers / sizeof headers[0];
    set_body(&a, x);
    if (!http_respond(x->call, &a))
        return;
    if (a.kind == HTTP_FILE)
        rs->fd = -1;
    else if (a.kind == HTTP_BYTES)
        rs->body = NULL;
    counts_request(&h->agent->jobs.counts, route_number(x->asked), x->rq.method, (int)a.status,
                   clock_now() - x->begun);
    if (a.status == 401 && x->rq.route) {
        sources_failed(h->sources, http_source(x->call), clock_now());
        log_refusal(x, "a wrong join code");
    }
    if (x->rq.route && a.status != 401 && x->rq.method != METHOD_GET && x->rq.method != METHOD_HEAD &&
        (x->rq.is_authorised || a.status < 400))
        log_line(LOG_LEVEL_INFO, "agent", x->rq.route->flags & ROUTE_JOB ? x->rq.arg[0] : NULL,
                 "http: %s %s %u", x->request_id, x->call->head->target, a.status);
}

/* Returns whether the source has failed too often to try again now, and then fills the response. */
static bool is_slowed(struct api_call *x)
{
    int wait_s = sources_slowed_s(server_of(x)->sources, http_source(x->call), clock_now());

    if (wait_s == 0)
        return false;
    respond_problem(&x->rs, SLOWED_DOWN, NULL,
                    "too many wrong tokens or codes came from here; try again in %d s", wait_s);
    x->rs.retry_after_s = wait_s;
    return true;
}

/* Returns whether the request is admitted, or fills the response. */
static bool pass_gate(struct api_call *x)
{
    struct api_server *h = server_of(x);
    const struct http_call *c = x->call;
    const char *refusal = NULL;
    const char *certificate = c->tls ? tls_session_client(c->tls, &refusal) : NULL;
    const struct gate_input in = {.head = c->head,
                                  .local_host = c->local_host,
                                  .is_loopback = c->is_loopback,
                                  .has_tls = c->tls != NULL,
                                  .certificate = certificate,
                                  .certificate_refusal = refusal,
                                  .now = clock_wall(),
                                  .disk_free = jobs_disk_free(&h->agent->jobs)};
    struct gate_refusal answer = {0};

    auth_refresh(&h->agent->auth);
    if (c->refusal) {
        x->rq.method = N_METHODS;
        respond_problem(&x->rs, BAD_REQUEST, NULL, HEAD_INVALID, c->refusal);
        return false;
    }
    if (gate_check(&h->rules, &in, &x->rq, &answer) && !((x->rq.route->flags & ROUTE_CODE) && is_slowed(x)))
        return true;
    if (answer.has_wrong_token && !is_slowed(x))
        sources_failed(h->sources, http_source(c), clock_now());
    x->asked = x->rq.route;
    x->rq.route = NULL;
    if (x->rs.status == 0) {
        respond_problem(&x->rs, answer.problem, answer.hint, "%s", answer.detail);
        memcpy(x->rs.allow, answer.allow, sizeof x->rs.allow);
    }
    if (answer.problem == UNAUTHORIZED || answer.problem == FORBIDDEN)
        log_refusal(x, answer.detail);
    return false;
}

/* Allocates the body, or fills the response. */
static void take_body(struct api_call *x, uint64_t bytes)
{
    struct api_server *h = server_of(x);

    if (h->body_bytes + bytes > (x->rq.is_authorised ? BODIES_MAX : UNAUTHENTICATED_BODIES_MAX)) {
        respond_problem(&x->rs, OVERLOADED, NULL,
                        "the agent is receiving too many request bodies; try again");
        return;
    }
    x->body = malloc(bytes + 1);
    if (!x->body) {
        respond_problem(&x->rs, INTERNAL, NULL, "no memory for %llu bytes", (unsigned long long)bytes);
        return;
    }
    x->body_size = bytes;
    h->body_bytes += bytes;
}

/* Called when the head is received, before the body. */
static void begin_request(struct http_call *c)
{
    struct api_call *x = calloc(1, sizeof *x);
    uint64_t body_bytes = c->head->body_bytes;
    uint8_t id[8];
    struct err e;

    c->is_failed = !x;
    if (!x)
        return;
    c->own = x;
    x->call = c;
    memcpy(x->request_id, "r-", 2);
    random_bytes(id, sizeof id);
    hex_encode(x->request_id + 2, id, sizeof id);
    x->begun = clock_now();
    if (!pass_gate(x)) {
        respond(x);
        return;
    }
    x->asked = x->rq.route;
    if (x->rq.is_authorised)
        http_mark_authenticated(c);
    http_admit_body(c);
    if (x->rq.route->flags & ROUTE_UPLOAD) {
        x->rq.route->handler(server_of(x)->agent, &x->rq, &x->rs);
        if (!x->rs.status &&
            blob_begin(&x->upload, &server_of(x)->agent->jobs.blobs, x->rq.arg[0], body_bytes, &e) < 0)
            respond_error(&x->rs, &e);
    } else if (body_bytes > 0) {
        take_body(x, body_bytes);
    }
    if (x->rs.status)
        respond(x);
}

static void receive_body(struct http_call *c, const char *bytes, size_t len)
{
    struct api_call *x = c->own;

    if (x->upload.is_open) {
        blob_add(&x->upload, &server_of(x)->agent->jobs.blobs, bytes, len);
    } else if (x->body && len <= x->body_size - x->rq.body_len) {
        memcpy(x->body + x->rq.body_len, bytes, len);
        x->rq.body_len += len;
    }
}

static void end_upload(struct api_call *x)
{
    struct agent *a = server_of(x)->agent;
    struct err e;

    if (blob_end(&x->upload, &a->jobs.blobs, &e) == 0) {
        blob_trim(&a->jobs.blobs, BLOB_YOUNG_S);
        x->rs.status = 201;
    } else if (e.code == ERR_CONFIG) {
        respond_problem(&x->rs, DIGEST_MISMATCH, NULL, "%s", e.text);
    } else {
        respond_error(&x->rs, &e);
    }
}

/* Answers a request that waits, new or resumed, or suspends it. */
static void wait_or_answer(struct api_call *x)
{
    if (!wait_is_over(x) && !http_is_closing(x->call)) {
        http_park(x->call, x->rs.deadline);
        return;
    }
    x->rs.wait->finish(server_of(x)->agent, &x->rs);
    respond(x);
}

/* Called when the whole request is received. */
static void finish_request(struct api_call *x)
{
    if (x->upload.is_open) {
        end_upload(x);
        return;
    }
    if (x->body)
        x->body[x->rq.body_len] = '\0';
    x->rq.body = x->body;
    x->rq.route->handler(server_of(x)->agent, &x->rq, &x->rs);
}

static void proceed(struct http_call *c)
{
    struct api_call *x = c->own;

    if (!waits(x))
        finish_request(x);
    if (waits(x))
        wait_or_answer(x);
    else
        respond(x);
}

static ssize_t read_events(struct http_call *c, char *buf, size_t size)
{
    struct api_call *x = c->own;

    return stream_read(&x->stream, buf, size);
}

static void end_request(struct http_call *c)
{
    struct api_call *x = c->own;
    struct api_server *h = http_arg(c);

    if (!x)
        return;
    stream_close(&x->stream);
    blob_drop(&x->upload, &h->agent->jobs.blobs);
    response_clear(&x->rs);
    if (x->body)
        explicit_bzero(x->body, x->body_size); /* a start document holds a key */
    free(x->body);
    h->body_bytes -= x->body_size;
    free(x);
}

static void tick(void *arg)
{
    struct api_server *h = arg;

    if (h->n_unlogged > 0)
        log_line(LOG_LEVEL_WARN, "agent", NULL, "http: %u more requests were refused", h->n_unlogged);
    h->n_logged = h->n_unlogged = 0;
}

static void log_warning(const char *text)
{
    log_line(LOG_LEVEL_WARN, "agent", NULL, "%s", text);
}

static const struct http_service api_service = {.begin = begin_request,
                                                .receive = receive_body,
                                                .proceed = proceed,
                                                .is_ready = is_ready,
                                                .read = read_events,
                                                .end = end_request,
                                                .tick = tick};

int api_server_open(struct api_server **out, struct agent *a, int listen_fd, struct err *e)
{
    struct api_server *s = calloc(1, sizeof *s);
    const struct identity *id = &a->auth.identity;
    struct http_options o = {.loop = &a->loop,
                             .allows_plain = a->allows_plain,
                             .max = CONNECTIONS_MAX,
                             .max_unauthenticated = UNAUTHENTICATED_MAX,
                             .max_per_source = UNAUTHENTICATED_PER_SOURCE,
                             .warn = log_warning,
                             .service = &api_service,
                             .arg = s,
                             .n_changes = &a->jobs.n_changes};

    if (s)
        *s = (struct api_server){.agent = a,
                                 .sources = sources_new(),
                                 .rules = {.bound_host = a->host,
                                           .port = a->opt.port,
                                           .allow_hosts = a->opt.allow_hosts,
                                           .token = a->opt.no_token ? NULL : &a->auth.token,
                                           .cluster = a->auth.cluster.path[0] ? &a->auth.cluster : NULL,
                                           .members = &a->auth.members,
                                           .takes_certificates = id->client_ca != NULL}};
    if (!s || !s->sources)
        err_set(e, ERR_NOMEM, "no memory for the server");
    if (!s || !s->sources || tls_keys_new(&s->keys, id->key, id->certificate, id->client_ca, e) < 0) {
        close(listen_fd);
        api_server_close(s);
        return e->code;
    }
    o.keys = s->keys;
    if (http_server_open(&s->http, &o, listen_fd, e) < 0) {
        api_server_close(s);
        return e->code;
    }
    *out = s;
    return 0;
}

void api_server_close(struct api_server *s)
{
    if (!s)
        return;
    if (s->http)
        http_server_close(s->http);
    tls_keys_free(s->keys);
    sources_free(s->sources);
    free(s);
}
