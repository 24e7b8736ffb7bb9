/* monitor_wire -- the requests of a job process to its monitor, and the replies, over a socket pair of
 * packets (SOCK_SEQPACKET): one request, then one reply. Both processes run the same program, so a packet is
 * a struct; the monitor trusts no byte of it. */
#ifndef PSGD_MONITOR_WIRE_H
#define PSGD_MONITOR_WIRE_H

#include <stddef.h>
#include <stdint.h>

#include "runner/mesh/tcp/tcp_dial.h"

enum monitor_ask {
    MONITOR_WATCH = 1, /* watch the calls of codec `name`, which may take `seconds` each; once. `node` is
                        * 1 for an executor, watched between its calls of the host, else 0 */
    MONITOR_FIND,      /* -> places, text: the addresses of peer `node`, from the agent's table */
    MONITOR_DIAL,      /* -> descriptor: a socket on which reports (struct tcp_link_report) arrive about a new
                        * connection to peer `node` at its place `number`; ends an earlier connection to it */
    MONITOR_LISTEN,    /* -> descriptor: a socket that listens at `name`, SHM_NAME_BYTES (shm/shm_source.h) */
    MONITOR_CONNECT,   /* -> descriptor: a socket that is connected to `name` */
    MONITOR_MEMORY,    /* -> descriptor: `number` bytes of memory, whole pages */
    MONITOR_TRAINER,   /* -> descriptor: psgd's end of the socket (shared/trainer/trainer_wire.h) of the job's
                        * training program, which is started; once. text: why it is not */
    MONITOR_TRAINER_EXPLAIN, /* -> text: why the program has ended, or that it still runs */
    MONITOR_TRAINER_RELEASE, /* the program may end now; `number`: 1 if the node has failed */
    MONITOR_TRAINER_END, /* ends the program: SIGTERM after `seconds`, SIGKILL after as long again. Waits for
                          * a second at most; EAGAIN: it still runs */
    N_MONITOR_ASKS
};

enum { MONITOR_NAME_MAX = 64 };

/* Members that an ask does not mention are zero. */
struct monitor_request {
    uint32_t ask;
    int32_t node;
    uint64_t number;
    double seconds;
    char name[MONITOR_NAME_MAX]; /* of a codec: printable, and zeros; of a socket: any bytes, and zeros */
    uint32_t is_probe, tls;      /* of a connection: members of struct tcp_aim */
};

struct monitor_reply { /* with a descriptor if the request has one and code is 0 */
    int32_t code;      /* 0: done; else an errno */
    char text[896];    /* why MONITOR_FIND or MONITOR_TRAINER has failed; zero-terminated */
    struct tcp_places places;
};

/* Checks a packet of the job process. Returns 0, or EPROTO: *out is unchanged. */
int monitor_request_parse(struct monitor_request *out, const void *packet, size_t len);

#endif
