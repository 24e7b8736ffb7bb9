#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "agent/runner/monitor/monitor.h"
#include "agent/runner/monitor/monitor_wire.h"

static int ask(const struct monitor *m, const struct monitor_request *r, struct monitor_reply *reply,
               struct err *e)
{
    ssize_t n;

    do
        n = send(m->fd, r, sizeof *r, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    while (n > 0 && (n = recv(m->fd, reply, sizeof *reply, 0)) < 0 && errno == EINTR)
        n = 1;
    if (n != (ssize_t)sizeof *reply)
        return err_set(e, ERR_LOST, "this node's monitor process has ended");
    return 0;
}

int monitor_watch(const struct monitor *m, const char *codec, double limit_s, struct err *e)
{
    struct monitor_request r = {.ask = MONITOR_WATCH, .seconds = limit_s};
    struct monitor_reply reply;

    snprintf(r.name, sizeof r.name, "%s", codec);
    for (char *c = r.name; *c; c++) /* it is shown, and only printed */
        if (*c <= ' ' || *c > '~')
            *c = '?';
    if (ask(m, &r, &reply, e) < 0)
        return e->code;
    errno = reply.code;
    return reply.code ? err_errno(e, ERR_IO, "watching codec %s", codec) : 0;
}
