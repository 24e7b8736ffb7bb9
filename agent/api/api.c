#include "agent/api/api.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/base/log.h"
#include "agent/jobs/counts.h"
#include "shared/base/json.h"

enum { DIGITS_MAX = 15 };

/* How long a request may wait (timeout_s): at most, and without that parameter. */
static const double MAX_WAIT_S = 3600, DEFAULT_WAIT_S = 60;

const char *const method_names[N_METHODS] = {
    [METHOD_GET] = "GET", [METHOD_HEAD] = "HEAD",     [METHOD_POST] = "POST",
    [METHOD_PUT] = "PUT", [METHOD_DELETE] = "DELETE",
};

#define ONE(...) +1
_Static_assert(0 ROUTES(ONE) < COUNTS_ROUTES, "raise COUNTS_ROUTES");
#undef ONE
_Static_assert(N_METHODS + 1 == COUNTS_METHODS, "counts.h: COUNTS_METHODS");

#define ROUTE(method, pattern, handler, needs, max_body, flags, summary, takes, answers, ...)                \
    {METHOD_##method, pattern, handler, NEEDS_##needs, max_body,                                             \
     flags,           summary, takes,   answers,       {__VA_ARGS__}},
const struct route routes[] = {ROUTES(ROUTE)};
#undef ROUTE
const size_t n_routes = sizeof routes / sizeof routes[0];

size_t route_number(const struct route *r)
{
    return r ? (size_t)(r - routes) + 1 : 0;
}

const char *route_label(size_t i)
{
    return i == 0 ? "none" : i <= n_routes ? routes[i - 1].pattern : NULL;
}

const char *method_label(size_t i)
{
    return i < N_METHODS ? method_names[i] : "other";
}

static bool argument_fits(const char *kind, size_t kind_len, const char *value)
{
    if (strncmp(kind, "{id}", kind_len) == 0)
        return is_job_id(value);
    if (strncmp(kind, "{hex}", kind_len) == 0)
        return is_sha256_hex(value);
    return value[0] && !strstr(value, "..");
}

/* Segment by segment; `path` holds only characters that need no decoding. */
bool route_matches(const struct route *r, const char *path, size_t len, struct request *rq)
{
    const char *p = r->pattern, *end = path + len;
    size_t n_args = 0;

    memset(rq->arg, 0, sizeof rq->arg);
    while (*p && path < end) {
        size_t n_p = strcspn(p + 1, "/") + 1;
        size_t n = 1;

        if (*path != '/')
            return false;
        while (path + n < end && path[n] != '/')
            n++;
        if (p[1] == '{') {
            char *arg = rq->arg[n_args++];

            if (n - 1 > ARG_MAX)
                return false;
            memcpy(arg, path + 1, n - 1);
            arg[n - 1] = '\0';
            if (!argument_fits(p + 1, n_p - 1, arg))
                return false;
        } else if (n != n_p || memcmp(p, path, n) != 0) {
            return false;
        }
        p += n_p;
        path += n;
    }
    return !*p && path == end;
}

const char *query_get(const struct request *rq, const char *key)
{
    for (size_t i = 0; i < rq->n_query; i++)
        if (strcmp(rq->query[i].key, key) == 0)
            return rq->query[i].value;
    return NULL;
}

bool query_number(uint64_t *out, const struct request *rq, struct api_response *rs, const char *key,
                  uint64_t least, uint64_t otherwise)
{
    const char *text = query_get(rq, key);

    *out = otherwise;
    if (!text)
        return true;
    if (text[0] && strspn(text, "0123456789") == strlen(text) && strlen(text) <= DIGITS_MAX) {
        *out = strtoull(text, NULL, 10);
        if (*out >= least)
            return true;
    }
    respond_problem(rs, BAD_REQUEST, NULL, "%s=%s: not a number from %llu, of at most %d digits", key, text,
                    (unsigned long long)least, DIGITS_MAX);
    return false;
}

bool api_timeout(double *out, const struct request *rq, struct api_response *rs)
{
    const char *text = query_get(rq, "timeout_s");
    char *end;

    *out = text ? strtod(text, &end) : DEFAULT_WAIT_S;
    if (!text || (!*end && strspn(text, "0123456789.") == strlen(text) && *out <= MAX_WAIT_S))
        return true;
    respond_problem(rs, BAD_REQUEST, NULL, "timeout_s=%s: not a number from 0 to %g", text, MAX_WAIT_S);
    return false;
}

json_t *api_body(const struct request *rq, struct api_response *rs)
{
    struct err e;
    json_t *doc;

    if (json_parse(&doc, rq->body ? rq->body : "", rq->body_len, "body", &e) == 0)
        return doc;
    respond_problem(rs, BAD_REQUEST, NULL, "%s", e.text);
    return NULL;
}

bool api_sees_all(const struct request *rq)
{
    return !rq->is_authorised /* the route allows it, from a loopback address */ || rq->scope != SCOPE_SUBMIT;
}

bool api_is_listed(const struct request *rq, const struct job *j)
{
    return api_sees_all(rq) || strcmp(j->owner, rq->who) == 0;
}

bool api_is_open(const struct request *rq, const char key_sha256[SHA256_HEX])
{
    bool has_key = key_sha256[0] && rq->job_key[0] &&
                   equal_in_constant_time(key_sha256, rq->job_key, SHA256_HEX);

    return has_key || rq->scope == SCOPE_ADMIN || (rq->scope == SCOPE_READ && rq->route->needs == NEEDS_READ);
}

void respond_problem(struct api_response *rs, enum problem p, const char *hint, const char *fmt, ...)
{
    char detail[1024], error_id[16];
    uint8_t id[4];
    va_list ap;

    random_bytes(id, sizeof id);
    memcpy(error_id, "e-", 2);
    hex_encode(error_id + 2, id, sizeof id);
    va_start(ap, fmt);
    vsnprintf(detail, sizeof detail, fmt, ap);
    va_end(ap);
    response_clear(rs);
    rs->status = problem_status(p);
    rs->type = "application/problem+json";
    rs->body = problem_document(p, detail, hint, error_id);
    if (!rs->body) /* perhaps memory failed only for the document that this one reports on */
        rs->body = problem_document(p, detail, hint, error_id);
    rs->len = rs->body ? strlen(rs->body) : 0;
    if (p == TOO_MANY_REQUESTS || p == DRAINING || p == OVERLOADED)
        rs->retry_after_s = 5;
    if (rs->status >= 500)
        log_line(LOG_LEVEL_ERROR, "agent", NULL, "http: %s %s: %s", error_id, problem_code(p), detail);
}

void respond_error(struct api_response *rs, const struct err *e)
{
    respond_problem(rs, problem_of(e), e->hint, "%s", e->text);
}

static void respond_document(struct api_response *rs, int status, json_t *take, bool is_indented)
{
    char *text = json_dump_line(take, is_indented ? JSON_INDENT(2) : JSON_COMPACT);

    json_decref(take);
    if (!text) {
        respond_problem(rs, INTERNAL, NULL, "no memory for the response");
        return;
    }
    response_clear(rs);
    rs->status = status;
    rs->type = "application/json";
    rs->body = text;
    rs->len = strlen(text);
}

void respond_json(struct api_response *rs, int status, json_t *take)
{
    respond_document(rs, status, take, false);
}

void respond_page(struct api_response *rs, json_t *take)
{
    respond_document(rs, 200, take, true);
}

void response_clear(struct api_response *rs)
{
    if (rs->kind == RESPONSE_FILE && rs->fd >= 0)
        close(rs->fd);
    if (rs->awaited)
        rs->wait->drop(rs->awaited);
    free(rs->body);
    *rs = (struct api_response){0};
}
