#include "shared/http/http_server.h"

#include <microhttpd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "shared/base/clock.h"
#include "shared/http/http_server_private.h"

static void on_tick(void *arg)
{
    struct http_server *h = arg;
    double now = clock_now();

    conns_tick(h, now);
    if (h->options.service->tick)
        h->options.service->tick(h->options.arg);
    h->look = true;
    timer_set(h->loop, &h->tick, now + 1);
}

void http_warn(const struct http_server *h, const char *fmt, ...)
{
    char text[512];
    va_list ap;

    if (!h->options.service->warn)
        return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    h->options.service->warn(text);
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
    if (conns_open(h, listen_fd, e) < 0) {
        free(h);
        return e->code;
    }
    if (http_library_open(h, e) < 0) {
        conns_close(h);
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
        if (h->look || h->n_seen != *n_changes) {
            h->look = false;
            h->n_seen = *n_changes;
            resumed = http_calls_resume(h);
        }
        MHD_run(h->daemon);
    } while (h->suspended || resumed || h->n_seen != *n_changes);
    conns_relay_ready(h);
}

double http_server_max_wait(const struct http_server *h)
{
    MHD_UNSIGNED_LONG_LONG ms;

    if (h->conns.ready)
        return 0;
    return MHD_get_timeout(h->daemon, &ms) == MHD_YES ? 1e-3 * (double)ms : 3600;
}

void *http_arg(const struct http_call *c)
{
    return c->server->options.arg;
}

bool http_is_closing(const struct http_call *c)
{
    return c->server->is_closing;
}

bool http_server_is_busy(const struct http_server *h)
{
    return h->n_calls > 0 || h->conns.n_awaited > 0;
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
    timer_cancel(h->loop, &h->tick);
    loop_unwatch(h->loop, &h->watch);
    MHD_stop_daemon(h->daemon);
    conns_close(h);
    free(h);
}
