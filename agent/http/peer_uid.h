/* peer_uid -- whose program is at the other end of a TCP connection within this machine. */
#ifndef PSGD_AGENT_HTTP_PEER_UID_H
#define PSGD_AGENT_HTTP_PEER_UID_H

#include <stdint.h>

/* A socket for the questions to the kernel (sock_diag(7)), which the caller closes; -1: not permitted. */
int peer_uid_open(void);

/* Asks for the socket that this accepted one is connected to: four system calls, so ask only where the answer
 * is needed. Returns UID_UNKNOWN (sources.h) if that process has closed it, if it is in another network
 * namespace, or if diag_fd is -1. */
int64_t peer_uid(int diag_fd, int accepted_fd);

#endif
