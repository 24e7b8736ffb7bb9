#include "tests/lib/fault_proxy.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "shared/base/clock.h"
#include "shared/base/rng.h"

enum {
    CONNECTIONS_MAX = 64,
    CHUNK = 1 << 14,
    CHUNKS_MAX = 64, /* in flight per direction; then nothing more is read */
    /* Receive buffer of a slow reader, so that unread bytes stay at the sender. With room for less than two
     * segments, 64 KiB each on loopback, the kernel sends on timers: fifty times slower than the rate. */
    SLOW_BUFFER = 1 << 18,
    IN_FLIGHT_MAX = 1 << 22, /* more than the kernel's buffers hold of a connection */
    READS_PER_S = 100
};

struct chunk {
    struct chunk *next;
    double due; /* clock_now */
    size_t len, at;
    unsigned char bytes[];
};

struct direction { /* of a connection */
    struct chunk *first, **last;
    size_t n;
    double read_at; /* not before */
    bool has_ended; /* end of file: nothing more is read */
    bool is_shut;   /* the end was forwarded to the receiver */
    bool is_full;   /* the receiver's socket buffer is full */
};

struct connection {
    int fd[2];                      /* accepted, connected to to_port; -1: none */
    struct direction directions[2]; /* from fd[i] to the other */
    uint64_t flip_holdoff; /* bytes without further flips, until the receiver has read the last one */
};

struct work {
    struct fault_proxy *p;
    int listen_fd;
    struct rng rng;
    uint64_t to[N_FAULTS]; /* bytes until the next fault of each kind */
    struct connection c[CONNECTIONS_MAX];
};

static void must(bool ok, const char *what)
{
    if (!ok) {
        perror(what);
        abort();
    }
}

static uint64_t draw_interval(struct work *w, uint64_t every)
{
    return every ? 1 + rng_below(&w->rng, (uint32_t)(2 * every)) : UINT64_MAX;
}

static int open_socket(struct sockaddr_in *a, int port)
{
    *a = (struct sockaddr_in){
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons((uint16_t)port)};
    return socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
}

static void close_connection(struct connection *c)
{
    for (int side = 0; side < 2; side++) {
        for (struct chunk *p = c->directions[side].first, *next; p; p = next) {
            next = p->next;
            free(p);
        }
        if (c->fd[side] >= 0)
            close(c->fd[side]);
    }
    *c = (struct connection){.fd = {-1, -1}};
}

static void tune(const struct fault_plan *plan, int fd)
{
    const int on = 1, small = SLOW_BUFFER;

    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (plan->rate > 0)
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
}

static void accept_connection(struct work *w)
{
    struct sockaddr_in a;
    struct connection c = {
        .fd = {accept4(w->listen_fd, NULL, NULL, SOCK_CLOEXEC), open_socket(&a, w->p->to_port)}};

    if (c.fd[0] < 0 || connect(c.fd[1], (struct sockaddr *)&a, sizeof a) < 0) {
        close_connection(&c);
        return;
    }
    for (int side = 0; side < 2; side++)
        tune(&w->p->plan, c.fd[side]);
    w->p->n_connections++;
    for (int i = 0; i < CONNECTIONS_MAX; i++)
        if (w->c[i].fd[0] < 0) {
            w->c[i] = c;
            return;
        }
    close_connection(&c);
}

/* Whether this fault occurs within the next `len` bytes. */
static bool is_due(struct work *w, enum fault k, size_t len)
{
    if (!w->p->is_on || w->to[k] == UINT64_MAX)
        return false;
    if (w->to[k] > len) {
        w->to[k] -= len;
        return false;
    }
    w->to[k] = draw_interval(w, w->p->plan.every[k]);
    w->p->n[k]++;
    return true;
}

static void flip(struct work *w, struct connection *c, unsigned char *bytes, size_t len)
{
    uint64_t at = w->to[FAULT_FLIP];

    c->flip_holdoff -= c->flip_holdoff < len ? c->flip_holdoff : len;
    if (c->flip_holdoff > 0 || !is_due(w, FAULT_FLIP, len))
        return;
    bytes[at - 1] ^= (unsigned char)(1 << rng_below(&w->rng, 8));
    c->flip_holdoff = IN_FLIGHT_MAX;
}

static void flip_chosen(struct fault_proxy *p, int side, unsigned char *bytes, size_t len)
{
    int in = p->flip_in[side];

    if (in == 0) /* another thread may set it at any time */
        return;
    p->flip_in[side] = in > (int)len ? in - (int)len : 0;
    if (in > (int)len)
        return;
    bytes[in - 1] ^= 4;
    p->n[FAULT_FLIP]++;
}

static void put(struct work *w, struct direction *d, const unsigned char *bytes, size_t len)
{
    const struct fault_plan *plan = &w->p->plan;
    struct chunk *p = malloc(sizeof *p + len);

    must(p != NULL, "fault proxy");
    *p = (struct chunk){.due = clock_now() + plan->delay + plan->jitter * (double)rng_uniform(&w->rng),
                        .len = len};
    memcpy(p->bytes, bytes, len);
    if (!d->first)
        d->last = &d->first;
    *d->last = p;
    d->last = &p->next;
    d->n++;
}

static size_t at_once(const struct fault_plan *plan)
{
    size_t turn = (size_t)(plan->rate / (double)READS_PER_S) + 1;

    return plan->one_byte_reads ? 1 : plan->rate > 0 && turn < CHUNK ? turn : CHUNK;
}

/* Reads from one side of a connection and injects faults. */
static void receive(struct work *w, struct connection *c, int side)
{
    const struct fault_plan *plan = &w->p->plan;
    const struct linger none = {.l_onoff = 1};
    struct direction *d = &c->directions[side];
    unsigned char bytes[CHUNK];
    ssize_t n = recv(c->fd[side], bytes, at_once(plan), MSG_DONTWAIT);
    size_t len = n > 0 ? (size_t)n : 0;

    if (n < 0 && errno != EAGAIN)
        close_connection(c);
    d->has_ended |= n == 0;
    if (n <= 0)
        return;
    flip(w, c, bytes, len);
    flip_chosen(w->p, side, bytes, len);
    put(w, d, bytes, len);
    if (is_due(w, FAULT_REPEAT, len))
        put(w, d, bytes, len);
    if (plan->rate > 0)
        d->read_at = clock_now() + (double)len / plan->rate;
    if (is_due(w, FAULT_HALF_CLOSE, len))
        d->has_ended = true;
    if (is_due(w, FAULT_RESET, len)) {
        for (int i = 0; i < 2; i++)
            setsockopt(c->fd[i], SOL_SOCKET, SO_LINGER, &none, sizeof none);
        close_connection(c);
    }
    if (is_due(w, FAULT_CUT, len))
        for (int i = 0; i < CONNECTIONS_MAX; i++)
            close_connection(&w->c[i]);
}

/* Forwards the chunks that are due to the other side, then the end of file. */
static void forward(struct connection *c, int side)
{
    struct direction *d = &c->directions[side];
    int to = c->fd[!side];

    d->is_full = false;
    while (d->first && d->first->due <= clock_now()) {
        struct chunk *p = d->first;
        ssize_t n = send(to, p->bytes + p->at, p->len - p->at, MSG_NOSIGNAL | MSG_DONTWAIT);

        d->is_full = n < 0 && errno == EAGAIN;
        if (d->is_full)
            return;
        if (n < 0) {
            close_connection(c);
            return;
        }
        p->at += (size_t)n;
        if (p->at < p->len)
            continue;
        d->first = p->next;
        d->n--;
        free(p);
    }
    if (!d->has_ended || d->first || d->is_shut)
        return;
    shutdown(to, SHUT_WR);
    d->is_shut = true;
    if (c->directions[!side].is_shut)
        close_connection(c);
}

/* Events to poll for on this side: POLLIN unless its direction is stalled, ended, full or slowed; POLLOUT
 * if its socket buffer was full. */
static short events(const struct work *w, const struct connection *c, int side, double now)
{
    const struct direction *from = &c->directions[side], *to = &c->directions[!side];
    bool reads = !(w->p->stalls >> side & 1) && !from->has_ended && from->n < CHUNKS_MAX &&
                 from->read_at <= now;

    return (short)((reads ? POLLIN : 0) | (to->is_full ? POLLOUT : 0));
}

static void *run(void *arg)
{
    struct work *w = arg;
    double before = clock_now();

    while (!w->p->is_over) {
        struct pollfd fds[1 + 2 * CONNECTIONS_MAX] = {{.fd = w->listen_fd, .events = POLLIN}};
        const struct fault_plan *plan = &w->p->plan;
        double now = clock_now();
        bool has_timers = plan->delay > 0 || plan->jitter > 0 || plan->rate > 0;

        if (now - before >= 1)
            w->p->was_suspended = true;
        before = now;
        for (int i = 0; i < 2 * CONNECTIONS_MAX; i++) {
            struct connection *c = &w->c[i / 2];
            short asked = c->fd[0] >= 0 ? events(w, c, i % 2, now) : 0;

            fds[1 + i] = (struct pollfd){.fd = asked ? c->fd[i % 2] : -1, .events = asked};
        }
        poll(fds, sizeof fds / sizeof *fds, has_timers ? 1 : 20);
        for (int i = 0; i < 2 * CONNECTIONS_MAX; i++) {
            if (fds[1 + i].revents & ~POLLOUT && w->c[i / 2].fd[0] >= 0)
                receive(w, &w->c[i / 2], i % 2);
            if (w->c[i / 2].fd[0] >= 0)
                forward(&w->c[i / 2], i % 2);
        }
        if (fds[0].revents)
            accept_connection(w);
    }
    for (int i = 0; i < CONNECTIONS_MAX; i++)
        close_connection(&w->c[i]);
    close(w->listen_fd);
    free(w);
    return NULL;
}

void fault_proxy_open(struct fault_proxy *p, int to_port, const struct fault_plan *plan)
{
    struct work *w = calloc(1, sizeof *w);
    pthread_t *thread = malloc(sizeof *thread);
    struct sockaddr_in a;
    socklen_t len = sizeof a;

    must(w && thread, "fault proxy");
    *p = (struct fault_proxy){.plan = *plan, .to_port = to_port, .thread = thread};
    w->p = p;
    rng_init(&w->rng, plan->seed, 0, 0);
    for (int k = 0; k < N_FAULTS; k++)
        w->to[k] = draw_interval(w, plan->every[k]);
    for (int i = 0; i < CONNECTIONS_MAX; i++)
        w->c[i].fd[0] = w->c[i].fd[1] = -1;
    w->listen_fd = open_socket(&a, 0);
    must(bind(w->listen_fd, (struct sockaddr *)&a, len) == 0 && listen(w->listen_fd, 64) == 0 &&
             getsockname(w->listen_fd, (struct sockaddr *)&a, &len) == 0,
         "fault proxy");
    p->port = ntohs(a.sin_port);
    must(pthread_create(thread, NULL, run, w) == 0, "fault proxy");
}

void fault_proxy_close(struct fault_proxy *p)
{
    pthread_t *thread = p->thread;

    p->is_over = true;
    pthread_join(*thread, NULL);
    free(thread);
}
