/* http_server -- an HTTP server for one thread: it runs inside the loop that it is given.
 *
 *   client <--TCP or TLS--> conn.c, relay.c <--socket pair--> libmicrohttpd <--> http_server.c, a service
 *
 * Clients' connections are accepted, limited and read here (conn.c). libmicrohttpd gets a connection for a
 * client, one end of a socket pair, only when the whole head of a request has arrived and is valid (head.h),
 * with the head rewritten by head_write(). So connections that send nothing, or half a head, or half a TLS
 * handshake never reach it, and which heads are accepted does not depend on its version. The price is one
 * more copy of each body.
 *
 * A request that waits is suspended. Its service is asked whether it goes on whenever *n_changes has changed,
 * and at least once a second. Every request has an absolute deadline, because a client that sends a byte a
 * second defeats a limit on inactivity. */
#ifndef PSGD_HTTP_SERVER_H
#define PSGD_HTTP_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "shared/base/err.h"
#include "shared/base/loop.h"
#include "shared/http/head.h"

struct conn;
struct http_server;
struct source;
struct tls_keys;
struct tls_session;
struct MHD_Connection;

/* One request with its response. */
struct http_call {
    const struct head *head; /* of the request, if `refusal` is NULL */
    const char *refusal;     /* why the head is not valid; NULL: it is */
    const char *local_host, *peer_host;
    bool is_loopback;              /* the client is on this machine */
    const struct tls_session *tls; /* NULL: HTTP without TLS */

    /* Of the service. */
    void *own;      /* NULL at first */
    bool is_failed; /* the connection ends without an answer */
    /* For a short wait: a client that has ended its sending side still gets its answer. Otherwise such a
     * client counts as gone. */
    bool is_brief;

    /* Internal. */
    struct http_server *server;
    struct conn *conn;
    struct MHD_Connection *connection;
    bool is_begun, is_answered;
    bool is_gone;                  /* the client will not receive the response */
    struct http_call *next, *prev; /* in the list of suspended requests */
    bool is_parked;
};

/* The functions that answer requests, called in this order; none may block. */
struct http_service {
    /* The head is here, valid or not (refusal), and no byte of the body. May answer. */
    void (*begin)(struct http_call *c);
    /* The next bytes of the body of a request that is not answered yet; NULL: none has one. */
    void (*receive)(struct http_call *c, const char *bytes, size_t len);
    /* The whole request has arrived, or a parked one may continue: answers it, or parks it (again). */
    void (*proceed)(struct http_call *c);
    /* Whether a parked request goes on. */
    bool (*is_ready)(const struct http_call *c);
    /* The next bytes of an HTTP_STREAM. 0: none now; -1: the end. */
    ssize_t (*read)(struct http_call *c, char *buf, size_t size);
    /* The request is over, answered or not: frees `own`. */
    void (*end)(struct http_call *c);
    /* Once a second; NULL: nothing. */
    void (*tick)(void *arg);
};

struct http_options {
    struct loop *loop;
    const struct tls_keys *keys; /* NULL: no TLS */
    bool allows_plain;           /* HTTP without TLS */
    /* Limits of connections: in all; unauthenticated in all; unauthenticated from one address or user. Each
     * is at least the next. */
    unsigned max, max_unauthenticated, max_per_source;
    void (*warn)(const char *text); /* a line for the log; NULL: there is none */
    const struct http_service *service;
    void *arg;                 /* the service's */
    const uint64_t *n_changes; /* the service's: suspended requests are asked again when it has changed */
};

/* Takes listen_fd, also on failure. What the options point to must outlive the server. */
int http_server_open(struct http_server **out, const struct http_options *o, int listen_fd, struct err *e);

/* Call after each turn of the loop: processes all pending requests. */
void http_server_turn(struct http_server *h);

/* Returns how long (in seconds) the loop may wait before the next http_server_turn. */
double http_server_max_wait(const struct http_server *h);

/* Returns whether any request is not answered completely. */
bool http_server_is_busy(const struct http_server *h);

/* Stops accepting connections. */
void http_server_quiesce(struct http_server *h);

/* Ends every connection. */
void http_server_close(struct http_server *h);

/* Returns http_options.arg. */
void *http_arg(const struct http_call *c);
/* The request has shown a valid token: its connection is authenticated. */
void http_mark_authenticated(struct http_call *c);
/* Returns the client's source; asks the kernel for the user at the other end if that is on this machine. */
const struct source *http_source(const struct http_call *c);
/* The request is admitted, and its body may take as long as its length (head->body_bytes) allows. */
void http_admit_body(struct http_call *c);
/* Whether the server is being closed: suspended requests go on now, or never. */
bool http_is_closing(const struct http_call *c);

enum http_body {
    HTTP_BYTES,  /* `bytes`, which are taken */
    HTTP_STATIC, /* `static_bytes`, which outlive the server */
    HTTP_FILE,   /* `len` bytes of `fd` from `at`; the descriptor is taken */
    HTTP_LENGTH, /* only the length, of a body that is not sent: to HEAD, and 304 */
    HTTP_STREAM  /* what the service's read() gives, until its end */
};

struct http_response {
    unsigned status;
    const struct header *headers; /* a value of NULL: the header is left out */
    size_t n_headers;
    enum http_body kind;
    char *bytes;
    const char *static_bytes;
    uint64_t len, at;
    int fd;
};

/* Answers the request. Returns false if there was no memory for it: then nothing is taken, and the
 * connection ends. */
bool http_respond(struct http_call *c, const struct http_response *a);

/* Suspends the request until the service's is_ready, which is asked at `look_at` (clock_now()) at the latest;
 * HUGE_VAL: no such time. It has no deadline meanwhile. */
void http_park(struct http_call *c, double look_at);

#endif
