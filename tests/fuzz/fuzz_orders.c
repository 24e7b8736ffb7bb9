/* Any line as an agent's order: refused, or peers with ports that exist. */
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "runner/lines/orders.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const atomic_bool never = false;
    struct orders_start start;
    struct orders o;
    struct err e = {0};
    int fds[2];

    if (size > 4000 || pipe(fds) < 0)
        return 0;
    if (write(fds[1], data, size) < 0 || write(fds[1], "\n", 1) < 0)
        abort();
    close(fds[1]);
    orders_open(&o, fds[0]);
    if (orders_read_start(&o, &start, &never, &e) == 0) {
        for (size_t i = 0; i < start.peers.n; i++)
            if (start.peers.at[i].data_port < 1 || start.peers.at[i].data_port > 65535)
                abort();
        orders_start_clear(&start);
    }
    orders_close(&o);
    return 0;
}
