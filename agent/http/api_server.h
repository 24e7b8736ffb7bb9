/* api_server -- the agent's API over HTTP: the life of a request with its response, from the bytes of
 * http_server.h to the struct request and struct api_response of api.h. */
#ifndef PSGD_AGENT_API_SERVER_H
#define PSGD_AGENT_API_SERVER_H

#include "agent/api/agent_state.h"
#include "agent/api/api.h"
#include "agent/api/gate.h"
#include "agent/http/sources.h"
#include "shared/http/http_server.h"

enum {
    CONNECTIONS_MAX = 4096,
    UNAUTHENTICATED_MAX = 1024,
    UNAUTHENTICATED_PER_SOURCE = 64,
};

struct api_server {
    struct agent *agent;
    struct http_server *http;
    struct gate_rules rules;
    struct tls_keys *keys;
    struct sources *sources;
    size_t body_bytes;             /* of all bodies in memory */
    unsigned n_logged, n_unlogged; /* refused requests of the present second */
};

/* Takes listen_fd, also on failure. `a` must outlive the server. The caller calls http_server_turn for
 * `http`. */
int api_server_open(struct api_server **out, struct agent *a, int listen_fd, struct err *e);

/* Ends every connection. */
void api_server_close(struct api_server *s);

#endif
