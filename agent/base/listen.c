#include "agent/base/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int may_listen(const struct listener *l, const struct agent_options *opt, struct err *e)
{
    if (l->is_loopback || !opt->no_token)
        return 0;
    err_set(e, ERR_AUTH,
            "--no-token is allowed on loopback addresses only: on %s any host could run code here", l->host);
    return err_hint(e, "Leave --no-token out.");
}

static int open_socket(struct listener *l, struct err *e)
{
    bool in_use;

    l->fd = address_listen(&l->at);
    if (l->fd >= 0)
        return 0;
    in_use = errno == EADDRINUSE;
    err_errno(e, ERR_IO, "cannot listen on %s port %d", l->host, l->port);
    if (in_use)
        err_hint(e,
                 "Another program, perhaps another agent, uses port %d: stop it, or choose another with "
                 "--port.",
                 l->port);
    return e->code;
}

static int bind_shortly(const struct address *a)
{
    int fd = socket(a->at.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int error = fd < 0 || bind(fd, (const struct sockaddr *)&a->at, a->len) < 0 ? errno : 0;

    if (fd >= 0)
        close(fd);
    return error;
}

/* The first address of a name that this machine has: localhost is ::1 and 127.0.0.1 also without IPv6. */
static int find_own(struct address *out, const char *option, const char *host, struct err *e)
{
    struct addresses found;
    int error = 0, rc = address_find(&found, host, 0);

    if (rc != 0)
        return err_set(e, ERR_USAGE, "%s %s: %s", option, host, gai_strerror(rc));
    for (size_t i = 0; i < found.n; i++) {
        error = bind_shortly(&found.of[i]);
        if (error == 0) {
            *out = found.of[i];
            return 0;
        }
        if (error != EADDRNOTAVAIL && error != EAFNOSUPPORT)
            break;
    }
    errno = error;
    return err_errno(e, ERR_IO, "%s %s", option, host);
}

int data_address_find(struct address *out, const struct agent_options *opt, struct err *e)
{
    return opt->data_bind[0] ? find_own(out, "--data-bind", opt->data_bind, e)
                             : find_own(out, "--bind", opt->bind, e);
}

static void set_port(struct sockaddr_storage *a, int port)
{
    if (a->ss_family == AF_INET6)
        ((struct sockaddr_in6 *)(void *)a)->sin6_port = htons((uint16_t)port);
    else
        ((struct sockaddr_in *)(void *)a)->sin_port = htons((uint16_t)port);
}

int listener_open(struct listener *out, const struct agent_options *opt, struct err *e)
{
    struct listener l = {.port = opt->port};

    if (find_own(&l.at, "--bind", opt->bind, e) < 0)
        return e->code;
    set_port(&l.at.at, opt->port);
    address_host(l.host, sizeof l.host, (struct sockaddr *)&l.at.at);
    l.is_loopback = address_is_loopback((const struct sockaddr *)&l.at.at);
    l.is_any = strcmp(l.host, "0.0.0.0") == 0 || strcmp(l.host, "::") == 0;
    l.allows_plain = opt->insecure_no_tls || (l.is_loopback && !opt->tls);
    if (may_listen(&l, opt, e) < 0 || open_socket(&l, e) < 0)
        return e->code;
    l.port = address_port(&l.at.at);
    snprintf(l.address, sizeof l.address, l.at.at.ss_family == AF_INET6 ? "[%s]:%d" : "%s:%d", l.host,
             l.port);
    *out = l;
    return 0;
}
