#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runner/monitor/monitor_state.h"
#include "shared/base/clock.h"

static void close_relay(struct monitor_state *m)
{
    if (m->relay_fd >= 0)
        close(m->relay_fd);
    m->relay_fd = -1;
}

/* The table of addresses, without the keys. */
static void take_peers(struct monitor_state *m, const char *line, size_t len)
{
    struct orders_start s;
    struct err e;

    if (orders_parse_start(&s, line, len, m->job_order.node, &e) < 0)
        return;
    m->peers = calloc(s.n_peers + 1, sizeof *m->peers);
    m->attempt = (uint32_t)s.attempt;
    for (; m->peers && m->n_peers < s.n_peers; m->n_peers++) {
        struct mesh_peer *p = &m->peers[m->n_peers].at;

        *p = s.peers[m->n_peers];
        explicit_bzero(p->key, sizeof p->key);
    }
    orders_start_clear(&s);
}

/* Reads the parts of a line that the monitor itself needs. A line that cannot be parsed is passed on as it
 * is, because the job process finds the same error and reports it. */
static void take_line(struct monitor_state *m, const char *line, size_t len)
{
    struct err e;

    if (m->n_orders == 0 && orders_parse_job(&m->job_order, line, len, &e) < 0)
        m->job_order = (struct orders_job){0};
    if (m->n_orders == 1)
        take_peers(m, line, len);
    if (m->n_orders == 1 && m->job_order.time_limit_s > 0)
        m->limit_at = clock_now() + m->job_order.time_limit_s;
    m->n_orders++;
}

bool monitor_has_unsent_order(const struct monitor_state *m)
{
    const char *line;
    size_t len;

    return m->relay_fd >= 0 && orders_line(&m->orders, &line, &len);
}

void monitor_read_orders(struct monitor_state *m)
{
    struct err e;

    if (orders_fill(&m->orders, &e) == 0)
        return;
    /* A runner outlives its agent from the start on; before it, the end of file ends the job process. */
    if (m->n_orders < 2)
        m->orphaned_at = clock_now();
    orders_close(&m->orders);
    close_relay(m);
}

/* A closed pipe is no error: the monitor notices the end of the job process in another way. */
void monitor_pass_orders(struct monitor_state *m)
{
    const char *line;
    size_t len;

    while (m->relay_fd >= 0 && orders_line(&m->orders, &line, &len)) {
        ssize_t n;

        if (m->n_relayed == 0)
            take_line(m, line, len);
        n = write(m->relay_fd, line + m->n_relayed, len + 1 - m->n_relayed);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (n < 0) {
            close_relay(m);
            return;
        }
        m->n_relayed += (size_t)n;
        if (m->n_relayed <= len)
            continue;
        orders_drop(&m->orders);
        m->n_relayed = 0;
    }
}
