#include "agent/http.h"

#include <errno.h>
#include <math.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "agent/api.h"
#include "agent/job_action.h"
#include "agent/listen.h"
#include "agent/log.h"
#include "agent/stream.h"
#include "shared/address.h"
#include "shared/clock.h"

enum {
    MAX_CONNECTIONS = 4096,
    MAX_PER_ADDRESS = 64,
    MAX_HEADERS = 64,
    POOL_BYTES = 64 << 10, /* per connection. Uploads arrive in chunks of it: 16 KiB halve their speed, 128
                            * KiB add 15 %, and all of it is cleared after each request */
    IDLE_S = 30,           /* idle timeout between requests and within one */
    SPARE_FILES = 256,     /* descriptors beyond the connections': journals, runners, uploads */
    BLOCK_BYTES = 16 << 10
};

static const double HEAD_S = 10; /* from the connection to the complete head of its first request */
/* Time for a request with its response; a second more for each SLOWEST_BPS bytes. */
static const double REQUEST_S = 30, SLOWEST_BPS = 32 << 10;

/* One TCP connection. */
struct conn {
    struct conn *next, *prev;
    int fd;
    double deadline;
    bool is_loopback;
    char local_host[64], peer_host[64];
};

/* One request with its response. */
struct exchange {
    struct http_server *server;
    struct MHD_Connection *connection;
    struct conn *conn;
    char *target;
    char request_id[20];
    bool is_gated, is_gone;
    struct request rq;
    struct response rs;
    char *body;
    size_t body_size;
    struct blob_upload upload;
    struct stream stream;

    struct exchange *next, *prev; /* in the list of suspended requests */
    struct watch watch;
    bool is_parked;
};

struct http_server {
    struct agent *agent;
    struct MHD_Daemon *daemon;
    struct gate_rules rules;
    struct watch watch;
    struct timer tick;
    struct conn *conns;
    struct exchange *parked;
    unsigned n_exchanges;
    unsigned n_refused, n_dropped; /* unauthorized requests, and connections beyond the limit, in the
                                    * present second */
    uint64_t n_seen;               /* agent->n_changes when suspended requests were last checked */
    bool look, suspended;          /* suspended requests must be checked; one was suspended in this turn */
    bool is_closing;
};

static double deadline_for(uint64_t bytes)
{
    return clock_now() + REQUEST_S + (double)bytes / SLOWEST_BPS;
}

static void on_peer_closed(void *arg, uint32_t events)
{
    struct exchange *x = arg;

    (void)events;
    x->is_gone = true;
    x->server->look = true;
    loop_unwatch(&x->server->agent->loop, &x->watch);
}

static void park(struct exchange *x)
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

static bool resume_ready(struct http_server *h)
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

/* libmicrohttpd 0.9.72 declares these as size_t. */
enum {
    READ_ENDED = (ssize_t)MHD_CONTENT_READER_END_OF_STREAM,
    READ_FAILED = (ssize_t)MHD_CONTENT_READER_END_WITH_ERROR
};

static ssize_t read_stream(void *arg, uint64_t at, char *buf, size_t size)
{
    struct exchange *x = arg;
    ssize_t n;

    (void)at;
    if (x->is_gone || x->server->is_closing)
        return READ_FAILED;
    n = stream_read(&x->stream, buf, size);
    if (n < 0)
        return READ_ENDED;
    if (n == 0)
        park(x);
    return n;
}

/* For HEAD responses, of which only the length is sent. */
static ssize_t read_nothing(void *arg, uint64_t at, char *buf, size_t size)
{
    (void)arg;
    (void)at;
    (void)buf;
    (void)size;
    return READ_FAILED;
}

/* Takes over what the response owns. */
static struct MHD_Response *body_of(struct exchange *x)
{
    struct response *rs = &x->rs;
    struct MHD_Response *r;

    if (rs->kind == RESPONSE_STREAM) {
        stream_open(&x->stream, x->server->agent, rs->id, rs->after, rs->is_ndjson);
        x->conn->deadline = HUGE_VAL; /* no deadline: the reader's inactivity is timed instead */
        return MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK_BYTES, read_stream, x, NULL);
    }
    if (rs->kind == RESPONSE_FILE && rs->fd < 0)
        return MHD_create_response_from_callback(rs->bytes, BLOCK_BYTES, read_nothing, NULL, NULL);
    if (rs->kind == RESPONSE_FILE && rs->bytes > 0) {
        r = MHD_create_response_from_fd_at_offset64(rs->bytes, rs->fd, rs->after);
        if (r) {
            x->conn->deadline = deadline_for(rs->bytes);
            rs->fd = -1;
        }
        return r;
    }
    r = MHD_create_response_from_buffer(rs->len, rs->body ? rs->body : (void *)(uintptr_t) "",
                                        rs->body ? MHD_RESPMEM_MUST_FREE : MHD_RESPMEM_PERSISTENT);
    if (r)
        rs->body = NULL;
    return r;
}

/* Unauthorized requests are logged once a second, so that they cannot fill the disk. A merely malformed
 * request is answered, not logged. */
static void log_refusal(struct http_server *h, const struct exchange *x, const char *why)
{
    if (h->n_refused++ == 0)
        log_line(LOG_LEVEL_WARN, "agent", NULL, "http: %s %.100s refused: %s", x->request_id,
                 x->target ? x->target : "", why);
}

static enum MHD_Result send_response(struct exchange *x)
{
    struct response *rs = &x->rs;
    unsigned status = rs->status ? (unsigned)rs->status : 200;
    struct MHD_Response *r;
    enum MHD_Result rc;
    char number[16];

    x->conn->deadline = deadline_for(0);
    r = body_of(x);
    if (!r)
        return MHD_NO;
    snprintf(number, sizeof number, "%d", rs->retry_after_s);
    const struct header headers[] = {
        {"Content-Type", rs->type},
        {"X-Request-Id", x->request_id},
        {"X-Content-Type-Options", "nosniff"},
        {"Cache-Control", "no-store"},
        {"Location", rs->location[0] ? rs->location : NULL},
        {"Allow", rs->allow[0] ? rs->allow : NULL},
        {"WWW-Authenticate", status == 401 ? "Bearer" : NULL},
        {"Retry-After", rs->retry_after_s ? number : NULL},
    };
    for (size_t i = 0; i < sizeof headers / sizeof headers[0]; i++)
        if (headers[i].value)
            MHD_add_response_header(r, headers[i].name, headers[i].value);
    rc = MHD_queue_response(x->connection, status, r);
    MHD_destroy_response(r);
    if (status == 401 && x->rq.route)
        log_refusal(x->server, x, "not a code that is accepted");
    else if (x->rq.route && x->rq.method != METHOD_GET && x->rq.method != METHOD_HEAD &&
             (x->rq.is_authorised || status < 400))
        log_line(LOG_LEVEL_INFO, "agent", x->rq.route->flags & ROUTE_JOB ? x->rq.arg[0] : NULL,
                 "http: %s %s %u", x->request_id, x->target, status);
    return rc;
}

/* Called before a connection is accepted. Limits the connections of one address, because all clients share
 * the total; the first one dropped in a second is logged, as it is closed without a response. */
static enum MHD_Result may_connect(void *arg, const struct sockaddr *peer, socklen_t len)
{
    struct http_server *h = arg;
    unsigned n = 0;
    char host[64];

    (void)len;
    address_host(host, sizeof host, peer);
    for (const struct conn *k = h->conns; k; k = k->next)
        n += strcmp(k->peer_host, host) == 0;
    if (n < MAX_PER_ADDRESS)
        return MHD_YES;
    if (h->n_dropped++ == 0)
        log_line(LOG_LEVEL_WARN, "agent", NULL,
                 "http: a connection from %s is dropped: %d from that address are open", host,
                 MAX_PER_ADDRESS);
    return MHD_NO;
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
            log_refusal(h, x, v.detail);
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
        return send_response(x);
    x->conn->deadline = deadline_for(body_bytes);
    if (x->rq.route->flags & ROUTE_UPLOAD) {
        x->rq.route->handler(x->server->agent, &x->rq, &x->rs);
        if (x->rs.status)
            return send_response(x);
        if (blob_begin(&x->upload, &x->server->agent->blobs, x->rq.arg[0], &e) < 0) {
            respond_error(&x->rs, &e);
            return send_response(x);
        }
    } else if (body_bytes > 0) {
        x->body = malloc(body_bytes + 1);
        if (!x->body) {
            respond_problem(&x->rs, INTERNAL, NULL, "no memory for %llu bytes",
                            (unsigned long long)body_bytes);
            return send_response(x);
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
        park(x);
        return MHD_YES;
    }
    if (t)
        respond_json(&x->rs, 200, job_json(&t->job, clock_wall()));
    else
        respond_problem(&x->rs, GONE, NULL, "the job was removed meanwhile");
    return send_response(x);
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
    return x->rs.kind == RESPONSE_WAIT ? wait_or_answer(x) : send_response(x);
}

static enum MHD_Result on_request(void *arg, struct MHD_Connection *c, const char *url, const char *method,
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
static void *on_target(void *arg, const char *target, struct MHD_Connection *c)
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

static void on_completed(void *arg, struct MHD_Connection *c, void **slot,
                         enum MHD_RequestTerminationCode why)
{
    struct exchange *x = *slot;

    (void)arg;
    (void)c;
    (void)why;
    if (!x)
        return;
    *slot = NULL;
    unpark(x);
    x->conn->deadline = clock_now() + (double)IDLE_S + HEAD_S;
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

static struct conn *conn_new(struct http_server *h, struct MHD_Connection *c)
{
    const union MHD_ConnectionInfo *fd = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);
    const union MHD_ConnectionInfo *peer = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    struct sockaddr_storage local = {0};
    socklen_t len = sizeof local;
    int silence_ms = IDLE_S * 1000, on = 1;
    struct conn *k = calloc(1, sizeof *k);

    if (!k)
        return NULL;
    k->fd = fd->connect_fd;
    k->deadline = clock_now() + HEAD_S;
    k->is_loopback = peer && peer->client_addr && address_is_loopback(peer->client_addr);
    if (getsockname(k->fd, (struct sockaddr *)&local, &len) == 0)
        address_host(k->local_host, sizeof k->local_host, (struct sockaddr *)&local);
    if (peer && peer->client_addr)
        address_host(k->peer_host, sizeof k->peer_host, peer->client_addr);
    /* Detects a reader that vanished without closing, by unacknowledged bytes or keep-alives. */
    setsockopt(k->fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &silence_ms, sizeof silence_ms);
    setsockopt(k->fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    k->next = h->conns;
    if (k->next)
        k->next->prev = k;
    h->conns = k;
    return k;
}

static void on_connection(void *arg, struct MHD_Connection *c, void **slot,
                          enum MHD_ConnectionNotificationCode what)
{
    struct http_server *h = arg;
    struct conn *k = *slot;

    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        *slot = conn_new(h, c);
        return;
    }
    if (!k)
        return;
    *(k->prev ? &k->prev->next : &h->conns) = k->next;
    if (k->next)
        k->next->prev = k->prev;
    free(k);
    *slot = NULL;
}

static void on_tick(void *arg)
{
    struct http_server *h = arg;
    double now = clock_now();

    for (const struct conn *k = h->conns; k; k = k->next)
        if (now > k->deadline)
            shutdown(k->fd, SHUT_RDWR); /* the library detects the close and frees the connection */
    if (h->n_refused > 1)
        log_line(LOG_LEVEL_WARN, "agent", NULL, "http: %u more requests were refused", h->n_refused - 1);
    if (h->n_dropped > 1)
        log_line(LOG_LEVEL_WARN, "agent", NULL, "http: %u more connections were dropped", h->n_dropped - 1);
    h->n_refused = h->n_dropped = 0;
    h->look = true;
    timer_set(&h->agent->loop, &h->tick, now + 1);
}

static void on_ready(void *arg, uint32_t events)
{
    (void)arg;
    (void)events; /* http_server_turn follows each turn of the loop */
}

/* Raises the descriptor limit to what MAX_CONNECTIONS need, or returns a lower limit of connections. */
static unsigned connection_limit(void)
{
    struct rlimit files;
    rlim_t want = MAX_CONNECTIONS + SPARE_FILES;

    if (getrlimit(RLIMIT_NOFILE, &files) < 0)
        return 256;
    if (files.rlim_cur < want) {
        files.rlim_cur = files.rlim_max < want ? files.rlim_max : want;
        setrlimit(RLIMIT_NOFILE, &files);
        getrlimit(RLIMIT_NOFILE, &files);
    }
    return files.rlim_cur >= want             ? MAX_CONNECTIONS
           : files.rlim_cur > 2 * SPARE_FILES ? (unsigned)(files.rlim_cur - SPARE_FILES)
                                              : 128;
}

int http_server_open(struct http_server **out, struct agent *a, int listen_fd, struct err *e)
{
    struct http_server *h = calloc(1, sizeof *h);
    const struct MHD_OptionItem no_tls[] = {{MHD_OPTION_END, 0, NULL}};
    struct MHD_OptionItem tls[] = {
        {MHD_OPTION_HTTPS_MEM_KEY, 0, a->identity.key},
        {MHD_OPTION_HTTPS_MEM_CERT, 0, a->identity.certificate},
        {MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)(uintptr_t) "NORMAL:-VERS-ALL:+VERS-TLS1.3"},
        {MHD_OPTION_END, 0, NULL}};
    const union MHD_DaemonInfo *info;

    if (!h) {
        close(listen_fd);
        return err_set(e, ERR_NOMEM, "no memory for the server");
    }
    h->agent = a;
    h->rules = (struct gate_rules){.bound_host = a->host,
                                   .port = a->opt.port,
                                   .allow_hosts = a->opt.allow_hosts,
                                   .token = a->opt.no_token ? NULL : &a->token,
                                   .members = &a->members,
                                   .has_tls = a->identity.key != NULL};
    h->daemon = MHD_start_daemon(
        MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | (a->identity.key ? MHD_USE_TLS : 0u), 0, may_connect, h,
        on_request, h, MHD_OPTION_LISTEN_SOCKET, listen_fd, MHD_OPTION_CONNECTION_LIMIT, connection_limit(),
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)POOL_BYTES, MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned)IDLE_S, MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_URI_LOG_CALLBACK, on_target, h,
        MHD_OPTION_NOTIFY_COMPLETED, on_completed, h, MHD_OPTION_NOTIFY_CONNECTION, on_connection, h,
        MHD_OPTION_ARRAY, a->identity.key ? tls : no_tls, MHD_OPTION_END);
    if (!h->daemon) {
        close(listen_fd);
        free(h);
        return err_set(e, ERR_IO, "the HTTP server cannot start");
    }
    info = MHD_get_daemon_info(h->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    h->watch = (struct watch){.fd = info->epoll_fd, .ready = on_ready, .arg = h};
    h->tick = (struct timer){.due = on_tick, .arg = h};
    if (loop_watch(&a->loop, &h->watch, EPOLLIN, e) < 0) {
        http_server_close(h);
        return e->code;
    }
    timer_set(&a->loop, &h->tick, clock_now() + 1);
    *out = h;
    return 0;
}

void http_server_turn(struct http_server *h)
{
    bool resumed;

    /* Repeats while requests were suspended or resumed: the library is known to skip the neighbor of a
     * connection that is suspended within its callback. */
    do {
        h->suspended = resumed = false;
        if (h->look || h->n_seen != h->agent->n_changes) {
            h->look = false;
            h->n_seen = h->agent->n_changes;
            resumed = resume_ready(h);
        }
        MHD_run(h->daemon);
    } while (h->suspended || resumed || h->n_seen != h->agent->n_changes);
}

double http_server_max_wait(const struct http_server *h)
{
    MHD_UNSIGNED_LONG_LONG ms;

    return MHD_get_timeout(h->daemon, &ms) == MHD_YES ? 1e-3 * (double)ms : 3600;
}

bool http_server_is_busy(const struct http_server *h)
{
    return h->n_exchanges > 0;
}

void http_server_quiesce(struct http_server *h)
{
    int fd = MHD_quiesce_daemon(h->daemon);

    if (fd >= 0)
        close(fd);
}

void http_server_close(struct http_server *h)
{
    h->is_closing = h->look = true;
    /* The library aborts when it is stopped with a suspended connection. */
    http_server_turn(h);
    timer_cancel(&h->agent->loop, &h->tick);
    loop_unwatch(&h->agent->loop, &h->watch);
    MHD_stop_daemon(h->daemon);
    free(h);
}
