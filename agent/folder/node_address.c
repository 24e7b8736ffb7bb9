#include "agent/folder/node_address.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "shared/base/address.h"

void node_address_own(char out[NODE_ADDRESS])
{
    struct ifaddrs *all;
    int best = 0;

    out[0] = '\0';
    if (getifaddrs(&all) < 0)
        return;
    for (const struct ifaddrs *a = all; a; a = a->ifa_next) {
        int family = a->ifa_addr && (a->ifa_flags & IFF_UP) ? a->ifa_addr->sa_family : 0;
        int worth = family == AF_INET ? 2 : family == AF_INET6 ? 1 : 0;
        char text[NODE_ADDRESS];

        if (worth <= best || address_is_loopback(a->ifa_addr))
            continue;
        address_host(text, sizeof text, a->ifa_addr);
        if (strncmp(text, "fe80:", 5) == 0)
            continue;
        memcpy(out, text, sizeof text);
        best = worth;
    }
    freeifaddrs(all);
}

/* A kernel without IPv6 may meet a name that has an IPv6 address as well. */
static bool has_ipv6(void)
{
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

/* All addresses of this machine at which the host's can be; "::" accepts connections by IPv4 as well. */
static const char *any_address(const char *host)
{
    struct addresses found;
    bool is_ipv6 = false;

    if (address_find(&found, host, 0) != 0)
        return strchr(host, ':') ? "::" : "0.0.0.0";
    for (size_t i = 0; i < found.n; i++)
        is_ipv6 |= found.of[i].at.ss_family == AF_INET6;
    return is_ipv6 && has_ipv6() ? "::" : "0.0.0.0";
}

int node_address_listen(struct node_process *f, struct err *e)
{
    const char *at = f->meet.is_on_one_machine && !f->opt.host[0]
                         ? "127.0.0.1"
                         : any_address(f->meet.members[f->rank].host);
    struct addresses found;

    if (address_find(&found, at, 0) != 0 || found.n == 0)
        return err_set(e, ERR_IO, "%s: no address to listen at", at);
    f->jobs.data = found.of[0];
    return 0;
}
