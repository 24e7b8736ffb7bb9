#include "shared/http/conn.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "shared/base/address.h"
#include "shared/base/clock.h"
#include "shared/http/http_server_private.h"

enum { SILENCE_MS = 30000 };

static const double HEAD_S = 10; /* from the connection to the complete head of its first request */
/* Time for a request with its response; a second more for each SLOWEST_BPS bytes. */
static const double REQUEST_S = 30, SLOWEST_BPS = 32 << 10;

double conn_deadline(uint64_t bytes)
{
    return clock_now() + REQUEST_S + (double)bytes / SLOWEST_BPS;
}

static struct conn_list *list_of(struct conn *k)
{
    return k->is_authenticated ? &k->server->conns.authenticated : &k->server->conns.unauthenticated;
}

static void list_add(struct conn *k)
{
    struct conn_list *l = list_of(k);

    k->next = NULL;
    k->prev = l->last;
    *(l->last ? &l->last->next : &l->first) = k;
    l->last = k;
    l->n++;
}

static void list_remove(struct conn *k)
{
    struct conn_list *l = list_of(k);

    *(k->prev ? &k->prev->next : &l->first) = k->next;
    *(k->next ? &k->next->prev : &l->last) = k->prev;
    l->n--;
}

void conn_mark_authenticated(struct conn *k)
{
    if (k->is_authenticated || k->is_ended)
        return;
    list_remove(k);
    k->is_authenticated = true;
    list_add(k);
}

const struct source *conn_source(struct conn *k)
{
    if (k->is_loopback && !k->is_uid_asked) {
        k->is_uid_asked = true;
        k->source.uid = source_uid(k->server->conns.diag_fd, k->client.fd);
    }
    return &k->source;
}

static void free_if_unused(struct conn *k)
{
    struct conns *c = &k->server->conns;

    if (!k->is_ended || k->has_library_end || k->is_ready)
        return;
    *(k->prev ? &k->prev->next : &c->ended) = k->next;
    if (k->next)
        k->next->prev = k->prev;
    free(k);
}

void conn_drop_request(struct conn *k)
{
    if (k->request)
        explicit_bzero(k->request, sizeof *k->request); /* it holds a token */
    free(k->request);
    k->request = NULL;
}

void conn_end(struct conn *k)
{
    struct conns *c = &k->server->conns;
    struct loop *l = k->server->loop;

    if (k->is_ended)
        return;
    if (k->call)
        http_call_gone(k->call);
    if (k->is_awaited)
        c->n_awaited--;
    loop_unwatch(l, &k->client);
    loop_unwatch(l, &k->inner);
    tls_session_free(k->tls);
    close(k->client.fd);
    if (k->inner.fd >= 0)
        close(k->inner.fd);
    conn_drop_request(k);
    free(k->in);
    free(k->out);
    list_remove(k);
    k->is_ended = true;
    k->prev = NULL;
    k->next = c->ended;
    if (k->next)
        k->next->prev = k;
    c->ended = k;
    free_if_unused(k);
}

void conn_mark_ready(struct conn *k)
{
    if (k->is_ready)
        return;
    k->is_ready = true;
    k->next_ready = k->server->conns.ready;
    k->server->conns.ready = k;
}

struct conn *conn_started(struct http_server *h, int fd)
{
    struct conn **at = &h->conns.starting, *k;

    while ((k = *at) != NULL && k->library_fd != fd)
        at = &k->next_starting;
    if (k)
        *at = k->next_starting;
    return k;
}

void conn_library_closed(struct conn *k)
{
    k->has_library_end = false;
    free_if_unused(k);
}

/* One that is marked meanwhile waits for the next turn. */
void conns_relay_ready(struct http_server *h)
{
    struct conn *k, *next = h->conns.ready;

    h->conns.ready = NULL;
    while ((k = next) != NULL) {
        next = k->next_ready;
        k->is_ready = false;
        if (k->is_ended)
            free_if_unused(k);
        else
            conn_relay(k);
    }
}

void conn_begin(struct conn *k)
{
    struct sockaddr_storage local = {0};
    socklen_t len = sizeof local;
    int silence_ms = SILENCE_MS, on = 1;

    /* Detects a reader that vanished without closing, by unacknowledged bytes or keep-alives. */
    setsockopt(k->client.fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &silence_ms, sizeof silence_ms);
    setsockopt(k->client.fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(k->client.fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (getsockname(k->client.fd, (struct sockaddr *)&local, &len) == 0)
        address_host(k->local_host, sizeof k->local_host, (struct sockaddr *)&local);
}

struct conn *conn_new(struct http_server *h, int fd, const struct sockaddr *peer)
{
    struct conn *k = calloc(1, sizeof *k);

    if (!k) {
        close(fd);
        return NULL;
    }
    k->server = h;
    k->deadline = clock_now() + HEAD_S;
    k->state = CONN_FIRST;
    k->is_loopback = address_is_loopback(peer);
    k->client = (struct watch){.fd = fd, .ready = conn_on_client, .arg = k};
    k->inner = (struct watch){.fd = -1};
    source_of(&k->source, peer);
    address_host(k->peer_host, sizeof k->peer_host, peer);
    list_add(k);
    return k;
}

static void end_late(struct conn_list *l, double now)
{
    for (struct conn *k = l->first, *next; k; k = next) {
        next = k->next;
        if (now > k->deadline || (k->stalled_at > 0 && now > k->stalled_at + 1e-3 * SILENCE_MS))
            conn_end(k);
    }
}

void conns_tick(struct http_server *h, double now)
{
    struct conns *c = &h->conns;

    end_late(&c->unauthenticated, now);
    end_late(&c->authenticated, now);
    if (c->n_evicted > 1)
        http_warn(h, "http: %u more connections were closed", c->n_evicted - 1);
    c->n_evicted = c->n_unaccepted = 0;
}

static void close_all(struct conn_list *l)
{
    while (l->first) {
        struct conn *k = l->first;

        k->is_closing = true;
        conn_relay(k);
    }
}

void conns_close(struct http_server *h)
{
    struct conns *c = &h->conns;

    conns_quiesce(h);
    conns_relay_ready(h);
    close_all(&c->unauthenticated);
    close_all(&c->authenticated);
    conns_relay_ready(h);
    if (c->diag_fd >= 0)
        close(c->diag_fd);
}
