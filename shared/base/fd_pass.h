/* fd_pass -- packets over a Unix socket (SOCK_SEQPACKET) that may carry one file descriptor. Neither call
 * raises SIGPIPE. `flags`: MSG_DONTWAIT, with which the call does not wait, or 0. */
#ifndef PSGD_FD_PASS_H
#define PSGD_FD_PASS_H

#include <stddef.h>
#include <sys/types.h>

/* Sends one packet; `fd` -1: without a descriptor. Returns as send(2). */
ssize_t fd_pass_send(int socket, const void *packet, size_t len, int fd, int flags);

/* Receives one packet. *fd is its descriptor, close-on-exec, or -1; the caller closes it, whatever the
 * packet is. Of several descriptors in one packet the kernel closes all but the first. Returns as
 * recv(2), and `size` + 1 for a packet longer than `size`. */
ssize_t fd_pass_receive(int socket, void *packet, size_t size, int *fd, int flags);

#endif
