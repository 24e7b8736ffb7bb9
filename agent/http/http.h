/* http -- the HTTP server: bytes <-> struct request and struct response. agent/http/ is the only user of
 * libmicrohttpd.
 *
 * The server runs inside our loop (its epoll descriptor is one of ours) and has no thread of its own. A
 * request that waits (event streams, /wait) is suspended and checked again when any job has an event, at
 * least once a second; the library does not read a suspended request's socket, so our own epoll watches for
 * its close. Every request has an absolute deadline: the library's own timeout only measures inactivity,
 * which a client that sends a byte a second avoids. */
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
