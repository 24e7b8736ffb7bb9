/* Any packet as a request of the job process: refused, or one of the asks with members in range.
 * Requests that need no descriptor are carried out; of the others only the members are checked. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runner/monitor/monitor_state.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool is_whole(const struct monitor_request *r)
{
    switch (r->ask) {
    case MONITOR_WATCH:
        return r->name[0] && memchr(r->name, '\0', sizeof r->name) && r->seconds > 0 && isfinite(r->seconds);
    case MONITOR_MEMORY:
        return r->number > 0 && r->number % 4096 == 0;
    case MONITOR_DIAL:
        return r->seconds == 0 && r->number < ADDRESSES_MAX && r->is_probe <= 1 && r->tls <= MESH_TLS_OFF;
    case MONITOR_TRAINER_RELEASE:
        return r->seconds == 0 && r->number <= 1;
    case MONITOR_TRAINER_END:
        return r->seconds >= 0 && r->seconds <= 600 && r->number == 0;
    default:
        return r->ask < N_MONITOR_ASKS && r->seconds == 0 && r->number == 0;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct peer known = {.node = 3, .data_port = 1, .host = "127.0.0.1"};
    static struct monitor_peer *peer;
    struct monitor_state m = {.list = {.at = &known, .n = 1}, .peers = &peer};
    struct monitor_request r;
    struct monitor_reply reply;
    int fd;

    if (monitor_request_parse(&r, data, size) != 0)
        return 0;
    if (size != sizeof r || !is_whole(&r))
        abort();
    if (r.ask != MONITOR_WATCH && r.ask != MONITOR_FIND)
        return 0;
    monitor_do(&m, &r, &reply, &fd);
    if (fd >= 0 ||
        (r.ask == MONITOR_WATCH ? m.call_limit_s != r.seconds : (reply.code == 0) != (r.node == 3)))
        abort();
    return 0;
}
