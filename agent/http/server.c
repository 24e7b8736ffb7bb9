#include "agent/http/server.h"

#include <stdlib.h>
#include <unistd.h>

#include "agent/log.h"
#include "shared/clock.h"

enum {
    POOL_BYTES = 64 << 10 /* per connection. Uploads arrive in chunks of it: 16 KiB halve their speed, 128
                           * KiB add 15 %, and all of it is cleared after each request */
};

static void on_tick(void *arg)
{
    struct http_server *h = arg;
    double now = clock_now();

    conns_tick(h, now);
    if (h->n_unlogged > 0)
        log_line(LOG_LEVEL_WARN, "agent", NULL, "http: %u more requests were refused", h->n_unlogged);
    h->n_logged = h->n_unlogged = 0;
    h->look = true;
    timer_set(&h->agent->loop, &h->tick, now + 1);
}

static void on_ready(void *arg, uint32_t events)
{
    (void)arg;
    (void)events; /* http_server_turn follows each turn of the loop */
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

static int start_library(struct http_server *h, struct err *e)
{
    const union MHD_DaemonInfo *info;

    h->daemon = MHD_start_daemon(
        MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL, exchange_request,
        h, MHD_OPTION_CONNECTION_LIMIT, h->conns.max + 1, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        (size_t)POOL_BYTES, MHD_OPTION_URI_LOG_CALLBACK, exchange_target, h, MHD_OPTION_NOTIFY_COMPLETED,
        exchange_completed, h, MHD_OPTION_NOTIFY_CONNECTION, on_connection, h, MHD_OPTION_END);
    if (!h->daemon)
        return err_set(e, ERR_IO, "the HTTP server cannot start");
    info = MHD_get_daemon_info(h->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    h->watch = (struct watch){.fd = info->epoll_fd, .ready = on_ready, .arg = h};
    if (loop_watch(&h->agent->loop, &h->watch, EPOLLIN, e) == 0)
        return 0;
    MHD_stop_daemon(h->daemon);
    return e->code;
}

int http_server_open(struct http_server **out, struct agent *a, int listen_fd, struct err *e)
{
    struct http_server *h = calloc(1, sizeof *h);

    if (!h) {
        close(listen_fd);
        return err_set(e, ERR_NOMEM, "no memory for the server");
    }
    h->agent = a;
    h->rules = (struct gate_rules){.bound_host = a->host,
                                   .port = a->opt.port,
                                   .allow_hosts = a->opt.allow_hosts,
                                   .token = a->opt.no_token ? NULL : &a->token,
                                   .cluster = a->cluster.path[0] ? &a->cluster : NULL,
                                   .members = &a->members,
                                   .takes_certificates = a->identity.client_ca != NULL};
    h->tick = (struct timer){.due = on_tick, .arg = h};
    if (conns_open(h, listen_fd, e) < 0) {
        free(h);
        return e->code;
    }
    if (start_library(h, e) < 0) {
        conns_close(h);
        free(h);
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
            resumed = exchange_resume_ready(h);
        }
        MHD_run(h->daemon);
    } while (h->suspended || resumed || h->n_seen != h->agent->n_changes);
    conns_relay_ready(h);
}

double http_server_max_wait(const struct http_server *h)
{
    MHD_UNSIGNED_LONG_LONG ms;

    if (h->conns.ready)
        return 0;
    return MHD_get_timeout(h->daemon, &ms) == MHD_YES ? 1e-3 * (double)ms : 3600;
}

bool http_server_is_busy(const struct http_server *h)
{
    return h->n_exchanges > 0 || h->conns.n_awaited > 0;
}

void http_server_quiesce(struct http_server *h)
{
    conns_quiesce(h);
}

void http_server_close(struct http_server *h)
{
    h->is_closing = h->look = true;
    /* The library aborts when it is stopped with a suspended connection. */
    http_server_turn(h);
    timer_cancel(&h->agent->loop, &h->tick);
    loop_unwatch(&h->agent->loop, &h->watch);
    MHD_stop_daemon(h->daemon);
    conns_close(h);
    free(h);
}
