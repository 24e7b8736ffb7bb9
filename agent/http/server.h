/* server -- what the files of agent/http/ share: the server, its connections (conn.c), each request's life
 * (exchange.c), its response (respond.c). */
#ifndef PSGD_AGENT_HTTP_SERVER_H
#define PSGD_AGENT_HTTP_SERVER_H

#include <microhttpd.h>

#include "agent/api.h"
#include "agent/http/http.h"
#include "agent/stream.h"

/* One TCP connection. */
struct conn {
    struct conn *next, *prev;
    int fd;
    double deadline;
    bool is_loopback;
    char local_host[64], peer_host[64];
};

/* One request with its response. */
struct exchange {
    struct http_server *server;
    struct MHD_Connection *connection;
    struct conn *conn;
    char *target;
    char request_id[20];
    bool is_gated, is_gone;
    struct request rq;
    struct response rs;
    char *body;
    size_t body_size;
    struct blob_upload upload;
    struct stream stream;

    struct exchange *next, *prev; /* in the list of suspended requests */
    struct watch watch;
    bool is_parked;
};

struct http_server {
    struct agent *agent;
    struct MHD_Daemon *daemon;
    struct gate_rules rules;
    struct watch watch;
    struct timer tick;
    struct conn *conns;
    struct exchange *parked;
    unsigned n_exchanges;
    unsigned n_refused, n_dropped; /* unauthorized requests, and connections beyond the limit, in the
                                    * present second */
    uint64_t n_seen;               /* agent->n_changes when suspended requests were last checked */
    bool look, suspended;          /* suspended requests must be checked; one was suspended in this turn */
    bool is_closing;
};

/* conn.c: the callbacks of MHD_start_daemon of these types, for a connection that comes and one that is made
 * or closed. */
enum MHD_Result conn_may_open(void *arg, const struct sockaddr *peer, socklen_t len);
void conn_changed(void *arg, struct MHD_Connection *c, void **slot, enum MHD_ConnectionNotificationCode what);
/* Ends the connections whose time is over. */
void conn_end_late(struct http_server *h, double now);
/* Returns how many connections the descriptor limit allows, which is raised as far as it can be. */
unsigned conn_limit(void);
/* The time by which a request of so many bytes must be answered, or a response of so many be received. */
double conn_deadline(uint64_t bytes);
enum { CONN_IDLE_S = 30 }; /* between requests and within one */

/* exchange.c: the callbacks for a request, in the order in which the library calls them. */
void *exchange_target(void *arg, const char *target, struct MHD_Connection *c);
enum MHD_Result exchange_request(void *arg, struct MHD_Connection *c, const char *url, const char *method,
                                 const char *version, const char *bytes, size_t *len, void **slot);
void exchange_completed(void *arg, struct MHD_Connection *c, void **slot,
                        enum MHD_RequestTerminationCode why);
/* Suspends the request until exchange_resume_ready finds that its wait is over. */
void exchange_park(struct exchange *x);
/* Returns whether any suspended request goes on. */
bool exchange_resume_ready(struct http_server *h);
/* Logs unauthorized requests once a second, so that they cannot fill the disk. A merely malformed request is
 * answered, not logged. */
void exchange_log_refusal(struct http_server *h, const struct exchange *x, const char *why);

/* respond.c: sends x->rs. */
enum MHD_Result respond(struct exchange *x);

#endif
