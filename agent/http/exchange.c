#include "agent/http/server.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "agent/curve.h"
#include "agent/log.h"
#include "agent/model_now.h"
#include "shared/clock.h"

enum { LINES_PER_S = 16 };
/* Of the bodies that are in memory, in all: of clients with a token, and of those without. */
static const size_t BODIES_MAX = 64 << 20, STRANGE_BODIES_MAX = 4 << 20;

void exchange_gone(struct exchange *x)
{
    x->is_gone = true;
    x->server->look = true;
}

void exchange_park(struct exchange *x)
{
    struct http_server *h = x->server;

    x->next = h->parked;
    if (x->next)
        x->next->prev = x;
    x->prev = NULL;
    h->parked = x;
    x->is_parked = true;
    h->suspended = true;
    if (x->conn->peer_ended)
        exchange_gone(x);
    MHD_suspend_connection(x->connection);
}

static void unpark(struct exchange *x)
{
    if (!x->is_parked)
        return;
    *(x->prev ? &x->prev->next : &x->server->parked) = x->next;
    if (x->next)
        x->next->prev = x->prev;
    x->is_parked = false;
}

static bool wait_is_over(const struct exchange *x)
{
    const struct task *t = task_attempt(x->server->agent, x->rs.id, x->rs.attempt);

    if (x->rs.kind == RESPONSE_CURVE)
        return curve_is_ready(x->rs.curve);
    if (x->rs.kind == RESPONSE_MODEL)
        return model_now_is_over(t, &x->rs);
    return !t || job_state_is_terminal(t->job.state) || clock_now() >= x->rs.deadline;
}

static bool is_ready(const struct exchange *x)
{
    return x->is_gone || x->server->is_closing ||
           (x->stream.is_open ? stream_is_ready(&x->stream) : wait_is_over(x));
}

bool exchange_resume_ready(struct http_server *h)
{
    bool any = false;

    for (struct exchange *x = h->parked, *next; x; x = next) {
        next = x->next;
        if (!is_ready(x))
            continue;
        unpark(x);
        MHD_resume_connection(x->connection);
        any = true;
    }
    return any;
}

void exchange_log_refusal(struct exchange *x, const char *why)
{
    struct http_server *h = x->server;

    if (!sources_may_log(h->conns.sources, conn_source(x->conn), clock_now()) || h->n_logged == LINES_PER_S) {
        h->n_unlogged++;
        return;
    }
    h->n_logged++;
    log_line(LOG_LEVEL_WARN, "agent", NULL, "http: %s %.100s from %s refused: %s", x->request_id,
             x->conn->inbox->head.target, x->conn->peer_host, why);
}

/* Returns whether the source has failed too often to try again now, and then fills the response. */
static bool is_slowed(struct exchange *x)
{
    int wait_s = sources_slowed_s(x->server->conns.sources, conn_source(x->conn), clock_now());

    if (wait_s == 0)
        return false;
    respond_problem(&x->rs, SLOWED_DOWN, NULL,
                    "too many wrong tokens or codes came from here; try again in %d s", wait_s);
    x->rs.retry_after_s = wait_s;
    return true;
}

static bool pass_gate(struct exchange *x, uint64_t *body_bytes)
{
    struct http_server *h = x->server;
    const struct head *head = &x->conn->inbox->head;
    const char *refusal = NULL;
    const char *certificate = x->conn->tls ? tls_session_client(x->conn->tls, &refusal) : NULL;
    const struct gate_input in = {.method = head->method,
                                  .target = head->target,
                                  .headers = head->headers,
                                  .n_headers = head->n_headers,
                                  .local_host = x->conn->local_host,
                                  .is_loopback = x->conn->is_loopback,
                                  .has_tls = x->conn->tls != NULL,
                                  .certificate = certificate,
                                  .certificate_refusal = refusal,
                                  .now = clock_wall(),
                                  .disk_free = agent_disk_free(h->agent)};
    struct verdict v = {0};

    agent_refresh_tokens(h->agent);
    if (x->conn->refusal) {
        x->rq.method = N_METHODS;
        respond_problem(&x->rs, BAD_REQUEST, NULL, "the head of the request is not valid: %s",
                        x->conn->refusal);
        return false;
    }
    if (gate_check(&h->rules, &in, &x->rq, &v) && !((x->rq.route->flags & ROUTE_CODE) && is_slowed(x))) {
        *body_bytes = v.body_bytes;
        return true;
    }
    if (v.has_wrong_token && !is_slowed(x))
        sources_failed(h->conns.sources, conn_source(x->conn), clock_now());
    x->asked = x->rq.route;
    x->rq.route = NULL;
    if (x->rs.status == 0) {
        respond_problem(&x->rs, v.problem, v.hint, "%s", v.detail);
        memcpy(x->rs.allow, v.allow, sizeof x->rs.allow);
    }
    if (v.problem == UNAUTHORIZED || v.problem == FORBIDDEN)
        exchange_log_refusal(x, v.detail);
    return false;
}

static bool take_body(struct exchange *x, uint64_t bytes)
{
    struct http_server *h = x->server;

    if (h->body_bytes + bytes > (x->rq.is_authorised ? BODIES_MAX : STRANGE_BODIES_MAX)) {
        respond_problem(&x->rs, OVERLOADED, NULL, "the requests that are being received fill their memory");
        return false;
    }
    x->body = malloc(bytes + 1);
    if (!x->body) {
        respond_problem(&x->rs, INTERNAL, NULL, "no memory for %llu bytes", (unsigned long long)bytes);
        return false;
    }
    x->body_size = bytes;
    h->body_bytes += bytes;
    return true;
}

/* Called when the head is received, before the body. */
static enum MHD_Result begin(struct exchange *x)
{
    uint64_t body_bytes;
    struct err e;

    x->begun = clock_now();
    if (!pass_gate(x, &body_bytes))
        return respond(x);
    x->asked = x->rq.route;
    if (x->rq.is_authorised)
        conn_is_known(x->conn);
    x->conn->deadline = conn_deadline(body_bytes);
    if (x->rq.route->flags & ROUTE_UPLOAD) {
        x->rq.route->handler(x->server->agent, &x->rq, &x->rs);
        if (x->rs.status)
            return respond(x);
        if (blob_begin(&x->upload, &x->server->agent->blobs, x->rq.arg[0], body_bytes, &e) < 0) {
            respond_error(&x->rs, &e);
            return respond(x);
        }
    } else if (body_bytes > 0 && !take_body(x, body_bytes)) {
        return respond(x);
    }
    return MHD_YES;
}

static void receive(struct exchange *x, const char *bytes, size_t len)
{
    if (x->upload.is_open) {
        blob_add(&x->upload, &x->server->agent->blobs, bytes, len);
    } else if (x->body && len <= x->body_size - x->rq.body_len) {
        memcpy(x->body + x->rq.body_len, bytes, len);
        x->rq.body_len += len;
    }
}

static void end_upload(struct exchange *x)
{
    struct agent *a = x->server->agent;
    struct err e;

    if (blob_end(&x->upload, &a->blobs, &e) == 0) {
        blob_trim(&a->blobs, BLOB_YOUNG_S);
        x->rs.status = 201;
    } else if (e.code == ERR_CONFIG) {
        respond_problem(&x->rs, DIGEST_MISMATCH, NULL, "%s", e.text);
    } else {
        respond_error(&x->rs, &e);
    }
}

static bool waits(const struct exchange *x)
{
    return x->rs.kind == RESPONSE_WAIT || x->rs.kind == RESPONSE_CURVE || x->rs.kind == RESPONSE_MODEL;
}

/* Answers a request that waits, new or resumed, or suspends it. */
static enum MHD_Result wait_or_answer(struct exchange *x)
{
    struct http_server *h = x->server;
    struct task *t = task_attempt(h->agent, x->rs.id, x->rs.attempt);

    if (x->is_gone)
        return MHD_NO;
    if (!wait_is_over(x) && !h->is_closing) {
        x->conn->deadline = HUGE_VAL;
        if (x->rs.deadline < h->tick.at)
            timer_set(&h->agent->loop, &h->tick, x->rs.deadline);
        exchange_park(x);
        return MHD_YES;
    }
    if (x->rs.kind == RESPONSE_CURVE)
        curve_respond(&x->rs);
    else if (x->rs.kind == RESPONSE_MODEL)
        model_now_respond(t, &x->rs);
    else if (t)
        respond_json(&x->rs, 200, task_json(t));
    else
        respond_problem(&x->rs, GONE, NULL, "the job was removed meanwhile");
    return respond(x);
}

/* Called when the whole request is received. */
static enum MHD_Result finish(struct exchange *x)
{
    if (x->upload.is_open) {
        end_upload(x);
    } else {
        if (x->body)
            x->body[x->rq.body_len] = '\0';
        x->rq.body = x->body;
        x->rq.route->handler(x->server->agent, &x->rq, &x->rs);
    }
    return waits(x) ? wait_or_answer(x) : respond(x);
}

enum MHD_Result exchange_request(void *arg, struct MHD_Connection *c, const char *url, const char *method,
                                 const char *version, const char *bytes, size_t *len, void **slot)
{
    struct exchange *x = *slot;

    (void)arg;
    (void)c;
    (void)url;
    (void)method;
    (void)version;
    if (!x || x->conn->is_ended)
        return MHD_NO;
    if (!x->is_gated) {
        x->is_gated = true;
        return begin(x);
    }
    if (*len > 0) {
        receive(x, bytes, *len);
        *len = 0;
        return MHD_YES;
    }
    return waits(x) ? wait_or_answer(x) : finish(x);
}

/* The library's first callback for a request, of which it has what head_write wrote. */
void *exchange_target(void *arg, const char *target, struct MHD_Connection *c)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    struct exchange *x = calloc(1, sizeof *x);
    uint8_t id[8];

    (void)target;
    if (!x || !info || !info->socket_context) {
        free(x);
        return NULL;
    }
    x->server = arg;
    x->connection = c;
    x->conn = info->socket_context;
    x->conn->exchange = x;
    memcpy(x->request_id, "r-", 2);
    random_bytes(id, sizeof id);
    hex_encode(x->request_id + 2, id, sizeof id);
    x->server->n_exchanges++;
    return x;
}

void exchange_completed(void *arg, struct MHD_Connection *c, void **slot, enum MHD_RequestTerminationCode why)
{
    struct exchange *x = *slot;

    (void)arg;
    (void)c;
    (void)why;
    if (!x)
        return;
    *slot = NULL;
    unpark(x);
    conn_answered(x->conn);
    stream_close(&x->stream);
    blob_drop(&x->upload, &x->server->agent->blobs);
    response_clear(&x->rs);
    if (x->body)
        explicit_bzero(x->body, x->body_size); /* a start document holds a key */
    free(x->body);
    x->server->body_bytes -= x->body_size;
    x->server->n_exchanges--;
    free(x);
}
