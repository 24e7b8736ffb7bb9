/* monitor_wire -- what a job process and its monitor send each other over a socket pair of packets
 * (SOCK_SEQPACKET): one request, then one reply. Both are one program on one machine, so a record is a
 * struct; the monitor trusts no byte of it. */
#ifndef PSGD_MONITOR_WIRE_H
#define PSGD_MONITOR_WIRE_H

#include <stddef.h>
#include <stdint.h>

enum monitor_ask {
    MONITOR_WATCH = 1, /* watch the calls of codec `name`, which may take `seconds` each; once */
    N_MONITOR_ASKS
};

enum { MONITOR_NAME_MAX = 64 };

/* Members that an ask does not mention are zero. */
struct monitor_request {
    uint32_t ask;
    int32_t node;
    double seconds;
    char name[MONITOR_NAME_MAX]; /* zero-terminated, and zero to its end */
};

struct monitor_reply {
    int32_t code; /* 0: done; else an errno */
};

/* Checks a packet of the job process. Returns 0, or EPROTO: *out is unchanged. */
int monitor_request_parse(struct monitor_request *out, const void *packet, size_t len);

#endif
