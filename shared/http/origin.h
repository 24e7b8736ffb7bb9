/* origin -- whether a request is addressed to this server, and not made by a page of another web site: checks
 * Host against DNS rebinding, Origin and Sec-Fetch-Site against requests across sites. */
#ifndef PSGD_HTTP_ORIGIN_H
#define PSGD_HTTP_ORIGIN_H

#include "shared/http/head.h"

struct own_names {
    const char *bound_host;         /* "127.0.0.1", "::1" */
    const char *local_host;         /* the local address of the connection; NULL: unknown */
    const char *const *allow_hosts; /* ends with NULL; NULL: no further ones */
    int port;
    bool has_tls;
};

enum host_finding {
    HOST_IS_OWN,
    HOST_IS_FOREIGN,
    HOST_IS_NOT_ONE /* none, or several */
};
extern const char host_is_not_one[]; /* the sentence for HOST_IS_NOT_ONE */

/* Without TLS, Host must name this server: with the server's port or none, or as localhost, 127.0.0.1 or
 * [::1] with any port, that of a tunnel (ssh -L). With TLS every Host is the server's own: a browser refuses
 * this server's certificate for the name of a web site, and job_submit identifies a server by its key,
 * whatever its name. */
enum host_finding host_check(const struct own_names *own, const struct head *head, const char **host);

/* Call after HOST_IS_OWN. Returns NULL if Origin is absent, is one of the server's names with its port, or is
 * that of the Host, and Sec-Fetch-Site is absent, same-origin or none; otherwise the sentence of refusal: the
 * request was made by a page of another web site. */
const char *origin_refusal(const struct own_names *own, const struct head *head);

#endif
