/* Acts on the network: sockets of all kinds, and other uses of a data socket. */
#include <linux/filter.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include "acts.h"

static int has_socket(int family, int type, int protocol)
{
    int fd = socket(family, type, protocol);

    return fd < 0 ? errno : close(fd);
}
static int net_link(void)
{
    return has_socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);
}
static int net_tcp(void)
{
    return has_socket(AF_INET, SOCK_STREAM, 0);
}
static int net_tcp6(void)
{
    return has_socket(AF_INET6, SOCK_STREAM, 0);
}
static int net_udp(void)
{
    return has_socket(AF_INET, SOCK_DGRAM, 0);
}
static int net_packets(void)
{
    return has_socket(AF_UNIX, SOCK_SEQPACKET, 0);
}

enum { DATA_FD = 4 }; /* the data socket, which listens */

/* A port of this machine. */
static const struct sockaddr_in elsewhere = {
    .sin_family = AF_INET, .sin_port = 256 /* 1 */, .sin_addr.s_addr = 0x0100007f /* 127.0.0.1 */};
static struct iovec one_byte = {(void *)(uintptr_t) "x", 1};
static const struct msghdr to_elsewhere = {.msg_name = (void *)(uintptr_t)&elsewhere,
                                           .msg_namelen = sizeof elsewhere,
                                           .msg_iov = &one_byte,
                                           .msg_iovlen = 1};

/* By each socket that is open. Any error but EPERM comes from a socket that has tried. */
static int by_any_socket(long (*call)(int fd))
{
    int rc = EPERM;

    for (int fd = 3; fd < 64; fd++)
        if (call(fd) >= 0 || (errno != EPERM && errno != EBADF && errno != ENOTSOCK))
            rc = 0;
    return rc;
}
static long connect_to(int fd)
{
    return connect(fd, (const struct sockaddr *)&elsewhere, sizeof elsewhere);
}
static int net_elsewhere(void)
{
    return by_any_socket(connect_to);
}
/* Data with a connection's first packet, tcp(7), from a socket that is not connected: the data socket after
 * shutdown(), or one of a connection that has failed. */
static long send_fast(int fd)
{
    return sendto(fd, "x", 1, MSG_FASTOPEN | MSG_NOSIGNAL, (const struct sockaddr *)&elsewhere,
                  sizeof elsewhere);
}
static int net_fast(void)
{
    return by_any_socket(send_fast);
}
static long send_fast_message(int fd)
{
    return sendmsg(fd, &to_elsewhere, MSG_FASTOPEN | MSG_NOSIGNAL);
}
static int net_fast_message(void)
{
    return by_any_socket(send_fast_message);
}
static long send_fast_messages(int fd)
{
    struct mmsghdr m[1] = {{.msg_hdr = to_elsewhere}};

    return sendmmsg(fd, m, 1, MSG_FASTOPEN | MSG_NOSIGNAL);
}
static int net_fast_messages(void)
{
    return by_any_socket(send_fast_messages);
}
/* The kernel ignores the upper half of the register that holds the flags. */
static long send_fast_wide(int fd)
{
    return syscall(SYS_sendto, fd, "x", 1, 1L << 40 | MSG_FASTOPEN | MSG_NOSIGNAL, &elsewhere,
                   sizeof elsewhere);
}
static int net_fast_wide(void)
{
    return by_any_socket(send_fast_wide);
}
static long send_message_wide(int fd)
{
    return syscall(SYS_sendmsg, fd, &to_elsewhere, 1L << 40 | MSG_FASTOPEN | MSG_NOSIGNAL);
}
static int net_fast_message_wide(void)
{
    return by_any_socket(send_message_wide);
}
static long send_to(int fd)
{
    return sendto(fd, "x", 1, MSG_NOSIGNAL, (const struct sockaddr *)&elsewhere, sizeof elsewhere);
}
static int net_address(void)
{
    return by_any_socket(send_to);
}
/* As connect() to no address does it. */
static long disconnect(int fd)
{
    const struct sockaddr none = {.sa_family = AF_UNSPEC};

    return connect(fd, &none, sizeof none);
}
static int net_disconnect(void)
{
    return by_any_socket(disconnect);
}
static int net_shutdown(void)
{
    return result(shutdown(DATA_FD, SHUT_RDWR));
}
static int sets(int level, int option, const void *value, socklen_t size)
{
    return result(setsockopt(DATA_FD, level, option, value, size));
}
static int net_filter(void)
{
    struct sock_filter all[] = {BPF_STMT(BPF_RET | BPF_K, 0xffff)};
    const struct sock_fprog program = {1, all};

    return sets(SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program);
}
static int net_filter_port(void)
{
    struct sock_filter first[] = {BPF_STMT(BPF_RET | BPF_K, 0)};
    const struct sock_fprog program = {1, first};

    return sets(SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program, sizeof program);
}
static int net_fast_connect(void)
{
    const int on = 1;

    return sets(IPPROTO_TCP, TCP_FASTOPEN_CONNECT, &on, sizeof on);
}
static int net_repair(void)
{
    const int on = 1;

    return sets(IPPROTO_TCP, TCP_REPAIR, &on, sizeof on);
}
static int net_protocol(void)
{
    return sets(IPPROTO_TCP, TCP_ULP, "tls", sizeof "tls");
}
static int net_device(void)
{
    return sets(SOL_SOCKET, SO_BINDTODEVICE, "lo", sizeof "lo");
}
static int net_buffer(void)
{
    const int bytes = 64 << 20;

    return sets(SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
}
static int net_bind(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

    return result(bind(DATA_FD, (struct sockaddr *)&at, sizeof at));
}
static int net_listen(void)
{
    return result(listen(DATA_FD, 1));
}
static int net_raw(void)
{
    return has_socket(AF_INET, SOCK_RAW, IPPROTO_ICMP);
}
static int net_packet(void)
{
    return has_socket(AF_PACKET, SOCK_RAW, 0);
}
static int net_vsock(void)
{
    return has_socket(AF_VSOCK, SOCK_STREAM, 0);
}
static int net_unix(void)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX, .sun_path = "/run/systemd/private"};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0), why;

    if (fd < 0)
        return errno;
    why = result(connect(fd, (struct sockaddr *)&at, sizeof at));
    close(fd);
    return why;
}
static int net_pair(void)
{
    int fds[2];

    return result(socketpair(AF_UNIX, SOCK_STREAM, 0, fds));
}

const struct act hostile_network[] = {
    ACT(net_tcp),
    ACT(net_tcp6),
    ACT(net_udp),
    ACT(net_packets),
    ACT(net_elsewhere),
    ACT(net_bind),
    ACT(net_listen),
    ACT(net_link),
    ACT(net_raw),
    ACT(net_packet),
    ACT(net_vsock),
    ACT(net_unix),
    ACT(net_pair),
    ACT(net_fast),
    ACT(net_fast_message),
    ACT(net_fast_messages),
    ACT(net_fast_wide),
    ACT(net_fast_message_wide),
    ACT(net_address),
    ACT(net_disconnect),
    ACT(net_shutdown),
    ACT(net_filter),
    ACT(net_filter_port),
    ACT(net_fast_connect),
    ACT(net_repair),
    ACT(net_protocol),
    ACT(net_device),
    ACT(net_buffer),
    {0},
};
