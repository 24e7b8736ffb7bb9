#include "shared/base/fd_pass.h"

#include <string.h>
#include <sys/socket.h>

union control {
    struct cmsghdr head;
    char room[CMSG_SPACE(sizeof(int))];
};

ssize_t fd_pass_send(int socket, const void *packet, size_t len, int fd, int flags)
{
    union control control = {0};
    struct iovec v = {.iov_base = (void *)(size_t)packet, .iov_len = len};
    struct msghdr h = {.msg_iov = &v, .msg_iovlen = 1};

    if (fd >= 0) {
        h.msg_control = &control;
        h.msg_controllen = CMSG_LEN(sizeof fd);
        control.head = (struct cmsghdr){
            .cmsg_len = CMSG_LEN(sizeof fd), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
        memcpy(CMSG_DATA(&control.head), &fd, sizeof fd);
    }
    return sendmsg(socket, &h, flags | MSG_NOSIGNAL);
}

ssize_t fd_pass_receive(int socket, void *packet, size_t size, int *fd, int flags)
{
    union control control = {0};
    struct iovec v = {.iov_base = packet, .iov_len = size};
    /* CMSG_LEN: room for exactly one descriptor. CMSG_SPACE would have room for two, and the kernel would
     * fill it. */
    struct msghdr h = {
        .msg_iov = &v, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = CMSG_LEN(sizeof *fd)};
    ssize_t n = recvmsg(socket, &h, flags | MSG_CMSG_CLOEXEC);

    *fd = -1;
    if (n < 0)
        return n;
    if (CMSG_FIRSTHDR(&h) && control.head.cmsg_level == SOL_SOCKET && control.head.cmsg_type == SCM_RIGHTS &&
        control.head.cmsg_len == CMSG_LEN(sizeof *fd))
        memcpy(fd, CMSG_DATA(&control.head), sizeof *fd);
    return h.msg_flags & MSG_TRUNC ? (ssize_t)size + 1 : n;
}
