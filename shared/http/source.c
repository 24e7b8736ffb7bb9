#include "shared/http/source.h"

#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

void source_of(struct source *out, const struct sockaddr *peer)
{
    *out = (struct source){.uid = UID_UNKNOWN};
    if (peer->sa_family == AF_INET) {
        memset(out->address + 10, 0xff, 2);
        memcpy(out->address + 12, &((const struct sockaddr_in *)(const void *)peer)->sin_addr, 4);
    } else if (peer->sa_family == AF_INET6) {
        const struct in6_addr *v6 = &((const struct sockaddr_in6 *)(const void *)peer)->sin6_addr;

        memcpy(out->address, v6, IN6_IS_ADDR_V4MAPPED(v6) || IN6_IS_ADDR_LOOPBACK(v6) ? 16 : 8);
    }
}

bool source_has_address(const struct source *a, const struct source *b)
{
    return memcmp(a->address, b->address, sizeof a->address) == 0;
}

bool source_is(const struct source *a, const struct source *b)
{
    return source_has_address(a, b) && a->uid == b->uid;
}

struct socket_end {
    uint8_t address[16];
    uint16_t port;
    int family;
};

static bool find_end(struct socket_end *out, int fd, int (*name)(int, struct sockaddr *, socklen_t *))
{
    struct sockaddr_storage at;
    socklen_t len = sizeof at;
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)&at;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)&at;

    *out = (struct socket_end){.family = AF_INET};
    if (name(fd, (struct sockaddr *)&at, &len) < 0)
        return false;
    if (at.ss_family == AF_INET) {
        memcpy(out->address, &v4->sin_addr, 4);
        out->port = v4->sin_port;
    } else if (at.ss_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr)) {
        memcpy(out->address, v6->sin6_addr.s6_addr + 12, 4); /* the other end's own socket is of IPv4 */
        out->port = v6->sin6_port;
    } else if (at.ss_family == AF_INET6) {
        memcpy(out->address, &v6->sin6_addr, 16);
        out->port = v6->sin6_port;
        out->family = AF_INET6;
    } else {
        return false;
    }
    return true;
}

static int64_t ask_kernel(int diag_fd, const struct socket_end *there, const struct socket_end *here)
{
    struct {
        struct nlmsghdr head;
        struct inet_diag_req_v2 body;
    } question = {
        .head = {.nlmsg_len = sizeof question,
                 .nlmsg_type = SOCK_DIAG_BY_FAMILY,
                 .nlmsg_flags = NLM_F_REQUEST},
        .body = {.sdiag_family = (uint8_t)there->family, .sdiag_protocol = IPPROTO_TCP, .idiag_states = ~0u}};
    struct {
        struct nlmsghdr head;
        struct inet_diag_msg body;
        char more[512];
    } answer;
    struct inet_diag_sockid *id = &question.body.id;

    id->idiag_sport = there->port;
    id->idiag_dport = here->port;
    memcpy(id->idiag_src, there->address, sizeof id->idiag_src);
    memcpy(id->idiag_dst, here->address, sizeof id->idiag_dst);
    id->idiag_cookie[0] = id->idiag_cookie[1] = INET_DIAG_NOCOOKIE;
    if (send(diag_fd, &question, sizeof question, 0) < 0 ||
        recv(diag_fd, &answer, sizeof answer, MSG_DONTWAIT) <
            (ssize_t)(sizeof answer.head + sizeof answer.body) ||
        answer.head.nlmsg_type != SOCK_DIAG_BY_FAMILY)
        return UID_UNKNOWN;
    /* The kernel reports a socket that no process has any more as root's. */
    return answer.body.idiag_inode ? (int64_t)answer.body.idiag_uid : UID_UNKNOWN;
}

int source_uid_open(void)
{
    return socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
}

int64_t source_uid(int diag_fd, int accepted_fd)
{
    struct socket_end here, there;

    if (diag_fd < 0 || !find_end(&here, accepted_fd, getsockname) ||
        !find_end(&there, accepted_fd, getpeername))
        return UID_UNKNOWN;
    return ask_kernel(diag_fd, &there, &here);
}
