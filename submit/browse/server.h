/* server -- the page's HTTP server on 127.0.0.1. One thread accepts and reads connections
 * (shared/http/http_server.h); another thread answers each request, because a job's document may have to wait
 * for an agent. There are at most 256 connections, of which at most 64 have not sent the cookie; a new
 * connection replaces the oldest of these. */
#ifndef PSGD_BROWSE_SERVER_H
#define PSGD_BROWSE_SERVER_H

#include "submit/browse/job_list.h"

enum { PAGE_CONNECTIONS = 256, PAGE_UNAUTHENTICATED = 64 };

struct server;

/* Starts the server. `port` 0: any free port. ERR_IO: the port is in use, or the system refuses a socket or
 * thread. */
int server_open(struct server **out, struct job_list *s, int port, struct err *e);
/* The address to open, with its token. */
const char *server_url(const struct server *s);
/* Ends all connections and threads; the list of jobs must be closed before. */
void server_close(struct server *s);

#endif
