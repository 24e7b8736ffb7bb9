#include "shared/base/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const struct addrinfo *of_family(const struct addrinfo *a, int family)
{
    while (a && a->ai_family != family)
        a = a->ai_next;
    return a;
}

static const struct addrinfo *of_other_family(const struct addrinfo *a, int family)
{
    while (a && a->ai_family == family)
        a = a->ai_next;
    return a;
}

/* Appends an address that is not in the list yet: /etc/hosts may have a line twice. */
static void add_address(struct addresses *all, const struct addrinfo *a)
{
    struct address new = {.len = a->ai_addrlen};

    if (all->n == ADDRESSES_MAX || a->ai_addrlen > sizeof new.at)
        return;
    memcpy(&new.at, a->ai_addr, a->ai_addrlen);
    for (size_t i = 0; i < all->n; i++)
        if (all->of[i].len == new.len && memcmp(&all->of[i].at, &new.at, new.len) == 0)
            return;
    all->of[all->n++] = new;
}

int address_find(struct addresses *out, const char *host, int port)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    const struct addrinfo *next[2];
    struct addrinfo *found;
    char service[8];
    int rc;

    snprintf(service, sizeof service, "%d", port);
    rc = getaddrinfo(host, service, &hints, &found);
    if (rc != 0)
        return rc;
    *out = (struct addresses){0};
    next[0] = found;
    next[1] = of_other_family(found, found->ai_family);
    for (int turn = 0; next[0] || next[1]; turn = !turn) {
        const struct addrinfo *a = next[turn];

        if (!a)
            continue;
        add_address(out, a);
        next[turn] = of_family(a->ai_next, a->ai_family);
    }
    freeaddrinfo(found);
    return 0;
}

void address_text(char out[ADDRESS_TEXT], const struct sockaddr_storage *a)
{
    socklen_t len = a->ss_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);

    if (getnameinfo((const struct sockaddr *)a, len, out, ADDRESS_TEXT, NULL, 0, NI_NUMERICHOST) != 0)
        snprintf(out, ADDRESS_TEXT, "an address of family %d", a->ss_family);
}

void address_host(char *out, size_t size, const struct sockaddr *a)
{
    const void *bytes = a->sa_family == AF_INET
                            ? (const void *)&((const struct sockaddr_in *)(const void *)a)->sin_addr
                            : (const void *)&((const struct sockaddr_in6 *)(const void *)a)->sin6_addr;

    if ((a->sa_family != AF_INET && a->sa_family != AF_INET6) ||
        !inet_ntop(a->sa_family, bytes, out, (socklen_t)size))
        out[0] = '\0';
}

bool address_is_same(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
    const struct sockaddr_in *a4 = (const void *)a, *b4 = (const void *)b;
    const struct sockaddr_in6 *a6 = (const void *)a, *b6 = (const void *)b;

    if (a->ss_family != b->ss_family)
        return false;
    return a->ss_family == AF_INET ? a4->sin_addr.s_addr == b4->sin_addr.s_addr
                                   : memcmp(&a6->sin6_addr, &b6->sin6_addr, sizeof a6->sin6_addr) == 0;
}

bool address_is_loopback(const struct sockaddr *a)
{
    if (a->sa_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)(const void *)a)->sin_addr.s_addr) >> 24 == 127;
    if (a->sa_family == AF_INET6) {
        const struct in6_addr *v6 = &((const struct sockaddr_in6 *)(const void *)a)->sin6_addr;

        return IN6_IS_ADDR_LOOPBACK(v6) || (IN6_IS_ADDR_V4MAPPED(v6) && v6->s6_addr[12] == 127);
    }
    return false;
}

int address_port(const struct sockaddr_storage *a)
{
    return ntohs(a->ss_family == AF_INET6 ? ((const struct sockaddr_in6 *)(const void *)a)->sin6_port
                                          : ((const struct sockaddr_in *)(const void *)a)->sin_port);
}

int address_listen(struct address *a)
{
    int fd = socket(a->at.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), on = 1, why;

    if (fd < 0)
        return -1;
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
        bind(fd, (struct sockaddr *)&a->at, a->len) == 0 && listen(fd, SOMAXCONN) == 0 &&
        getsockname(fd, (struct sockaddr *)&a->at, &a->len) == 0)
        return fd;
    why = errno;
    close(fd);
    errno = why;
    return -1;
}
