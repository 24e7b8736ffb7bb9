/* http -- all of libmicrohttpd: bytes <-> struct request and struct response.
 *
 * The server runs inside our loop (its epoll descriptor is one of ours) and in no thread of its own. A
 * request that waits (event streams, /wait) is suspended and looked at again when any job has news, at the
 * latest each second; while it is suspended nobody reads its socket, so its end is watched for by our own
 * epoll. Every request has an absolute deadline: the library's own timeout only counts silence, which a
 * client that sends a byte a second never is. */
#ifndef PSGD_AGENT_HTTP_H
#define PSGD_AGENT_HTTP_H

#include "agent/agent.h"

struct http_server;

/* Takes listen_fd, also on failure. `a` outlives it. */
int http_server_open(struct http_server **out, struct agent *a, int listen_fd, struct err *e);

/* After each turn of the loop: answers what there is to answer. */
void http_server_turn(struct http_server *h);

/* How long the loop may wait before the next http_server_turn. */
double http_server_patience(const struct http_server *h);

/* Whether any request is not answered to its end. */
bool http_server_is_busy(const struct http_server *h);

/* Takes no new connections. */
void http_server_quiesce(struct http_server *h);

/* Ends every connection. */
void http_server_close(struct http_server *h);

#endif
