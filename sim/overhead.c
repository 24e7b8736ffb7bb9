#include "sim/overhead.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/runner/collective.h"
#include "shared/clock.h"
#include "shared/crc32c.h"

/* Any user of this machine can connect to a listening socket: it is who has our port that counts. */
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

/* A socket as a runner's between two processes of one machine (agent/runner/tcp_link.c). */
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

int sim_self_open(struct sim_self *s, struct err *e)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}, own;
    int listener = open_socket();

    s->out = open_socket();
    s->in = -1;
    if (listener >= 0 && s->out >= 0 && bind(listener, (struct sockaddr *)&at, sizeof at) == 0 &&
        listen(listener, 1) == 0 && port_of(listener, &at) == 0 &&
        connect(s->out, (struct sockaddr *)&at, sizeof at) == 0 && port_of(s->out, &own) == 0)
        s->in = take_own(listener, own.sin_port);
    if (s->in < 0)
        err_errno(e, ERR_IO, "no connection of this machine with itself to measure messages with");
    if (listener >= 0)
        close(listener);
    if (s->in >= 0)
        return 0;
    sim_self_close(s);
    return err_hint(e, "--overhead says what a message takes, and any,0s that it takes nothing.");
}

void sim_self_close(struct sim_self *s)
{
    if (s->out >= 0)
        close(s->out);
    if (s->in >= 0)
        close(s->in);
    *s = (struct sim_self){-1, -1};
}

static bool has_failed(ssize_t n)
{
    return n < 0 && errno != EAGAIN && errno != EINTR;
}

/* In turns of as much as a runner hands over at once. */
static int copy(const struct sim_self *s, const unsigned char *from, unsigned char *to, size_t len,
                struct err *e)
{
    size_t sent = 0, heard = 0;

    while (heard < len) {
        size_t turn = len - sent < COLLECTIVE_PIECE ? len - sent : COLLECTIVE_PIECE;
        ssize_t n = send(s->out, from + sent, turn, MSG_DONTWAIT | MSG_NOSIGNAL);

        if (has_failed(n))
            return err_errno(e, ERR_IO, "sending a message to this process");
        sent += n > 0 ? (size_t)n : 0;
        n = recv(s->in, to + heard, sent - heard, MSG_DONTWAIT);
        if (has_failed(n))
            return err_errno(e, ERR_IO, "receiving a message of this process");
        heard += n > 0 ? (size_t)n : 0;
    }
    return 0;
}

int sim_self_send(const struct sim_self *s, const void *from, void *to, size_t len, double *seconds,
                  struct err *e)
{
    double begun = clock_now();
    uint32_t crc = crc32c(from, len);

    if (copy(s, from, to, len, e) < 0)
        return e->code;
    if (crc32c(to, len) != crc)
        return err_set(e, ERR_IO, "a message of this process to itself came otherwise than it was sent");
    *seconds = clock_now() - begun;
    return 0;
}
