#include "agent/api/gate.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "agent/jobs/blob.h"
#include "shared/base/choice.h"
#include "shared/http/origin.h"

#define PLAIN "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789/_.-"

static bool refuse_request(struct gate_refusal *refusal, enum problem p, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
static bool refuse_request(struct gate_refusal *refusal, enum problem p, const char *fmt, ...)
{
    va_list ap;

    refusal->problem = p;
    va_start(ap, fmt);
    vsnprintf(refusal->detail, sizeof refusal->detail, fmt, ap);
    va_end(ap);
    return false;
}

static bool target_is_plain(const char *target, const char **query)
{
    size_t path;

    *query = NULL;
    if (strnlen(target, TARGET_MAX + 1) > TARGET_MAX || strstr(target, ".."))
        return false;
    path = strspn(target, PLAIN);
    if (target[path] == '?')
        *query = target + path + 1;
    return !target[path] || *query;
}

static bool query_pair(struct request *rq, const char *pair, size_t len, struct gate_refusal *refusal)
{
    const char *eq = memchr(pair, '=', len);
    size_t n_key = eq ? (size_t)(eq - pair) : 0, n_value = eq ? len - n_key - 1 : 0;
    const char *const *keys = rq->route->keys;
    char key[32];
    const char *near;

    if (!eq || n_key == 0 || n_key >= sizeof key || n_value == 0 || n_value > QUERY_VALUE_MAX)
        return refuse_request(refusal, BAD_REQUEST, "the query is not key=value");
    snprintf(key, sizeof key, "%.*s", (int)n_key, pair);
    for (; *keys; keys++)
        if (strcmp(*keys, key) == 0)
            break;
    if (!*keys) {
        near = choice_near(key, rq->route->keys);
        return refuse_request(refusal, BAD_REQUEST,
                              near ? "the query's key \"%s\" is unknown; did you mean \"%s\"?"
                                   : "the query's key \"%s\" is unknown here",
                              key, near);
    }
    if (query_get(rq, key))
        return refuse_request(refusal, BAD_REQUEST, "the query has \"%s\" twice", key);
    rq->query[rq->n_query].key = *keys;
    memcpy(rq->query[rq->n_query].value, eq + 1, n_value);
    rq->query[rq->n_query++].value[n_value] = '\0';
    return true;
}

static bool query_parse(struct request *rq, const char *query, struct gate_refusal *refusal)
{
    if (strspn(query, PLAIN ",&=") != strlen(query))
        return refuse_request(refusal, BAD_REQUEST,
                              "the query holds other characters than A-Z a-z 0-9 / _ . - , & =");
    for (;;) {
        size_t n = strcspn(query, "&");

        if (!query_pair(rq, query, n, refusal))
            return false;
        if (!query[n])
            return true;
        query += n + 1;
    }
}

/* A GET route serves HEAD too. */
static bool serves(const struct route *r, enum method m)
{
    return r->method == m || (r->method == METHOD_GET && m == METHOD_HEAD);
}

static bool find_route(struct request *rq, const struct gate_input *in, size_t path_len,
                       struct gate_refusal *refusal)
{
    size_t n_allow;

    for (size_t i = 0; i < n_routes; i++) {
        if (!route_matches(&routes[i], in->head->target, path_len, rq))
            continue;
        if (serves(&routes[i], rq->method)) {
            rq->route = &routes[i];
            return true;
        }
        n_allow = strlen(refusal->allow);
        snprintf(refusal->allow + n_allow, sizeof refusal->allow - n_allow, "%s%s%s", n_allow ? ", " : "",
                 method_names[routes[i].method], routes[i].method == METHOD_GET ? ", HEAD" : "");
    }
    if (refusal->allow[0])
        return refuse_request(refusal, METHOD_NOT_ALLOWED, "this path allows %s", refusal->allow);
    return refuse_request(refusal, NOT_FOUND, "no resource has this path");
}

/* Checks that the request is addressed to this agent, and not made by a page of another web site. */
static bool check_site(const struct gate_rules *rules, const struct gate_input *in,
                       struct gate_refusal *refusal)
{
    const struct own_names own = {.bound_host = rules->bound_host,
                                  .local_host = in->local_host,
                                  .allow_hosts = rules->allow_hosts,
                                  .port = rules->port,
                                  .has_tls = in->has_tls};
    const char *host, *why;

    switch (host_check(&own, in->head, &host)) {
    case HOST_IS_NOT_ONE:
        return refuse_request(refusal, BAD_REQUEST, "%s", host_is_not_one);
    case HOST_IS_FOREIGN:
        snprintf(refusal->hint, sizeof refusal->hint,
                 "Start the agent with --allow-host NAME if it is known by that name.");
        return refuse_request(refusal, FORBIDDEN, "this agent is not \"%.100s\"", host);
    case HOST_IS_OWN:
        break;
    }
    why = origin_refusal(&own, in->head);
    return !why || refuse_request(refusal, FORBIDDEN, "%s", why);
}

static void accept_as(struct request *rq, const char *name, enum scope scope)
{
    rq->is_authorised = true;
    rq->scope = scope;
    snprintf(rq->who, sizeof rq->who, "%s", name);
}

static void identify(const struct gate_rules *rules, const struct gate_input *in, struct request *rq,
                     const char *token)
{
    uint8_t digest[SHA256_BYTES];
    const struct member *m;

    sha256(digest, token, strlen(token));
    if (token_is(rules->token, digest))
        accept_as(rq, rules->token->name, rules->token->scope);
    else if (rules->cluster && token_is(rules->cluster, digest))
        accept_as(rq, rules->cluster->name, rules->cluster->scope);
    else if (rules->members && (m = members_find(rules->members, digest, in->now)))
        accept_as(rq, m->name, m->scope);
}

static bool scope_suffices(const struct request *rq, struct gate_refusal *refusal)
{
    enum needs needs = rq->route->needs;
    enum scope least = needs == NEEDS_ADMIN ? SCOPE_ADMIN : needs == NEEDS_SUBMIT ? SCOPE_SUBMIT : SCOPE_READ;

    if (rq->scope >= least)
        return true;
    snprintf(refusal->hint, sizeof refusal->hint,
             "On the agent's machine, `agent token add NAME --scope %s` makes one.", scope_name(least));
    return refuse_request(refusal, FORBIDDEN, "this needs a token of scope %s; the one of %s has %s",
                          scope_name(least), rq->who, scope_name(rq->scope));
}

static bool check_token(const struct gate_rules *rules, const struct gate_input *in, struct request *rq,
                        struct gate_refusal *refusal)
{
    static const char bearer[] = "Bearer ";
    enum needs needs = rq->route->needs;
    const char *value;
    size_t n = head_count(in->head, "Authorization", &value);

    if (!rules->token)
        accept_as(rq, "", SCOPE_ADMIN);
    else if (n == 1 && strncasecmp(value, bearer, sizeof bearer - 1) == 0)
        identify(rules, in, rq, value + sizeof bearer - 1);
    else if (n == 0 && in->certificate)
        accept_as(rq, in->certificate, SCOPE_SUBMIT);
    if (needs == NEEDS_NOTHING || (needs == NEEDS_LOCAL && in->is_loopback))
        return true;
    if (in->certificate_refusal) {
        snprintf(refusal->hint, sizeof refusal->hint,
                 "Present another certificate, or a token and no certificate.");
        return refuse_request(refusal, UNAUTHORIZED, "the client's certificate is not accepted: %s",
                              in->certificate_refusal);
    }
    if (rq->is_authorised)
        return scope_suffices(rq, refusal);
    refusal->has_wrong_token = n == 1;
    snprintf(refusal->hint, sizeof refusal->hint,
             "Send the token of the agent's token file: Authorization: Bearer TOKEN");
    return refuse_request(refusal, UNAUTHORIZED,
                          n > 1                       ? "more than one Authorization header"
                          : n == 1                    ? "the token is not this agent's"
                          : rules->takes_certificates ? "a token or a client's certificate is needed"
                                                      : "a token is needed");
}

static bool take_job_key(const struct gate_input *in, struct request *rq, struct gate_refusal *refusal)
{
    const char *value;
    size_t n = head_count(in->head, "X-Job-Key", &value);

    if (n == 0)
        return true;
    if (n > 1 || !is_base64url(value))
        return refuse_request(refusal, BAD_REQUEST,
                              "X-Job-Key is not one key of 43 letters, digits, '-' and '_'");
    sha256_hex(rq->job_key, value, strlen(value));
    return true;
}

static bool take_attempt(const struct gate_input *in, struct request *rq, struct gate_refusal *refusal)
{
    const char *value;
    size_t n = head_count(in->head, "X-Job-Attempt", &value);

    if (n == 0)
        return true;
    if (n > 1 || strlen(value) > 7 || strspn(value, "0123456789") != strlen(value) ||
        (rq->attempt = atoi(value)) == 0)
        return refuse_request(refusal, BAD_REQUEST, "X-Job-Attempt is not one number from 1");
    return true;
}

static bool media_type_is_ours(const char *type)
{
    size_t n = strcspn(type, "; \t");

    return (n == 16 && strncasecmp(type, "application/json", n) == 0) ||
           (n == 24 && strncasecmp(type, "application/octet-stream", n) == 0);
}

static bool check_body(const struct gate_input *in, const struct request *rq, struct gate_refusal *refusal)
{
    const struct route *r = rq->route;
    uint64_t bytes = in->head->body_bytes;
    const char *type;

    if (bytes == 0 && (r->max_body == 0 || (r->flags & ROUTE_BODY_OPTIONAL)))
        return true;
    if (!in->head->has_length)
        return refuse_request(refusal, LENGTH_REQUIRED, "a Content-Length is needed");
    if (r->max_body > 0 && (head_count(in->head, "Content-Type", &type) != 1 || !media_type_is_ours(type)))
        return refuse_request(refusal, UNSUPPORTED_MEDIA_TYPE,
                              "a Content-Type of application/json or application/octet-stream is needed");
    if (bytes > r->max_body)
        return refuse_request(refusal, TOO_LARGE, "%llu bytes exceed the limit of %llu for this path",
                              (unsigned long long)bytes, (unsigned long long)r->max_body);
    if (bytes > in->disk_free)
        return refuse_request(refusal, DISK_FULL,
                              "%llu bytes do not fit: %llu are free for uploads on the agent's disk, and %d "
                              "MiB more are reserved "
                              "for what jobs write",
                              (unsigned long long)bytes, (unsigned long long)in->disk_free, DISK_RESERVE_MIB);
    return true;
}

bool gate_check(const struct gate_rules *rules, const struct gate_input *in, struct request *rq,
                struct gate_refusal *refusal)
{
    const char *target = in->head->target, *query, *accept;

    *rq = (struct request){0};
    *refusal = (struct gate_refusal){0};
    rq->has_tls = in->has_tls;
    while (rq->method < N_METHODS && strcmp(method_names[rq->method], in->head->method) != 0)
        rq->method++;
    if (!target_is_plain(target, &query))
        return refuse_request(refusal, NOT_FOUND, "no resource has this path");
    if (!find_route(rq, in, query ? (size_t)(query - 1 - target) : strlen(target), refusal) ||
        (query && !query_parse(rq, query, refusal)) || !check_site(rules, in, refusal) ||
        !check_token(rules, in, rq, refusal) || !take_job_key(in, rq, refusal) ||
        !take_attempt(in, rq, refusal) || !check_body(in, rq, refusal))
        return false;
    head_count(in->head, "Accept", &accept);
    rq->wants_ndjson = accept && strstr(accept, "application/x-ndjson");
    rq->wants_html = accept && strstr(accept, "text/html");
    head_count(in->head, "If-None-Match", &rq->if_none_match);
    return true;
}
