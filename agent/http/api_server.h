/* api_server -- the agent's API over HTTP: bytes <-> struct request and struct response. How the bytes come
 * and go is http_server.h's; here are the life of a request (exchange.c) and its response (respond.c). */
#ifndef PSGD_AGENT_API_SERVER_H
#define PSGD_AGENT_API_SERVER_H

#include "agent/api/agent_state.h"
#include "agent/api/api.h"
#include "agent/api/gate.h"
#include "agent/http/sources.h"
#include "agent/jobs/event_stream.h"
#include "shared/http/http_server.h"

enum {
    CONNECTIONS_MAX = 4096,
    STRANGERS_MAX = 1024,
    STRANGERS_PER_SOURCE = 64,
};

struct api_server {
    struct agent *agent;
    struct http_server *http;
    struct gate_rules rules;
    struct tls_keys *keys;
    struct sources *sources;
    size_t body_bytes;             /* of all bodies in memory */
    unsigned n_logged, n_unlogged; /* refused requests, in the present second */
};

/* One request with its response: the `own` of its http_call. */
struct exchange {
    struct http_call *call;
    char request_id[20];
    double begun;              /* clock_now() */
    const struct route *asked; /* as rq.route, which is NULL once the request is refused */
    struct request rq;
    struct response rs;
    char *body;
    size_t body_size;
    struct blob_upload upload;
    struct stream stream;
};

/* Takes listen_fd, also on failure. `a` must outlive the server, whose `http` the caller turns. */
int api_server_open(struct api_server **out, struct agent *a, int listen_fd, struct err *e);

/* Ends every connection. */
void api_server_close(struct api_server *s);

extern const struct http_service api_service; /* exchange.c */

struct api_server *exchange_server(const struct exchange *x);
/* Logs a refused request: one line a second for each source, and LINES_PER_S of all, so that they cannot fill
 * the disk. A merely malformed request is answered, not logged. */
void exchange_log_refusal(struct exchange *x, const char *why);

/* respond.c: sends x->rs. */
void exchange_respond(struct exchange *x);

#endif
