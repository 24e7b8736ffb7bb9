#include "submit/browse/door.h"

#include <stdio.h>
#include <string.h>

const char *const door_headers[N_DOOR_HEADERS] = {[DOOR_HOST] = "Host",
                                                  [DOOR_ORIGIN] = "Origin",
                                                  [DOOR_SITE] = "Sec-Fetch-Site",
                                                  [DOOR_COOKIE] = "Cookie",
                                                  [DOOR_OWN] = "X-Psgd",
                                                  [DOOR_LENGTH] = "Content-Length",
                                                  [DOOR_CODING] = "Transfer-Encoding"};

void door_take(struct door_request *rq, const char *name, const char *value, size_t len)
{
    for (int i = 0; i < N_DOOR_HEADERS; i++)
        if (strcasecmp(name, door_headers[i]) == 0) {
            rq->is_unclear |= rq->value[i] || !value || strlen(value) != len;
            rq->value[i] = value ? value : "";
        }
}

void door_open(struct door *d, int port)
{
    uint8_t bytes[SHA256_BYTES];

    *d = (struct door){.is_used = false};
    random_bytes(bytes, sizeof bytes);
    base64url(d->token, bytes);
    random_bytes(bytes, sizeof bytes);
    base64url(d->cookie, bytes);
    snprintf(d->cookie_name, sizeof d->cookie_name, "psgd-%d", port);
}

/* A name of this machine, with any port: a tunnel may have another one. */
static bool is_host(const char *host)
{
    static const char *const own[] = {"127.0.0.1", "localhost", "[::1]"};

    for (size_t i = 0; host && i < sizeof own / sizeof *own; i++) {
        size_t n = strlen(own[i]);

        if (strncasecmp(host, own[i], n) == 0 &&
            (!host[n] || (host[n] == ':' && strspn(host + n + 1, "0123456789") == strlen(host + n + 1))))
            return true;
    }
    return false;
}

static bool is_origin(const char *origin, const char *host)
{
    return strncmp(origin, "http://", 7) == 0 && strcasecmp(origin + 7, host) == 0;
}

static bool is_secret(const char *given, size_t len, const char *secret)
{
    return len == strlen(secret) && equal_in_constant_time(given, secret, len);
}

/* "a=1; psgd-8000=COOKIE; b=2" */
static bool has_cookie(const struct door *d, const char *header)
{
    size_t n = strlen(d->cookie_name);

    for (const char *at = header; at && *at; at += strspn(at, "; ")) {
        size_t len = strcspn(at, ";");

        if (len > n && strncmp(at, d->cookie_name, n) == 0 && at[n] == '=' &&
            is_secret(at + n + 1, len - n - 1, d->cookie))
            return true;
        at += len;
    }
    return false;
}

static enum door_answer refuse(const char **why, const char *text)
{
    *why = text;
    return DOOR_REFUSE;
}

static bool is_from_elsewhere(const struct door_request *rq)
{
    return (rq->value[DOOR_ORIGIN] && !is_origin(rq->value[DOOR_ORIGIN], rq->value[DOOR_HOST])) ||
           (rq->value[DOOR_SITE] && strcmp(rq->value[DOOR_SITE], "same-origin") != 0 &&
            strcmp(rq->value[DOOR_SITE], "none") != 0);
}

/* The address that was printed; wherever the user has clicked it. */
static enum door_answer check_token(struct door *d, const struct door_request *rq, const char **why)
{
    if (strcmp(rq->method, "GET") != 0 || strcmp(rq->path, "/") != 0 ||
        !is_secret(rq->token, strlen(rq->token), d->token))
        return refuse(why, "the token is not the one that job_submit browse has printed");
    if (d->is_used && !has_cookie(d, rq->value[DOOR_COOKIE]))
        return refuse(why, "the address was used already, and works once: start job_submit browse again for "
                           "another one");
    d->is_used = true;
    return DOOR_WELCOME;
}

bool door_has_body(const struct door_request *rq)
{
    const char *length = rq->value[DOOR_LENGTH];

    return rq->value[DOOR_CODING] || (length && strcmp(length, "0") != 0);
}

enum door_answer door_check(struct door *d, const struct door_request *rq, const char **why)
{
    if (rq->is_unclear)
        return refuse(why, "a header stands twice in the request, or has a zero byte in it");
    if (door_has_body(rq))
        return refuse(why, "the request has a body, and none is expected");
    if (!is_host(rq->value[DOOR_HOST]))
        return refuse(why,
                      "the address is none of this page: use the one that job_submit browse has printed");
    if (rq->token)
        return check_token(d, rq, why);
    if (is_from_elsewhere(rq))
        return refuse(why, "another site has made the browser ask");
    if (!has_cookie(d, rq->value[DOOR_COOKIE]))
        return refuse(why, "this browser has not opened the address that job_submit browse has printed");
    if (strcmp(rq->method, "POST") == 0 && (!rq->value[DOOR_OWN] || strcmp(rq->value[DOOR_OWN], "1") != 0))
        return refuse(why, "the header X-Psgd: 1 is missing");
    return DOOR_SERVE;
}
