/* server -- the page's HTTP server on 127.0.0.1. It has a thread, in which shared/http/http_server.h accepts
 * and reads the connections, and one more for each request while that is answered, as looking at a job may
 * wait for an agent. Of at most 256 connections 64 may be those of browsers that have not shown the cookie;
 * one more of these ends the oldest. */
#ifndef PSGD_BROWSE_SERVER_H
#define PSGD_BROWSE_SERVER_H

#include "submit/browse/job_list.h"

enum { PAGE_CONNECTIONS = 256, PAGE_UNAUTHENTICATED = 64 };

struct server;

/* `port` 0: a free one. ERR_IO: the port is in use, ... */
int server_open(struct server **out, struct job_list *s, int port, struct err *e);
/* The address to open, with its token. */
const char *server_url(const struct server *s);
/* Ends all connections; the list of jobs must be closed. */
void server_close(struct server *s);

#endif
