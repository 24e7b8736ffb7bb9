/* http -- the HTTP server: bytes <-> struct request and struct response. It runs inside our loop and has no
 * thread of its own.
 *
 *   client <--TCP, perhaps TLS--> conn.c, relay.c <--socket pair--> libmicrohttpd <--> exchange.c, respond.c
 *
 * Clients' connections are accepted, limited and read here (conn.h). Only when the whole head of a request
 * has arrived and is valid (head.h) does libmicrohttpd get a connection for that client, one end of a socket
 * pair, and a head that was written here. So a crowd that sends nothing, or half a head, or half a TLS
 * handshake never reaches it, and which heads are accepted does not depend on its version. The price is one
 * more copy of each body.
 *
 * A request that waits (event streams, /wait) is suspended and checked again when any job has an event, at
 * least once a second. Every request has an absolute deadline, because inactivity alone is avoided by a
 * client that sends a byte a second. */
#ifndef PSGD_AGENT_HTTP_H
#define PSGD_AGENT_HTTP_H

#include "agent/agent.h"

struct http_server;

/* Takes listen_fd, also on failure. `a` must outlive the server. */
int http_server_open(struct http_server **out, struct agent *a, int listen_fd, struct err *e);

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

#endif
