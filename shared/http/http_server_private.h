/* http_server_private -- the members of the HTTP server and of its connections: conn.c accepts, limits, times
 * and ends these, relay.c moves their bytes.
 *
 * A connection is unauthenticated until the service says that a request on it has shown a valid token
 * (conn_mark_authenticated). struct http_options limits how many unauthenticated connections there may be in
 * all, and how many from one address; one more evicts the oldest, from that address or of all. So a client
 * that shows its token at once is served, however many clients show none: a connection can be evicted only
 * until its first request is read. One user of this machine could fill the share of a local address, so when
 * that share is full, each user counts as a source (source.h), and the oldest connection of the source with
 * the most is evicted. Unauthenticated connections never take more than max_unauthenticated of the places. */
#ifndef PSGD_HTTP_SERVER_PRIVATE_H
#define PSGD_HTTP_SERVER_PRIVATE_H

#include "shared/base/loop.h"
#include "shared/http/http_server.h"
#include "shared/http/source.h"
#include "shared/http/tls_session.h"

enum conn_state {
    CONN_FIRST,     /* no byte has come: whether the client speaks TLS is not known */
    CONN_HANDSHAKE, /* of TLS */
    CONN_HEAD,      /* between requests, or within a head */
    CONN_BODY,      /* of which `body_left` bytes are to be relayed to the library */
    CONN_RESPONSE,  /* the whole request is with the library */
    CONN_LINGER /* the last response is sent; what the client still sends is read, as closing would reset the
                     * connection, and the client might lose the response */
};

enum { CONN_CHUNK = 64 << 10 };

struct MHD_Daemon;

/* The head of a request, while it arrives and is handled. */
struct request_head {
    size_t n, n_seen; /* bytes; those that head_find_end has seen */
    size_t n_used;    /* those of the request that is handled */
    char bytes[HEAD_MAX + 1];
    struct head head;
};

struct conn {
    struct conns *conns;
    struct conn *next, *prev; /* in its list, the oldest first; or among the ended ones */
    struct conn *next_ready, *next_starting;
    enum conn_state state;
    bool is_authenticated, is_loopback, is_uid_asked, is_ended, is_ready, is_closing;
    bool is_answered;     /* at least one request was */
    bool has_library_end; /* the library still has its end of the socket pair */
    bool peer_ended;      /* the client sends no more */
    bool is_cut;          /* the client has ended before the whole body */
    struct source source;
    char local_host[64], peer_host[64];
    double deadline;   /* clock_now() */
    double stalled_at; /* while bytes wait for the client: when it last took some; 0: none wait */

    struct watch client, inner; /* fd -1: none; the socket pair's other end is the library's */
    uint32_t client_events, inner_events;
    int library_fd;
    struct tls_session *tls; /* NULL: HTTP without TLS */
    struct request_head *request;
    const char *refusal; /* why the head is not valid; NULL: it is */
    uint64_t body_left;
    char *in, *out; /* bytes read that the other end has no room for yet; NULL: none */
    size_t n_in, in_at, n_out, out_at;
    struct http_call *call; /* NULL: none */
    bool is_awaited;        /* its response is not relayed completely */
};

struct conn_list {
    struct conn *first, *last;
    unsigned n;
};

/* The listening socket and all connections. */
struct conns {
    struct loop *loop;
    struct http_options options;
    struct MHD_Daemon *library; /* which gets the connections; set after conns_open */
    struct watch listening;
    struct timer pause; /* accepting is paused: no descriptor or memory was free */
    struct conn_list unauthenticated, authenticated;
    struct conn *ended;    /* the library has not closed its end of these */
    struct conn *ready;    /* these are relayed after the library's turn */
    struct conn *starting; /* added to the library, which has not called conn_started for these yet */
    int diag_fd;           /* for source_uid */
    unsigned max, max_unauthenticated, max_per_source;
    unsigned n_awaited;               /* connections with is_awaited */
    unsigned n_evicted, n_unaccepted; /* in the present second, for the log */
    bool has_lost; /* a client that will not receive its response, since this was cleared */
    char chunk[CONN_CHUNK];
};

struct http_server {
    struct http_options options;
    struct loop *loop;
    struct conns conns;
    struct watch watch; /* of the library's epoll descriptor */
    struct timer tick;
    struct http_call *parked; /* the list of suspended requests */
    unsigned n_calls;
    uint64_t n_seen;      /* *n_changes when suspended requests were last asked */
    bool look, suspended; /* suspended requests must be asked again; one was suspended in this turn */
    bool is_closing;
};

/* For http_server.c.
 *
 * Takes listen_fd, also on failure. */
int conns_open(struct conns *c, const struct http_options *o, int listen_fd, struct err *e);
/* A request on it has shown a valid token. */
void conn_mark_authenticated(struct conn *k);
/* http_source() */
const struct source *conn_source(struct conn *k);
/* Returns the time by which a request of so many bytes must be answered, or a response of so many be
 * received. */
double conn_deadline(uint64_t bytes);
/* Stops accepting. */
void conns_quiesce(struct conns *c);
/* Ends the connections whose time is over. Call once a second. */
void conns_tick(struct conns *c, double now);
/* Relays the connections that are marked ready. */
void conns_relay_ready(struct conns *c);
/* Call after the library has stopped: sends what the clients take at once, and frees all. */
void conns_close(struct conns *c);
/* The library has taken the end `fd` of a socket pair. Returns its connection. */
struct conn *conn_started(struct conns *c, int fd);
/* The library has closed its end. */
void conn_library_closed(struct conn *k);
/* The request is answered; the response may not be relayed yet. */
void conn_answered(struct conn *k);
/* The client will not receive the response to its request, if there is one. */
void conn_lose_client(struct conn *k);

/* Between conn.c and relay.c.
 *
 * Call at the first byte, so that a connection that never sends costs no system calls. */
void conn_begin(struct conn *k);
/* Waits for the client's first bytes. */
void conn_wait(struct conn *k);
/* Called at an event of the client's socket. */
void conn_on_client(void *arg, uint32_t events);
/* Moves all bytes that can be moved now, in both directions, and ends the connection when it is over. */
void conn_relay(struct conn *k);
/* Lets it be relayed after this turn of the library. */
void conn_mark_ready(struct conn *k);
void conn_drop_request(struct conn *k);
/* Closes the client's socket and this end of the socket pair; frees it once the library has closed its
 * own. */
void conn_end(struct conn *k);
/* A connection cannot be served, for this errno. Logs the first in each second. */
void conns_log_unaccepted(struct conns *c, int error);
void conns_warn(const struct conns *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
