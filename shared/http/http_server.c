#include "shared/http/http_server.h"

#include <math.h>
#include <microhttpd.h>
#include <stdlib.h>
#include <unistd.h>

#include "shared/base/clock.h"
#include "shared/http/http_server_private.h"

enum {
    POOL_BYTES = 64 << 10, /* per connection. Uploads arrive in chunks of this size: 16 KiB halve their speed,
                            * 128 KiB add 15 %. The library clears all of it after each request */
    BLOCK_BYTES = 16 << 10
};

/* As ssize_t: libmicrohttpd 0.9.72 declares these as size_t. */
enum {
    READ_ENDED = (ssize_t)MHD_CONTENT_READER_END_OF_STREAM,
    READ_FAILED = (ssize_t)MHD_CONTENT_READER_END_WITH_ERROR
};

void *http_arg(const struct http_call *c)
{
    return c->server->options.arg;
}

void http_mark_authenticated(struct http_call *c)
{
    conn_mark_authenticated(c->conn);
}

const struct source *http_source(const struct http_call *c)
{
    return conn_source(c->conn);
}

void http_admit_body(struct http_call *c)
{
    c->conn->deadline = conn_deadline(c->head->body_bytes);
}

bool http_is_closing(const struct http_call *c)
{
    return c->server->is_closing;
}

static const struct http_service *service_of(const struct http_call *c)
{
    return c->server->options.service;
}

static void suspend(struct http_call *c)
{
    struct http_server *h = c->server;

    c->next = h->parked;
    if (c->next)
        c->next->prev = c;
    c->prev = NULL;
    h->parked = c;
    c->is_parked = true;
    h->suspended = true;
    if (c->conn->peer_ended && !c->is_brief)
        conn_lose_client(c->conn);
    MHD_suspend_connection(c->connection);
}

void http_park(struct http_call *c, double look_at)
{
    struct http_server *h = c->server;

    c->conn->deadline = HUGE_VAL;
    if (look_at < h->tick.at)
        timer_set(h->loop, &h->tick, look_at);
    suspend(c);
}

static void unpark(struct http_call *c)
{
    if (!c->is_parked)
        return;
    *(c->prev ? &c->prev->next : &c->server->parked) = c->next;
    if (c->next)
        c->next->prev = c->prev;
    c->is_parked = false;
}

/* Returns whether any suspended request goes on. */
static bool resume_calls(struct http_server *h)
{
    bool any = false;

    for (struct http_call *c = h->parked, *next; c; c = next) {
        next = c->next;
        if (!c->is_gone && !h->is_closing && !service_of(c)->is_ready(c))
            continue;
        unpark(c);
        MHD_resume_connection(c->connection);
        any = true;
    }
    return any;
}

/* The library's first callback for a request: it has read the target that head_write wrote. */
static void *on_target(void *arg, const char *target, struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection,
                                                                   MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    struct http_server *h = arg;
    struct conn *k = info ? info->socket_context : NULL;
    struct http_call *c = k ? calloc(1, sizeof *c) : NULL;

    (void)target;
    if (!c)
        return NULL;
    *c = (struct http_call){.head = &k->request->head,
                            .refusal = k->refusal,
                            .local_host = k->local_host,
                            .peer_host = k->peer_host,
                            .is_loopback = k->is_loopback,
                            .tls = k->tls,
                            .server = h,
                            .conn = k,
                            .connection = connection};
    k->call = c;
    h->n_calls++;
    return c;
}

static enum MHD_Result on_request(void *arg, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *bytes, size_t *len,
                                  void **slot)
{
    struct http_call *c = *slot;

    (void)arg;
    (void)connection;
    (void)url;
    (void)method;
    (void)version;
    if (!c || c->conn->is_ended)
        return MHD_NO;
    if (!c->is_begun) {
        c->is_begun = true;
        service_of(c)->begin(c);
    } else if (*len > 0) {
        if (!c->is_answered && service_of(c)->receive)
            service_of(c)->receive(c, bytes, *len);
        *len = 0;
    } else {
        if (c->is_gone)
            return MHD_NO;
        service_of(c)->proceed(c);
        c->is_failed |= !c->is_answered && !c->is_parked;
    }
    return c->is_failed ? MHD_NO : MHD_YES;
}

static void on_completed(void *arg, struct MHD_Connection *connection, void **slot,
                         enum MHD_RequestTerminationCode why)
{
    struct http_call *c = *slot;

    (void)arg;
    (void)connection;
    (void)why;
    if (!c)
        return;
    *slot = NULL;
    unpark(c);
    conn_answered(c->conn);
    service_of(c)->end(c);
    c->server->n_calls--;
    free(c);
}

/* The library has taken its end of a client's socket pair, or has closed it. */
static void on_connection(void *arg, struct MHD_Connection *c, void **slot,
                          enum MHD_ConnectionNotificationCode what)
{
    struct http_server *h = arg;

    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        *slot = conn_started(&h->conns,
                             MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd);
    } else if (*slot) {
        conn_library_closed(*slot);
        *slot = NULL;
    }
}

static ssize_t read_stream(void *arg, uint64_t at, char *buf, size_t size)
{
    struct http_call *c = arg;
    ssize_t n;

    (void)at;
    if (c->is_gone || c->server->is_closing)
        return READ_FAILED;
    n = service_of(c)->read(c, buf, size);
    if (n < 0)
        return READ_ENDED;
    if (n == 0)
        suspend(c);
    return n;
}

static ssize_t read_nothing(void *arg, uint64_t at, char *buf, size_t size)
{
    (void)arg;
    (void)at;
    (void)buf;
    (void)size;
    return READ_FAILED;
}

static struct MHD_Response *body_of(struct http_call *c, const struct http_response *a)
{
    switch (a->kind) {
    case HTTP_STREAM:
        return MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK_BYTES, read_stream, c, NULL);
    case HTTP_LENGTH:
        return MHD_create_response_from_callback(a->len, BLOCK_BYTES, read_nothing, NULL, NULL);
    case HTTP_FILE:
        return MHD_create_response_from_fd_at_offset64(a->len, a->fd, a->at);
    case HTTP_STATIC:
        return MHD_create_response_from_buffer(a->len, (void *)(uintptr_t)a->static_bytes,
                                               MHD_RESPMEM_PERSISTENT);
    case HTTP_BYTES:
        break;
    }
    return MHD_create_response_from_buffer(a->len, a->bytes, MHD_RESPMEM_MUST_FREE);
}

bool http_respond(struct http_call *c, const struct http_response *a)
{
    struct MHD_Response *r = body_of(c, a);

    c->is_answered = true;
    c->is_failed = !r;
    if (!r)
        return false;
    /* A stream has no deadline: relay.c times how long its reader takes no bytes. */
    c->conn->deadline = a->kind == HTTP_STREAM ? HUGE_VAL : conn_deadline(a->kind == HTTP_FILE ? a->len : 0);
    for (size_t i = 0; i < a->n_headers; i++)
        if (a->headers[i].value &&
            MHD_add_response_header(r, a->headers[i].name, a->headers[i].value) != MHD_YES)
            c->is_failed = true;
    if (c->head->wants_close)
        MHD_add_response_header(r, "Connection", "close");
    if (!c->is_failed)
        c->is_failed = MHD_queue_response(c->connection, a->status, r) != MHD_YES;
    MHD_destroy_response(r);
    return true;
}

static void on_ready(void *arg, uint32_t events)
{
    (void)arg;
    (void)events; /* http_server_turn follows each turn of the loop */
}

static int open_library(struct http_server *h, struct err *e)
{
    const union MHD_DaemonInfo *info;

    h->conns.library = MHD_start_daemon(
        MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL, on_request, h,
        MHD_OPTION_CONNECTION_LIMIT, h->conns.max + 1, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)POOL_BYTES,
        MHD_OPTION_URI_LOG_CALLBACK, on_target, h, MHD_OPTION_NOTIFY_COMPLETED, on_completed, h,
        MHD_OPTION_NOTIFY_CONNECTION, on_connection, h, MHD_OPTION_END);
    if (!h->conns.library)
        return err_set(e, ERR_IO, "the HTTP server cannot start");
    info = MHD_get_daemon_info(h->conns.library, MHD_DAEMON_INFO_EPOLL_FD);
    h->watch = (struct watch){.fd = info->epoll_fd, .ready = on_ready, .arg = h};
    if (loop_watch(h->loop, &h->watch, EPOLLIN, e) == 0)
        return 0;
    MHD_stop_daemon(h->conns.library);
    return e->code;
}

static void on_tick(void *arg)
{
    struct http_server *h = arg;
    double now = clock_now();

    conns_tick(&h->conns, now);
    if (h->options.service->tick)
        h->options.service->tick(h->options.arg);
    h->look = true;
    timer_set(h->loop, &h->tick, now + 1);
}

int http_server_open(struct http_server **out, const struct http_options *o, int listen_fd, struct err *e)
{
    struct http_server *h = calloc(1, sizeof *h);

    if (!h) {
        close(listen_fd);
        return err_set(e, ERR_NOMEM, "no memory for the server");
    }
    h->options = *o;
    h->loop = o->loop;
    h->tick = (struct timer){.due = on_tick, .arg = h};
    if (conns_open(&h->conns, o, listen_fd, e) < 0) {
        free(h);
        return e->code;
    }
    if (open_library(h, e) < 0) {
        conns_close(&h->conns);
        free(h);
        return e->code;
    }
    timer_set(h->loop, &h->tick, clock_now() + 1);
    *out = h;
    return 0;
}

void http_server_turn(struct http_server *h)
{
    const uint64_t *n_changes = h->options.n_changes;
    bool resumed;

    /* Repeats while requests were suspended or resumed: the library is known to skip the neighbor of a
     * connection that is suspended within its callback. */
    do {
        h->suspended = resumed = false;
        if (h->look || h->conns.has_lost || h->n_seen != *n_changes) {
            h->look = h->conns.has_lost = false;
            h->n_seen = *n_changes;
            resumed = resume_calls(h);
        }
        MHD_run(h->conns.library);
    } while (h->suspended || resumed || h->n_seen != *n_changes);
    conns_relay_ready(&h->conns);
}

double http_server_max_wait(const struct http_server *h)
{
    MHD_UNSIGNED_LONG_LONG ms;

    if (h->conns.ready)
        return 0;
    return MHD_get_timeout(h->conns.library, &ms) == MHD_YES ? 1e-3 * (double)ms : 3600;
}

bool http_server_is_busy(const struct http_server *h)
{
    return h->n_calls > 0 || h->conns.n_awaited > 0;
}

void http_server_quiesce(struct http_server *h)
{
    conns_quiesce(&h->conns);
}

void http_server_close(struct http_server *h)
{
    h->is_closing = h->look = true;
    /* The library aborts when it is stopped with a suspended connection. */
    http_server_turn(h);
    timer_cancel(h->loop, &h->tick);
    loop_unwatch(h->loop, &h->watch);
    MHD_stop_daemon(h->conns.library);
    conns_close(&h->conns);
    free(h);
}
