#include "agent/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "shared/address.h"

void address_host(char *out, size_t size, const struct sockaddr *a)
{
    const void *bytes = a->sa_family == AF_INET
                            ? (const void *)&((const struct sockaddr_in *)(const void *)a)->sin_addr
                            : (const void *)&((const struct sockaddr_in6 *)(const void *)a)->sin6_addr;

    if ((a->sa_family != AF_INET && a->sa_family != AF_INET6) ||
        !inet_ntop(a->sa_family, bytes, out, (socklen_t)size))
        out[0] = '\0';
}

int address_port(const struct sockaddr_storage *a)
{
    return ntohs(a->ss_family == AF_INET6 ? ((const struct sockaddr_in6 *)(const void *)a)->sin6_port
                                          : ((const struct sockaddr_in *)(const void *)a)->sin_port);
}

static int may_listen(const struct listener *l, const struct agent_options *opt, struct err *e)
{
    if (l->is_loopback || !opt->no_token)
        return 0;
    err_set(e, ERR_AUTH,
            "--no-token is allowed on loopback addresses only: on %s any host could run code here", l->host);
    return err_hint(e, "Leave --no-token out.");
}

static int bind_and_listen(struct listener *l, struct err *e)
{
    int on = 1;

    l->fd = socket(l->at.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (l->fd < 0)
        return err_errno(e, ERR_IO, "socket");
    setsockopt(l->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(l->fd, (struct sockaddr *)&l->at, l->len) < 0 || listen(l->fd, SOMAXCONN) < 0) {
        bool in_use = errno == EADDRINUSE;

        err_errno(e, ERR_IO, "cannot listen on %s port %d", l->host, l->port);
        if (in_use)
            err_hint(e,
                     "Another program, perhaps another agent, uses port %d: stop it, or choose another with "
                     "--port.",
                     l->port);
        close(l->fd);
        return e->code;
    }
    return 0;
}

static int resolve(struct sockaddr_storage *at, socklen_t *len, const char *option, const char *host,
                   int port, struct err *e)
{
    struct addrinfo want = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    char text[8];
    int rc;

    snprintf(text, sizeof text, "%d", port);
    rc = getaddrinfo(host, text, &want, &found);
    if (rc != 0)
        return err_set(e, ERR_USAGE, "%s %s: %s", option, host, gai_strerror(rc));
    memcpy(at, found->ai_addr, found->ai_addrlen);
    *len = found->ai_addrlen;
    freeaddrinfo(found);
    return 0;
}

int data_address_find(struct data_address *out, const struct agent_options *opt, struct err *e)
{
    const char *option = opt->data_bind[0] ? "--data-bind" : "--bind";
    const char *host = opt->data_bind[0] ? opt->data_bind : opt->bind;
    struct data_address d = {0};
    int fd, rc = 0;

    if (resolve(&d.at, &d.len, option, host, 0, e) < 0)
        return e->code;
    fd = socket(d.at.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&d.at, d.len) < 0)
        rc = err_errno(e, ERR_IO, "%s %s", option, host);
    if (fd >= 0)
        close(fd);
    if (rc == 0)
        *out = d;
    return rc;
}

int listener_open(struct listener *out, const struct agent_options *opt, struct err *e)
{
    struct listener l = {.port = opt->port};

    if (resolve(&l.at, &l.len, "--bind", opt->bind, opt->port, e) < 0)
        return e->code;
    address_host(l.host, sizeof l.host, (struct sockaddr *)&l.at);
    l.is_loopback = address_is_loopback((const struct sockaddr *)&l.at);
    l.is_any = strcmp(l.host, "0.0.0.0") == 0 || strcmp(l.host, "::") == 0;
    l.allows_plain = opt->insecure_no_tls || (l.is_loopback && !opt->tls);
    if (may_listen(&l, opt, e) < 0 || bind_and_listen(&l, e) < 0)
        return e->code;
    getsockname(l.fd, (struct sockaddr *)&l.at, &l.len);
    l.port = address_port(&l.at);
    snprintf(l.address, sizeof l.address, l.at.ss_family == AF_INET6 ? "[%s]:%d" : "%s:%d", l.host, l.port);
    *out = l;
    return 0;
}
