#include "agent/http/api_server.h"

#include <stdlib.h>
#include <unistd.h>

int api_server_open(struct api_server **out, struct agent *a, int listen_fd, struct err *e)
{
    struct api_server *s = calloc(1, sizeof *s);
    const struct identity *id = &a->auth.identity;
    struct http_options o = {.loop = &a->loop,
                             .service = &api_service,
                             .arg = s,
                             .n_changes = &a->jobs.n_changes,
                             .allows_plain = a->allows_plain,
                             .max = CONNECTIONS_MAX,
                             .max_unauthenticated = UNAUTHENTICATED_MAX,
                             .max_per_source = UNAUTHENTICATED_PER_SOURCE};

    if (s)
        *s = (struct api_server){.agent = a,
                                 .sources = sources_new(),
                                 .rules = {.bound_host = a->host,
                                           .port = a->opt.port,
                                           .allow_hosts = a->opt.allow_hosts,
                                           .token = a->opt.no_token ? NULL : &a->auth.token,
                                           .cluster = a->auth.cluster.path[0] ? &a->auth.cluster : NULL,
                                           .members = &a->auth.members,
                                           .takes_certificates = id->client_ca != NULL}};
    if (!s || !s->sources)
        err_set(e, ERR_NOMEM, "no memory for the server");
    if (!s || !s->sources || tls_keys_new(&s->keys, id->key, id->certificate, id->client_ca, e) < 0) {
        close(listen_fd);
        api_server_close(s);
        return e->code;
    }
    o.keys = s->keys;
    if (http_server_open(&s->http, &o, listen_fd, e) < 0) {
        api_server_close(s);
        return e->code;
    }
    *out = s;
    return 0;
}

void api_server_close(struct api_server *s)
{
    if (!s)
        return;
    if (s->http)
        http_server_close(s->http);
    tls_keys_free(s->keys);
    sources_free(s->sources);
    free(s);
}
