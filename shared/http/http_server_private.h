/* http_server_private -- the server, for the files of this folder. */
#ifndef PSGD_HTTP_SERVER_PRIVATE_H
#define PSGD_HTTP_SERVER_PRIVATE_H

#include "shared/http/http_server.h"

struct http_server {
    struct http_options options;
    struct loop *loop;
    struct MHD_Daemon *daemon;
    struct conns conns;
    struct watch watch;
    struct timer tick;
    struct http_call *parked;
    unsigned n_calls;
    uint64_t n_seen;      /* *n_changes when suspended requests were last checked */
    bool look, suspended; /* suspended requests must be checked; one was suspended in this turn */
    bool is_closing;      /* suspended requests go on now, or never */
    char chunk[HTTP_CHUNK];
};

#endif
