/* server -- what the files of agent/http/ share: the server, the life of a request (exchange.c) and its
 * response (respond.c); the connections are in conn.h. */
#ifndef PSGD_AGENT_HTTP_SERVER_H
#define PSGD_AGENT_HTTP_SERVER_H

#include <microhttpd.h>

#include "agent/api.h"
#include "agent/http/conn.h"
#include "agent/http/http.h"
#include "agent/stream.h"

/* One request with its response. */
struct exchange {
    struct http_server *server;
    struct MHD_Connection *connection;
    struct conn *conn;
    char request_id[20];
    bool is_gated, is_gone, is_answered;
    double begun;              /* clock_now() */
    const struct route *asked; /* as rq.route, which is NULL once the request is refused */
    struct request rq;
    struct response rs;
    char *body;
    size_t body_size;
    struct blob_upload upload;
    struct stream stream;

    struct exchange *next, *prev; /* in the list of suspended requests */
    bool is_parked;
};

struct http_server {
    struct agent *agent;
    struct MHD_Daemon *daemon;
    struct gate_rules rules;
    struct conns conns;
    struct watch watch;
    struct timer tick;
    struct exchange *parked;
    unsigned n_exchanges;
    size_t body_bytes;             /* of all bodies in memory */
    unsigned n_logged, n_unlogged; /* refused requests, in the present second */
    uint64_t n_seen;               /* agent->n_changes when suspended requests were last checked */
    bool look, suspended;          /* suspended requests must be checked; one was suspended in this turn */
    bool is_closing;
};

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
/* The client will not receive the response. */
void exchange_gone(struct exchange *x);
/* Logs a refused request: one line a second for each source, and LINES_PER_S of all, so that they cannot fill
 * the disk. A merely malformed request is answered, not logged. */
void exchange_log_refusal(struct exchange *x, const char *why);

/* respond.c: sends x->rs. */
enum MHD_Result respond(struct exchange *x);

#endif
