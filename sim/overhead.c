#include "sim/overhead.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runner/collective/collective.h"
#include "shared/base/clock.h"
#include "shared/base/crc32c.h"

/* Any user of this machine can connect to a listening socket: accepts only the connection from our port. */
static int take_own(int listener, int port)
{
    struct sockaddr_in from = {0};
    socklen_t len = sizeof from;
    int fd;

    while ((fd = accept4(listener, (struct sockaddr *)&from, &len, SOCK_CLOEXEC)) >= 0 &&
           from.sin_port != port)
        close(fd);
    return fd;
}

/* Opens a socket with the options that a runner uses within a machine (runner/mesh/tcp/tcp_link.c). */
static int open_socket(void)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "cubic", 5);
    return fd;
}

static int port_of(int fd, struct sockaddr_in *at)
{
    socklen_t len = sizeof *at;

    return getsockname(fd, (struct sockaddr *)at, &len);
}

/* w->out leads to w->in. */
static int connect_self(struct sim_wire *w, struct err *e)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}, own;
    int listener = open_socket();

    *w = (struct sim_wire){.out = open_socket(), .in = -1};
    if (listener >= 0 && w->out >= 0 && bind(listener, (struct sockaddr *)&at, sizeof at) == 0 &&
        listen(listener, 1) == 0 && port_of(listener, &at) == 0 &&
        connect(w->out, (struct sockaddr *)&at, sizeof at) == 0 && port_of(w->out, &own) == 0)
        w->in = take_own(listener, own.sin_port);
    if (w->in < 0)
        err_errno(e, ERR_IO, "no loopback connection to measure messages with");
    if (listener >= 0)
        close(listener);
    if (w->in >= 0)
        return 0;
    sim_wire_close(w);
    return err_hint(e, "Set the time of a message with --overhead; any,0s is none.");
}

int sim_ring_open(struct sim_wire *wires, int n, struct err *e)
{
    int last;

    for (int k = 0; k < n; k++)
        if (connect_self(&wires[k], e) < 0) {
            while (k > 0)
                sim_wire_close(&wires[--k]);
            return e->code;
        }
    last = wires[n - 1].in;
    for (int k = n - 1; k > 0; k--)
        wires[k].in = wires[k - 1].in;
    wires[0].in = last;
    return 0;
}

void sim_wire_close(struct sim_wire *w)
{
    if (w->out >= 0)
        close(w->out);
    if (w->in >= 0)
        close(w->in);
    *w = SIM_NO_WIRE;
}

/* Returns the bytes moved by a call; -1: the connection has failed. */
static ssize_t moved(ssize_t n)
{
    return n >= 0 ? n : errno == EAGAIN || errno == EINTR ? 0 : -1;
}

/* Copies portions of the size that a runner passes to the kernel at once. */
static int copy_message(const struct sim_wire *w, const unsigned char *from, unsigned char *to, size_t len,
                        struct err *e)
{
    size_t sent = 0, received = 0;

    while (sent < len || received < len) {
        size_t turn = len - sent < COLLECTIVE_CHUNK ? len - sent : COLLECTIVE_CHUNK;
        ssize_t out = turn > 0 ? moved(send(w->out, from + sent, turn, MSG_DONTWAIT | MSG_NOSIGNAL)) : 0;
        ssize_t in = received < len ? recv(w->in, to + received, len - received, MSG_DONTWAIT) : -2;

        if (in == 0 || (in != -2 && moved(in) < 0) || out < 0)
            return err_errno(e, ERR_IO, "a message over loopback");
        sent += (size_t)out;
        received += in > 0 ? (size_t)in : 0;
        if (out == 0 && in <= 0)
            sched_yield();
    }
    return 0;
}

int sim_wire_exchange(const struct sim_wire *w, const void *from, void *to, size_t len, double *seconds,
                      struct err *e)
{
    double begun = clock_now();

    crc32c(from, len); /* only for its time */
    if (copy_message(w, from, to, len, e) < 0)
        return e->code;
    crc32c(to, len);
    *seconds = clock_now() - begun;
    return 0;
}
