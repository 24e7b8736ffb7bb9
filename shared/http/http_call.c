/* The life of a request: the callbacks of libmicrohttpd, in the order in which it calls them, and its
 * response. */
#include <math.h>
#include <microhttpd.h>
#include <stdlib.h>

#include "shared/base/clock.h"
#include "shared/http/http_server_private.h"

enum {
    POOL_BYTES = 64 << 10, /* per connection. Uploads arrive in chunks of it: 16 KiB halve their speed, 128
                            * KiB add 15 %, and all of it is cleared after each request */
    BLOCK_BYTES = 16 << 10
};

/* libmicrohttpd 0.9.72 declares these as size_t. */
enum {
    READ_ENDED = (ssize_t)MHD_CONTENT_READER_END_OF_STREAM,
    READ_FAILED = (ssize_t)MHD_CONTENT_READER_END_WITH_ERROR
};

static const struct http_service *service_of(const struct http_call *c)
{
    return c->server->options.service;
}

void http_call_gone(struct http_call *c)
{
    c->is_gone = true;
    c->server->look = true;
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
        http_call_gone(c);
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

bool http_calls_resume(struct http_server *h)
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

/* The library's first callback for a request, of which it has what head_write wrote. */
static void *on_target(void *arg, const char *target, struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection,
                                                                   MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    struct http_server *h = arg;
    struct http_call *c = calloc(1, sizeof *c);

    (void)target;
    if (!c || !info || !info->socket_context) {
        free(c);
        return NULL;
    }
    c->server = h;
    c->connection = connection;
    c->conn = info->socket_context;
    c->conn->call = c;
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

/* The library's end of a client's socket pair is taken, or closed. */
static void on_connection(void *arg, struct MHD_Connection *c, void **slot,
                          enum MHD_ConnectionNotificationCode what)
{
    struct http_server *h = arg;

    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        *slot = conn_started(h, MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd);
    } else if (*slot) {
        conn_library_closed(*slot);
        *slot = NULL;
    }
}

static void on_ready(void *arg, uint32_t events)
{
    (void)arg;
    (void)events; /* http_server_turn follows each turn of the loop */
}

int http_library_open(struct http_server *h, struct err *e)
{
    const union MHD_DaemonInfo *info;

    h->daemon = MHD_start_daemon(
        MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL, on_request, h,
        MHD_OPTION_CONNECTION_LIMIT, h->conns.max + 1, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)POOL_BYTES,
        MHD_OPTION_URI_LOG_CALLBACK, on_target, h, MHD_OPTION_NOTIFY_COMPLETED, on_completed, h,
        MHD_OPTION_NOTIFY_CONNECTION, on_connection, h, MHD_OPTION_END);
    if (!h->daemon)
        return err_set(e, ERR_IO, "the HTTP server cannot start");
    info = MHD_get_daemon_info(h->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    h->watch = (struct watch){.fd = info->epoll_fd, .ready = on_ready, .arg = h};
    if (loop_watch(h->loop, &h->watch, EPOLLIN, e) == 0)
        return 0;
    MHD_stop_daemon(h->daemon);
    return e->code;
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

static struct MHD_Response *body_of(struct http_call *c, const struct http_answer *a)
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

bool http_respond(struct http_call *c, const struct http_answer *a)
{
    struct MHD_Response *r = body_of(c, a);

    c->is_answered = true;
    c->is_failed = !r;
    if (!r)
        return false;
    /* The reader's inactivity is timed instead where a stream is sent. */
    c->conn->deadline = a->kind == HTTP_STREAM ? HUGE_VAL : conn_deadline(a->kind == HTTP_FILE ? a->len : 0);
    for (size_t i = 0; i < a->n_headers; i++)
        if (a->headers[i].value &&
            MHD_add_response_header(r, a->headers[i].name, a->headers[i].value) != MHD_YES)
            c->is_failed = true;
    if (c->conn->request->head.wants_close)
        MHD_add_response_header(r, "Connection", "close");
    if (!c->is_failed)
        c->is_failed = MHD_queue_response(c->connection, a->status, r) != MHD_YES;
    MHD_destroy_response(r);
    return true;
}
