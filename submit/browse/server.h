/* server -- the page's HTTP server on 127.0.0.1: all of job_submit's libmicrohttpd. A thread for each
 * connection, of which there are at most 256; those that have not shown the cookie end first
 * (strangers.h). */
#ifndef PSGD_BROWSE_SERVER_H
#define PSGD_BROWSE_SERVER_H

#include "submit/browse/shelf.h"

struct server;

/* `port` 0: a free one. ERR_IO: the port is in use, ... */
int server_open(struct server **out, struct shelf *s, int port, struct err *e);
/* The address to open, with its token. */
const char *server_url(const struct server *s);
/* Ends all connections; the shelf must be closed. */
void server_close(struct server *s);

#endif
