#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/socket.h>

#include "agent/runner/monitor/monitor_state.h"

static bool is_zero_from(const char *name, size_t i)
{
    while (i < MONITOR_NAME_MAX && name[i] == '\0')
        i++;
    return i == MONITOR_NAME_MAX;
}

static bool is_name(const char *name)
{
    size_t n = 0;

    while (n < MONITOR_NAME_MAX && name[n] > ' ' && name[n] <= '~')
        n++;
    return n > 0 && n < MONITOR_NAME_MAX && is_zero_from(name, n);
}

static bool is_watch(const struct monitor_request *r)
{
    return is_name(r->name) && isfinite(r->seconds) && r->seconds > 0 && r->node == 0;
}

/* A codec that is loaded cannot change what its monitor was told before. */
static int do_watch(struct monitor_state *m, const struct monitor_request *r)
{
    if (m->call_limit_s > 0)
        return EALREADY;
    memcpy(m->codec, r->name, sizeof m->codec);
    m->call_limit_s = r->seconds;
    return 0;
}

static const struct {
    bool (*is_valid)(const struct monitor_request *);
    int (*run)(struct monitor_state *, const struct monitor_request *);
} asks[N_MONITOR_ASKS] = {
    [MONITOR_WATCH] = {is_watch, do_watch},
};

int monitor_request_parse(struct monitor_request *out, const void *packet, size_t len)
{
    struct monitor_request r;

    if (len != sizeof r)
        return EPROTO;
    memcpy(&r, packet, sizeof r);
    if (r.ask >= N_MONITOR_ASKS || !asks[r.ask].is_valid || !asks[r.ask].is_valid(&r))
        return EPROTO;
    *out = r;
    return 0;
}

int monitor_do(struct monitor_state *m, const struct monitor_request *r)
{
    return asks[r->ask].run(m, r);
}

bool monitor_answer(struct monitor_state *m)
{
    char packet[sizeof(struct monitor_request) + 1]; /* one more: a longer packet is noticed */
    ssize_t n = recv(m->request_fd, packet, sizeof packet, MSG_DONTWAIT);
    struct monitor_request request;
    struct monitor_reply reply = {0};

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return true;
    if (n <= 0 || monitor_request_parse(&request, packet, (size_t)n) != 0)
        return false;
    reply.code = monitor_do(m, &request);
    return send(m->request_fd, &reply, sizeof reply, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)sizeof reply;
}
