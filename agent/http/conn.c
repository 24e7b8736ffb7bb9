#include "agent/http/server.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "agent/log.h"
#include "shared/address.h"
#include "shared/clock.h"

enum {
    MAX_CONNECTIONS = 4096,
    MAX_PER_ADDRESS = 64,
    SPARE_FILES = 256 /* descriptors beyond the connections': journals, runners, uploads */
};

static const double HEAD_S = 10; /* from the connection to the complete head of its first request */
/* Time for a request with its response; a second more for each SLOWEST_BPS bytes. */
static const double REQUEST_S = 30, SLOWEST_BPS = 32 << 10;

double conn_deadline(uint64_t bytes)
{
    return clock_now() + REQUEST_S + (double)bytes / SLOWEST_BPS;
}

/* Called before a connection is accepted. Limits the connections of one address, because all clients share
 * the total; the first one dropped in a second is logged, as it is closed without a response. */
enum MHD_Result conn_may_open(void *arg, const struct sockaddr *peer, socklen_t len)
{
    struct http_server *h = arg;
    unsigned n = 0;
    char host[64];

    (void)len;
    address_host(host, sizeof host, peer);
    for (const struct conn *k = h->conns; k; k = k->next)
        n += strcmp(k->peer_host, host) == 0;
    if (n < MAX_PER_ADDRESS)
        return MHD_YES;
    if (h->n_dropped++ == 0)
        log_line(LOG_LEVEL_WARN, "agent", NULL,
                 "http: a connection from %s is dropped: %d from that address are open", host,
                 MAX_PER_ADDRESS);
    return MHD_NO;
}

static struct conn *conn_new(struct http_server *h, struct MHD_Connection *c)
{
    const union MHD_ConnectionInfo *fd = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);
    const union MHD_ConnectionInfo *peer = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    struct sockaddr_storage local = {0};
    socklen_t len = sizeof local;
    int silence_ms = CONN_IDLE_S * 1000, on = 1;
    struct conn *k = calloc(1, sizeof *k);

    if (!k)
        return NULL;
    k->fd = fd->connect_fd;
    k->deadline = clock_now() + HEAD_S;
    k->is_loopback = peer && peer->client_addr && address_is_loopback(peer->client_addr);
    if (getsockname(k->fd, (struct sockaddr *)&local, &len) == 0)
        address_host(k->local_host, sizeof k->local_host, (struct sockaddr *)&local);
    if (peer && peer->client_addr)
        address_host(k->peer_host, sizeof k->peer_host, peer->client_addr);
    /* Detects a reader that vanished without closing, by unacknowledged bytes or keep-alives. */
    setsockopt(k->fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &silence_ms, sizeof silence_ms);
    setsockopt(k->fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    k->next = h->conns;
    if (k->next)
        k->next->prev = k;
    h->conns = k;
    return k;
}

void conn_changed(void *arg, struct MHD_Connection *c, void **slot, enum MHD_ConnectionNotificationCode what)
{
    struct http_server *h = arg;
    struct conn *k = *slot;

    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        *slot = conn_new(h, c);
        return;
    }
    if (!k)
        return;
    *(k->prev ? &k->prev->next : &h->conns) = k->next;
    if (k->next)
        k->next->prev = k->prev;
    free(k);
    *slot = NULL;
}

void conn_end_late(struct http_server *h, double now)
{
    for (const struct conn *k = h->conns; k; k = k->next)
        if (now > k->deadline)
            shutdown(k->fd, SHUT_RDWR); /* the library detects the close and frees the connection */
}

unsigned conn_limit(void)
{
    struct rlimit files;
    rlim_t want = MAX_CONNECTIONS + SPARE_FILES;

    if (getrlimit(RLIMIT_NOFILE, &files) < 0)
        return 256;
    if (files.rlim_cur < want) {
        files.rlim_cur = files.rlim_max < want ? files.rlim_max : want;
        setrlimit(RLIMIT_NOFILE, &files);
        getrlimit(RLIMIT_NOFILE, &files);
    }
    return files.rlim_cur >= want             ? MAX_CONNECTIONS
           : files.rlim_cur > 2 * SPARE_FILES ? (unsigned)(files.rlim_cur - SPARE_FILES)
                                              : 128;
}
