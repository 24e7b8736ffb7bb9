#include "tests/lib/fault_proxy.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "shared/rng.h"

enum { CONNECTIONS_MAX = 64, CHUNK = 1 << 14 };

struct connection {
    int fd[2]; /* who came, where it goes; -1: none */
};

struct work {
    struct fault_proxy *p;
    int listen_fd;
    struct rng rng;
    uint64_t to_flip, to_cut; /* bytes until then */
    struct connection c[CONNECTIONS_MAX];
};

static void must(bool ok, const char *what)
{
    if (!ok) {
        perror(what);
        abort();
    }
}

static uint64_t soon(struct work *w, uint64_t every)
{
    return every ? 1 + rng_below(&w->rng, (uint32_t)(2 * every)) : UINT64_MAX;
}

static int open_socket(struct sockaddr_in *a, int port)
{
    *a = (struct sockaddr_in){
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons((uint16_t)port)};
    return socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
}

static void hang_up(struct connection *c)
{
    for (int side = 0; side < 2; side++)
        if (c->fd[side] >= 0)
            close(c->fd[side]);
    c->fd[0] = c->fd[1] = -1;
}

static void take_caller(struct work *w)
{
    struct sockaddr_in a;
    const int on = 1;
    struct connection c = {{accept4(w->listen_fd, NULL, NULL, SOCK_CLOEXEC), open_socket(&a, w->p->to_port)}};

    if (c.fd[0] < 0 || connect(c.fd[1], (struct sockaddr *)&a, sizeof a) < 0) {
        hang_up(&c);
        return;
    }
    for (int side = 0; side < 2; side++)
        setsockopt(c.fd[side], IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    w->p->n_connections++;
    for (int i = 0; i < CONNECTIONS_MAX; i++)
        if (w->c[i].fd[0] < 0) {
            w->c[i] = c;
            return;
        }
    hang_up(&c);
}

/* Bytes from one side of a connection to the other, with what happens to them on the way. */
static void pass(struct work *w, struct connection *c, int side)
{
    unsigned char bytes[CHUNK];
    ssize_t n = recv(c->fd[side], bytes, w->p->plan.drips ? 1 : sizeof bytes, 0);
    uint64_t len = n > 0 ? (uint64_t)n : 0;

    for (; w->to_flip <= len; w->to_flip += soon(w, w->p->plan.flip_every)) {
        bytes[w->to_flip - 1] ^= (unsigned char)(1 << rng_below(&w->rng, 8));
        w->p->n_flipped++;
    }
    w->to_flip -= w->to_flip == UINT64_MAX ? 0 : len;
    if (n <= 0 || send(c->fd[!side], bytes, len, MSG_NOSIGNAL) != n) {
        hang_up(c);
        return;
    }
    if (w->to_cut > len) {
        w->to_cut -= w->to_cut == UINT64_MAX ? 0 : len;
        return;
    }
    for (int i = 0; i < CONNECTIONS_MAX; i++)
        hang_up(&w->c[i]);
    w->p->n_cut++;
    w->to_cut = soon(w, w->p->plan.cut_every);
}

static void *run(void *arg)
{
    struct work *w = arg;

    while (!w->p->is_over) {
        struct pollfd fds[1 + 2 * CONNECTIONS_MAX] = {{.fd = w->listen_fd, .events = POLLIN}};

        for (int i = 0; i < 2 * CONNECTIONS_MAX; i++)
            fds[1 + i] = (struct pollfd){.fd = w->p->stalls >> (i % 2) & 1 ? -1 : w->c[i / 2].fd[i % 2],
                                         .events = POLLIN};
        if (poll(fds, sizeof fds / sizeof *fds, 20) <= 0)
            continue;
        for (int i = 0; i < 2 * CONNECTIONS_MAX; i++)
            if (fds[1 + i].revents && w->c[i / 2].fd[0] >= 0)
                pass(w, &w->c[i / 2], i % 2);
        if (fds[0].revents)
            take_caller(w);
    }
    for (int i = 0; i < CONNECTIONS_MAX; i++)
        hang_up(&w->c[i]);
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
    w->to_flip = soon(w, plan->flip_every);
    w->to_cut = soon(w, plan->cut_every);
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
