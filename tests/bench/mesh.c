/* Two nodes on two cores, linked by mesh_tcp on this machine: how long a message takes one way, and how
 * long both take to send each other as much at once. Prints CSV: size_bytes,one_way_us,two_way_us (the best
 * of forty batches each). Vectors travel as collectives send them: views, in pieces of at most 256 KiB. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/runner/mesh_tcp.h"
#include "shared/clock.h"

enum { PIECE = 1 << 18, LONGEST = 1 << 24, BATCHES = 40 };

static unsigned char out[LONGEST], in[LONGEST];
static const volatile sig_atomic_t never = 0;

static void must(int rc, const struct err *e)
{
    if (rc < 0) {
        fprintf(stderr, "mesh bench: %s\n", e->text);
        exit(1);
    }
}

static enum mesh_where place(void *owner, const struct mesh_head *h, size_t len, void **at)
{
    (void)owner;
    if (h->round * PIECE + len > LONGEST)
        return MESH_WRONG;
    *at = in + h->round * PIECE;
    return MESH_HERE;
}

static void say(struct mesh *m, int to, size_t size)
{
    struct mesh_head h = {.kind = FRAME_PIECE, .peer = to};
    struct err e = {0};

    for (size_t at = 0; at < size; at += PIECE, h.round++)
        must(mesh_send_view(m, &h, out + at, size - at < PIECE ? size - at : PIECE, &e), &e);
}

static void hear(struct mesh *m, size_t size)
{
    struct mesh_event ev;
    struct err e = {0};

    for (size_t n = (size + PIECE - 1) / PIECE; n > 0;) {
        must(mesh_poll(m, &ev, clock_now() + 10, &e), &e);
        if (ev.kind == MESH_MESSAGE) {
            n--;
        } else if (ev.kind != MESH_NOTHING) {
            fprintf(stderr, "mesh bench: the peer is gone: %s\n", ev.why);
            exit(1);
        }
    }
}

/* Seconds each of n takes, at the best. */
static double measure(struct mesh *m, int me, size_t size, int n, int both)
{
    double best = 1e9;

    for (int k = 0; k < BATCHES; k++) {
        double start = clock_now(), took;

        for (int i = 0; i < n; i++) {
            if (me == 0 || both)
                say(m, !me, size);
            hear(m, size);
            if (me == 1 && !both)
                say(m, 0, size);
        }
        took = (clock_now() - start) / n / (both ? 1 : 2);
        best = took < best ? took : best;
    }
    return best;
}

static void pin(size_t cpu)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    sched_setaffinity(0, sizeof set, &set);
}

static int listen_anywhere(int *port)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "cubic", 5); /* as the agent does */
    if (bind(fd, (struct sockaddr *)&a, len) < 0 || listen(fd, 8) < 0 ||
        getsockname(fd, (struct sockaddr *)&a, &len) < 0) {
        perror("mesh bench");
        exit(1);
    }
    *port = ntohs(a.sin_port);
    return fd;
}

static void run(int me, int listen_fd, int port)
{
    struct mesh_peer peer = {.node = !me, .host = "127.0.0.1", .port = port};
    struct mesh_tcp_config cfg = {.job = "j-bench1",
                                  .attempt = 1,
                                  .node = me,
                                  .listen_fd = listen_fd,
                                  .peers = &peer,
                                  .n_peers = 1,
                                  .limit = 4096,
                                  .deadline = clock_now() + 10,
                                  .interrupted = &never};
    struct mesh *m;
    struct err e = {0};

    pin((size_t)me);
    must(mesh_tcp_open(&m, &cfg, &e), &e);
    m->place = place;
    for (size_t size = 64; size <= LONGEST; size *= size < 4096 ? 64 : 4) {
        int n = (int)((1 << 21) / (size + (1 << 15)));
        double one, two;

        n = n < 1 ? 1 : n;
        measure(m, me, size, 2, 0);
        one = measure(m, me, size, n, 0);
        two = measure(m, me, size, n, 1);
        if (me == 0)
            printf("%zu,%.1f,%.1f\n", size, one * 1e6, two * 1e6);
        fflush(stdout);
    }
    mesh_close(m, clock_now() + 1);
}

int main(void)
{
    int port[2], fd[2] = {listen_anywhere(&port[0]), listen_anywhere(&port[1])};
    int status = 0;

    for (size_t i = 0; i < LONGEST; i++)
        out[i] = (unsigned char)(i * 31 + i / 4096);
    puts("size_bytes,one_way_us,two_way_us");
    fflush(stdout);
    if (fork() == 0) {
        close(fd[0]);
        run(1, fd[1], port[0]);
        _exit(0);
    }
    close(fd[1]);
    run(0, fd[0], port[1]);
    wait(&status);
    return status != 0;
}
