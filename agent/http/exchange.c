#include "agent/http/server.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "agent/log.h"
#include "shared/clock.h"

enum { MAX_HEADERS = 64 };

static void on_peer_closed(void *arg, uint32_t events)
{
    struct exchange *x = arg;

    (void)events;
    x->is_gone = true;
    x->server->look = true;
    loop_unwatch(&x->server->agent->loop, &x->watch);
}

void exchange_park(struct exchange *x)
{
    struct http_server *h = x->server;
    struct err e;

    x->next = h->parked;
    if (x->next)
        x->next->prev = x;
    x->prev = NULL;
    h->parked = x;
    x->is_parked = true;
    h->suspended = true;
    x->watch = (struct watch){.fd = x->conn->fd, .ready = on_peer_closed, .arg = x};
    if (loop_watch(&h->agent->loop, &x->watch, EPOLLRDHUP, &e) < 0)
        log_line(LOG_LEVEL_WARN, "agent", NULL, "http: %s", e.text);
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
    loop_unwatch(&x->server->agent->loop, &x->watch);
}

static bool wait_is_over(const struct exchange *x)
{
    const struct task *t = task_find(x->server->agent, x->rs.id);

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

void exchange_log_refusal(struct http_server *h, const struct exchange *x, const char *why)
{
    if (h->n_refused++ == 0)
        log_line(LOG_LEVEL_WARN, "agent", NULL, "http: %s %.100s refused: %s", x->request_id,
                 x->target ? x->target : "", why);
}

struct header_list {
    struct header headers[MAX_HEADERS];
    size_t n;
    bool too_many;
};

static enum MHD_Result add_header(void *arg, enum MHD_ValueKind kind, const char *name, const char *value)
{
    struct header_list *list = arg;

    (void)kind;
    if (list->n < MAX_HEADERS)
        list->headers[list->n++] = (struct header){name, value};
    else
        list->too_many = true;
    return MHD_YES;
}

static bool pass_gate(struct exchange *x, const char *method, uint64_t *body_bytes)
{
    struct http_server *h = x->server;
    struct header_list list = {.n = 0};
    struct verdict v = {0};
    struct gate_input in;
    bool ok;

    MHD_get_connection_values(x->connection, MHD_HEADER_KIND, add_header, &list);
    in = (struct gate_input){.method = method,
                             .target = x->target,
                             .headers = list.headers,
                             .n_headers = list.n,
                             .local_host = x->conn->local_host,
                             .is_loopback = x->conn->is_loopback,
                             .disk_free = agent_disk_free(h->agent)};
    ok = gate_check(&h->rules, &in, &x->rq, &v);
    if (list.too_many) {
        x->rq.route = NULL;
        respond_problem(&x->rs, BAD_REQUEST, NULL, "more than %d headers", MAX_HEADERS);
        return false;
    }
    if (!ok) {
        x->rq.route = NULL;
        respond_problem(&x->rs, v.problem, v.hint, "%s", v.detail);
        memcpy(x->rs.allow, v.allow, sizeof x->rs.allow);
        if (v.problem == UNAUTHORIZED || v.problem == FORBIDDEN)
            exchange_log_refusal(h, x, v.detail);
    }
    *body_bytes = v.body_bytes;
    return ok;
}

/* Called when the head is received, before the body. */
static enum MHD_Result begin(struct exchange *x, const char *method)
{
    uint64_t body_bytes;
    struct err e;

    if (!pass_gate(x, method, &body_bytes))
        return respond(x);
    x->conn->deadline = conn_deadline(body_bytes);
    if (x->rq.route->flags & ROUTE_UPLOAD) {
        x->rq.route->handler(x->server->agent, &x->rq, &x->rs);
        if (x->rs.status)
            return respond(x);
        if (blob_begin(&x->upload, &x->server->agent->blobs, x->rq.arg[0], &e) < 0) {
            respond_error(&x->rs, &e);
            return respond(x);
        }
    } else if (body_bytes > 0) {
        x->body = malloc(body_bytes + 1);
        if (!x->body) {
            respond_problem(&x->rs, INTERNAL, NULL, "no memory for %llu bytes",
                            (unsigned long long)body_bytes);
            return respond(x);
        }
        x->body_size = body_bytes;
    }
    return MHD_YES;
}

static void receive(struct exchange *x, const char *bytes, size_t len)
{
    if (x->upload.is_open) {
        blob_add(&x->upload, bytes, len);
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
        blob_trim(&a->blobs, LEASE_S);
        x->rs.status = 201;
    } else if (e.code == ERR_CONFIG) {
        respond_problem(&x->rs, DIGEST_MISMATCH, NULL, "%s", e.text);
    } else {
        respond_error(&x->rs, &e);
    }
}

/* Answers a /wait request, new or resumed, or suspends it. */
static enum MHD_Result wait_or_answer(struct exchange *x)
{
    struct http_server *h = x->server;
    const struct task *t = task_find(h->agent, x->rs.id);

    if (x->is_gone)
        return MHD_NO;
    if (!wait_is_over(x) && !h->is_closing) {
        x->conn->deadline = HUGE_VAL;
        if (x->rs.deadline < h->tick.at)
            timer_set(&h->agent->loop, &h->tick, x->rs.deadline);
        exchange_park(x);
        return MHD_YES;
    }
    if (t)
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
    return x->rs.kind == RESPONSE_WAIT ? wait_or_answer(x) : respond(x);
}

enum MHD_Result exchange_request(void *arg, struct MHD_Connection *c, const char *url, const char *method,
                                 const char *version, const char *bytes, size_t *len, void **slot)
{
    struct exchange *x = *slot;

    (void)arg;
    (void)c;
    (void)url;
    (void)version;
    if (!x)
        return MHD_NO; /* no memory for it */
    if (!x->is_gated) {
        x->is_gated = true;
        return begin(x, method);
    }
    if (*len > 0) {
        receive(x, bytes, *len);
        *len = 0;
        return MHD_YES;
    }
    return x->rs.kind == RESPONSE_WAIT ? wait_or_answer(x) : finish(x);
}

/* The library's first callback for a request; the target as received, undecoded, or NULL. */
void *exchange_target(void *arg, const char *target, struct MHD_Connection *c)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    struct exchange *x = calloc(1, sizeof *x);
    uint8_t id[8];

    if (!x || !info || !info->socket_context) {
        free(x);
        return NULL;
    }
    x->server = arg;
    x->connection = c;
    x->conn = info->socket_context;
    x->target = target ? strndup(target, TARGET_MAX + 1) : NULL;
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
    x->conn->deadline = conn_deadline(0);
    stream_close(&x->stream);
    blob_drop(&x->upload, &x->server->agent->blobs);
    response_clear(&x->rs);
    if (x->body)
        explicit_bzero(x->body, x->body_size); /* a start document holds a key */
    free(x->body);
    free(x->target);
    x->server->n_exchanges--;
    free(x);
}
