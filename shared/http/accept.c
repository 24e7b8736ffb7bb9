/* Accepts connections, and evicts others for them when their places are taken. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "shared/base/clock.h"
#include "shared/http/http_server_private.h"

enum {
    FILES_EACH = 3,    /* a connection's socket, and a socket pair while it has a request */
    SPARE_FILES = 256, /* descriptors beyond the connections': journals, runners, uploads */
    ACCEPT_BATCH = 64  /* in one turn of the loop */
};

static const double PAUSE_S = 0.1;

static void evict(struct conn *k, const char *where)
{
    struct conns *c = &k->server->conns;

    if (c->n_evicted++ == 0)
        http_warn(
            k->server,
            "http: a connection from %s is closed, the oldest of too many %s without an accepted request",
            k->peer_host, where);
    conn_end(k);
}

/* Returns the oldest unauthenticated connection of the address, or, on this machine, of the user with the
 * most there. */
static struct conn *oldest_of_largest_source(struct conn *newest)
{
    struct conn *first = newest->server->conns.unauthenticated.first, *oldest = NULL;
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

/* Keeps the unauthenticated connections within their limits when `newest` has come. */
static void make_room(struct conn *newest)
{
    struct conns *c = &newest->server->conns;
    unsigned n_same = 0;

    for (const struct conn *k = c->unauthenticated.first; k; k = k->next)
        n_same += source_has_address(&k->source, &newest->source);
    if (n_same > c->max_per_source)
        evict(oldest_of_largest_source(newest), "from one address");
    else if (c->unauthenticated.n > c->max_unauthenticated ||
             c->unauthenticated.n + c->authenticated.n > c->max)
        evict(c->unauthenticated.first, "in all");
}

/* NULL: no memory for it. */
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
    struct http_server *h = arg;
    struct err e;

    if (loop_watch(h->loop, &h->conns.listening, EPOLLIN, &e) < 0)
        timer_set(h->loop, &h->conns.pause, clock_now() + PAUSE_S);
}

void conns_log_unaccepted(struct http_server *h, int error)
{
    struct err e;

    if (h->conns.n_unaccepted++ > 0)
        return;
    errno = error;
    err_errno(&e, ERR_IO, "http: a connection cannot be accepted");
    http_warn(h, "%s", e.text);
}

/* No descriptor or memory is free: the oldest unauthenticated connection is closed to free some; otherwise
 * accepting is tried again a moment later. Returns whether to go on at once. */
static bool free_a_place(struct http_server *h, int error)
{
    conns_log_unaccepted(h, error);
    if (h->conns.unauthenticated.first) {
        evict(h->conns.unauthenticated.first, "for the descriptors left,");
        return true;
    }
    loop_unwatch(h->loop, &h->conns.listening);
    timer_set(h->loop, &h->conns.pause, clock_now() + PAUSE_S);
    return false;
}

/* accept reports the lack of a descriptor also when no connection waits. */
static bool is_waited(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};

    return poll(&p, 1, 0) > 0;
}

static void on_listening(void *arg, uint32_t events)
{
    struct http_server *h = arg;
    bool has_freed = false;

    (void)events;
    for (int i = 0; i < ACCEPT_BATCH; i++) {
        struct sockaddr_storage peer = {0};
        socklen_t len = sizeof peer;
        int fd = accept4(h->conns.listening.fd, (struct sockaddr *)&peer, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);

        if (fd >= 0) {
            admit_conn(conn_new(h, fd, (struct sockaddr *)&peer));
            has_freed = false;
        } else if (errno == EAGAIN) {
            return;
        } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            if (has_freed || !is_waited(h->conns.listening.fd) || !free_a_place(h, errno))
                return;
            has_freed = true;
        }
    }
}

/* Raises the descriptor limit to what so many connections need, or accepts fewer. */
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

int conns_open(struct http_server *h, int listen_fd, struct err *e)
{
    const struct http_options *o = &h->options;
    struct conns *c = &h->conns;

    *c = (struct conns){.listening = {.fd = listen_fd, .ready = on_listening, .arg = h},
                        .pause = {.due = listen_again, .arg = h},
                        .diag_fd = source_uid_open(),
                        .max = find_max(o->max),
                        .max_per_source = o->max_per_source};
    c->max_unauthenticated = c->max / (o->max / o->max_unauthenticated);
    if (loop_watch(h->loop, &c->listening, EPOLLIN, e) == 0)
        return 0;
    conns_close(h);
    return e->code;
}

void conns_quiesce(struct http_server *h)
{
    struct conns *c = &h->conns;

    timer_cancel(h->loop, &c->pause);
    loop_unwatch(h->loop, &c->listening);
    if (c->listening.fd >= 0)
        close(c->listening.fd);
    c->listening.fd = -1;
}
