/* conn -- accepts the connections of clients, limits and times them, and ends them. */
#include "shared/http/http_server_private.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "shared/base/address.h"
#include "shared/base/clock.h"

static const double HEAD_S = 10; /* from the connection to the complete head of its first request */
/* Time for a request with its response; a second more for each SLOWEST_BPS bytes. */
static const double REQUEST_S = 30, SLOWEST_BPS = 32 << 10;

enum {
    SILENCE_MS = 30000,
    FILES_EACH = 3,    /* descriptors of a connection: its socket, and a socket pair while it has a request */
    SPARE_FILES = 256, /* descriptors for everything else: journals, runners, uploads */
    ACCEPT_BATCH = 64  /* connections accepted in one turn of the loop */
};

static const double PAUSE_S = 0.1;

double conn_deadline(uint64_t bytes)
{
    return clock_now() + REQUEST_S + (double)bytes / SLOWEST_BPS;
}

void conns_warn(const struct conns *c, const char *fmt, ...)
{
    char text[512];
    va_list ap;

    if (!c->options.warn)
        return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    c->options.warn(text);
}

static struct conn_list *list_of(struct conn *k)
{
    return k->is_authenticated ? &k->conns->authenticated : &k->conns->unauthenticated;
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
        k->source.uid = source_uid(k->conns->diag_fd, k->client.fd);
    }
    return &k->source;
}

static void free_if_unused(struct conn *k)
{
    struct conns *c = k->conns;

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

void conn_lose_client(struct conn *k)
{
    if (!k->call)
        return;
    k->call->is_gone = true;
    k->conns->has_lost = true;
}

void conn_end(struct conn *k)
{
    struct conns *c = k->conns;
    struct loop *l = k->conns->loop;

    if (k->is_ended)
        return;
    conn_lose_client(k);
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
    k->next_ready = k->conns->ready;
    k->conns->ready = k;
}

struct conn *conn_started(struct conns *c, int fd)
{
    struct conn **at = &c->starting, *k;

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

/* A connection that becomes ready during this loop is relayed in the next call. */
void conns_relay_ready(struct conns *c)
{
    struct conn *k, *next = c->ready;

    c->ready = NULL;
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

    /* Ends the connection of a client that has vanished: its bytes or keep-alives stay unacknowledged. */
    setsockopt(k->client.fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &silence_ms, sizeof silence_ms);
    setsockopt(k->client.fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(k->client.fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (getsockname(k->client.fd, (struct sockaddr *)&local, &len) == 0)
        address_host(k->local_host, sizeof k->local_host, (struct sockaddr *)&local);
}

/* Makes an unauthenticated connection, which takes fd. NULL: no memory. */
static struct conn *conn_new(struct conns *c, int fd, const struct sockaddr *peer)
{
    struct conn *k = calloc(1, sizeof *k);

    if (!k) {
        close(fd);
        return NULL;
    }
    k->conns = c;
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

static void evict(struct conn *k, const char *where)
{
    struct conns *c = k->conns;

    if (c->n_evicted++ == 0)
        conns_warn(
            c, "http: a connection from %s is closed, the oldest of too many %s without an accepted request",
            k->peer_host, where);
    conn_end(k);
}

/* Returns the oldest unauthenticated connection of the source with the most of them, among the sources at the
 * address of `newest`: the address itself, or on this machine each of its users. */
static struct conn *oldest_of_largest_source(struct conn *newest)
{
    struct conn *first = newest->conns->unauthenticated.first, *oldest = NULL;
    unsigned most = 0;

    for (struct conn *k = first; k; k = k->next)
        if (source_has_address(&k->source, &newest->source))
            conn_source(k);
    for (struct conn *k = first; k; k = k->next) {
        unsigned n = 0;

        if (!source_has_address(&k->source, &newest->source))
            continue;
        for (const struct conn *other = k; other; other = other->next)
            n += source_is(&other->source, &k->source);
        if (n > most) {
            most = n;
            oldest = k;
        }
    }
    return oldest;
}

/* Keeps the unauthenticated connections within their limits after `newest` was accepted. */
static void make_room(struct conn *newest)
{
    struct conns *c = newest->conns;
    unsigned n_same = 0;

    for (const struct conn *k = c->unauthenticated.first; k; k = k->next)
        n_same += source_has_address(&k->source, &newest->source);
    if (n_same > c->max_per_source)
        evict(oldest_of_largest_source(newest), "from one address");
    else if (c->unauthenticated.n > c->max_unauthenticated ||
             c->unauthenticated.n + c->authenticated.n > c->max)
        evict(c->unauthenticated.first, "in all");
}

/* NULL: there was no memory for it. */
static void admit_conn(struct conn *k)
{
    if (!k)
        return;
    make_room(k);
    if (!k->is_ended)
        conn_wait(k);
}

static void listen_again(void *arg)
{
    struct conns *c = arg;
    struct err e;

    if (loop_watch(c->loop, &c->listening, EPOLLIN, &e) < 0)
        timer_set(c->loop, &c->pause, clock_now() + PAUSE_S);
}

void conns_log_unaccepted(struct conns *c, int error)
{
    struct err e;

    if (c->n_unaccepted++ > 0)
        return;
    errno = error;
    err_errno(&e, ERR_IO, "http: a connection cannot be accepted");
    conns_warn(c, "%s", e.text);
}

/* Call when no descriptor or memory is free: closes the oldest unauthenticated connection; without one,
 * pauses accepting for PAUSE_S. Returns whether to accept on at once. */
static bool free_a_place(struct conns *c, int error)
{
    conns_log_unaccepted(c, error);
    if (c->unauthenticated.first) {
        evict(c->unauthenticated.first, "for the descriptors left,");
        return true;
    }
    loop_unwatch(c->loop, &c->listening);
    timer_set(c->loop, &c->pause, clock_now() + PAUSE_S);
    return false;
}

/* accept4 reports that no descriptor is free also when no connection waits. */
static bool has_waiting(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};

    return poll(&p, 1, 0) > 0;
}

static void on_listening(void *arg, uint32_t events)
{
    struct conns *c = arg;
    bool has_freed = false;

    (void)events;
    for (int i = 0; i < ACCEPT_BATCH; i++) {
        struct sockaddr_storage peer = {0};
        socklen_t len = sizeof peer;
        int fd = accept4(c->listening.fd, (struct sockaddr *)&peer, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);

        if (fd >= 0) {
            admit_conn(conn_new(c, fd, (struct sockaddr *)&peer));
            has_freed = false;
        } else if (errno == EAGAIN) {
            return;
        } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            if (has_freed || !has_waiting(c->listening.fd) || !free_a_place(c, errno))
                return;
            has_freed = true;
        }
    }
}

/* Raises the descriptor limit for `most` connections. Returns that number, or as many as the hard limit
 * allows. */
static unsigned find_max(unsigned most)
{
    struct rlimit files;
    rlim_t want = FILES_EACH * (rlim_t)most + SPARE_FILES;

    if (getrlimit(RLIMIT_NOFILE, &files) < 0)
        return most / 16;
    if (files.rlim_cur < want) {
        files.rlim_cur = files.rlim_max < want ? files.rlim_max : want;
        setrlimit(RLIMIT_NOFILE, &files);
        getrlimit(RLIMIT_NOFILE, &files);
    }
    if (files.rlim_cur >= want)
        return most;
    return files.rlim_cur > 2 * SPARE_FILES ? (unsigned)(files.rlim_cur - SPARE_FILES) / FILES_EACH
                                            : SPARE_FILES / FILES_EACH;
}

int conns_open(struct conns *c, const struct http_options *o, int listen_fd, struct err *e)
{
    *c = (struct conns){.loop = o->loop,
                        .options = *o,
                        .listening = {.fd = listen_fd, .ready = on_listening, .arg = c},
                        .pause = {.due = listen_again, .arg = c},
                        .diag_fd = source_uid_open(),
                        .max = find_max(o->max),
                        .max_per_source = o->max_per_source};
    c->max_unauthenticated = c->max / (o->max / o->max_unauthenticated);
    if (loop_watch(c->loop, &c->listening, EPOLLIN, e) == 0)
        return 0;
    conns_close(c);
    return e->code;
}

static void end_late(struct conn_list *l, double now)
{
    for (struct conn *k = l->first, *next; k; k = next) {
        next = k->next;
        if (now > k->deadline || (k->stalled_at > 0 && now > k->stalled_at + 1e-3 * SILENCE_MS))
            conn_end(k);
    }
}

void conns_tick(struct conns *c, double now)
{
    end_late(&c->unauthenticated, now);
    end_late(&c->authenticated, now);
    if (c->n_evicted > 1)
        conns_warn(c, "http: %u more connections were closed", c->n_evicted - 1);
    c->n_evicted = c->n_unaccepted = 0;
}

void conns_quiesce(struct conns *c)
{
    timer_cancel(c->loop, &c->pause);
    loop_unwatch(c->loop, &c->listening);
    if (c->listening.fd >= 0)
        close(c->listening.fd);
    c->listening.fd = -1;
}

static void close_all(struct conn_list *l)
{
    while (l->first) {
        struct conn *k = l->first;

        k->is_closing = true;
        conn_relay(k);
    }
}

void conns_close(struct conns *c)
{
    conns_quiesce(c);
    conns_relay_ready(c);
    close_all(&c->unauthenticated);
    close_all(&c->authenticated);
    conns_relay_ready(c);
    if (c->diag_fd >= 0)
        close(c->diag_fd);
}
