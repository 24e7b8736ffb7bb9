#include "shared/http/origin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

const char host_is_not_one[] = "exactly one Host header is needed";

static bool is_loopback_name(const char *host)
{
    return strcasecmp(host, "localhost") == 0 || strcmp(host, "127.0.0.1") == 0 || strcmp(host, "::1") == 0;
}

/* Parses host, host:port or [v6]:port, and returns whether it is this server's address. *has_port: whether a
 * port is given. `may_be_tunnel`: a loopback address with any port counts, too, as the end of a tunnel. */
static bool authority_is_own(const struct own_names *own, const char *text, bool may_be_tunnel,
                             bool *has_port)
{
    const char *const *allow = own->allow_hosts;
    bool is_bracketed = text[0] == '[';
    char host[256], port[8];
    size_t n;

    text += is_bracketed;
    n = strcspn(text, is_bracketed ? "]" : ":");
    if (n >= sizeof host || (is_bracketed && !text[n]))
        return false;
    memcpy(host, text, n);
    host[n] = '\0';
    text += n + is_bracketed;
    snprintf(port, sizeof port, "%d", own->port);
    *has_port = text[0] == ':';
    if (may_be_tunnel && is_loopback_name(host) && *has_port)
        return text[1] && strspn(text + 1, "0123456789") == strlen(text + 1);
    if (*has_port ? strcmp(text + 1, port) != 0 : text[0] != '\0')
        return false;
    if (strcasecmp(host, "localhost") == 0 || strcasecmp(host, own->bound_host) == 0)
        return true;
    /* A literal address that this connection reached cannot be a foreign name that resolves to this
     * machine. */
    if (own->local_host && strcasecmp(host, own->local_host) == 0)
        return true;
    for (; allow && *allow; allow++)
        if (strcasecmp(*allow, host) == 0)
            return true;
    return false;
}

enum host_finding host_check(const struct own_names *own, const struct head *head, const char **host)
{
    bool has_port;

    if (head_count(head, "Host", host) != 1)
        return HOST_IS_NOT_ONE;
    return own->has_tls || authority_is_own(own, *host, true, &has_port) ? HOST_IS_OWN : HOST_IS_FOREIGN;
}

static bool origin_is_own(const struct own_names *own, const struct head *head, const char *origin)
{
    const char *scheme = own->has_tls ? "https://" : "http://", *host;
    bool has_port;

    if (strncmp(origin, scheme, strlen(scheme)) != 0)
        return false;
    origin += strlen(scheme);
    head_count(head, "Host", &host);
    return (!own->has_tls && host && strcasecmp(origin, host) == 0) ||
           (authority_is_own(own, origin, false, &has_port) && has_port);
}

const char *origin_refusal(const struct own_names *own, const struct head *head)
{
    const char *value;
    size_t count = head_count(head, "Origin", &value);

    if (count > 0 && (count != 1 || !origin_is_own(own, head, value)))
        return "requests of other web sites are refused (Origin)";
    count = head_count(head, "Sec-Fetch-Site", &value);
    if (count > 0 && (count != 1 || (strcmp(value, "same-origin") != 0 && strcmp(value, "none") != 0)))
        return "requests of other web sites are refused (Sec-Fetch-Site)";
    return NULL;
}
