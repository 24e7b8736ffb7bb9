#include "runner/mesh/tcp/tcp_dial.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "shared/base/address.h"

enum { KEEPALIVE_IDLE_S = 1, KEEPALIVE_EVERY_S = 1, KEEPALIVE_PROBES = 12 };

/* The system's default congestion control; len 0: not known. */
static struct {
    bool is_known;
    char name[16]; /* TCP_CA_NAME_MAX */
    socklen_t len;
} system_default;

/* TCP_NODELAY: small messages are sent at once. Keep-alive probes an idle peer's machine every second, for
 * tcp_link_silence; the kernel's own timeout (KEEPALIVE_PROBES) is later than the mesh's. SO_SNDBUF and
 * SO_RCVBUF are not set: that would disable the kernel's auto-tuning, which is within 5 % of the best. */
static void tune(int fd)
{
    const int on = 1, idle = KEEPALIVE_IDLE_S, every = KEEPALIVE_EVERY_S, probes = KEEPALIVE_PROBES;

    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &every, sizeof every);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
}

void tcp_learn_system(void)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    system_default.is_known = true;
    system_default.len = sizeof system_default.name;
    if (fd < 0 || getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, system_default.name, &system_default.len) < 0)
        system_default.len = 0;
    if (fd >= 0)
        close(fd);
}

/* Between two processes of one machine no packets are lost, and pacing (BBR) only slows: cubic is three
 * times as fast there, if it is set before connecting. So the listening socket has it too (see the agent),
 * and a connection accepted from another machine is reset to the system's default. */
static void choose_congestion(int fd, bool is_local)
{
    if (is_local) {
        setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "cubic", 5);
        return;
    }
    if (!system_default.is_known)
        tcp_learn_system();
    setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, system_default.name, system_default.len);
}

void tcp_tune_accepted(int fd, bool is_local)
{
    tune(fd);
    if (!is_local)
        choose_congestion(fd, false);
}

static bool is_loopback(const struct sockaddr_storage *a)
{
    return address_is_loopback((const struct sockaddr *)a);
}

bool tcp_is_one_machine(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
    return address_is_same(a, b) || (is_loopback(a) && is_loopback(b));
}

/* The kernel chooses the destination as source address exactly when it is an address of this machine. */
static bool is_local(const struct tcp_place *p)
{
    struct sockaddr_storage from = {0};
    socklen_t len = sizeof from;
    bool is_same = false;
    int fd;

    if (is_loopback(&p->at))
        return true;
    fd = socket(p->at.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return false;
    if (connect(fd, (const struct sockaddr *)&p->at, p->len) == 0 &&
        getsockname(fd, (struct sockaddr *)&from, &len) == 0)
        is_same = address_is_same(&from, &p->at);
    close(fd);
    return is_same;
}

int tcp_find(struct tcp_places *out, int node, const char *host, int port, struct err *e)
{
    struct addresses found;
    int rc = address_find(&found, host, port);

    if (rc != 0)
        return err_set(e, ERR_LOST, "node %d at %s: %s", node, host, gai_strerror(rc));
    *out = (struct tcp_places){.n = (uint32_t)found.n};
    for (uint32_t i = 0; i < out->n; i++) {
        struct tcp_place *p = &out->at[i];

        *p = (struct tcp_place){.at = found.of[i].at, .len = found.of[i].len, .index = i};
        p->is_local = is_local(p);
    }
    return 0;
}

int tcp_dial(const struct tcp_place *p)
{
    int fd = socket(p->at.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int why;

    if (fd < 0)
        return -1;
    tune(fd);
    if (p->is_local)
        choose_congestion(fd, true);
    if (connect(fd, (const struct sockaddr *)&p->at, p->len) == 0 || errno == EINPROGRESS)
        return fd;
    why = errno;
    close(fd);
    errno = why;
    return -1;
}
