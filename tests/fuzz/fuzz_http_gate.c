/* Any head of a request at the gate: method, target and headers, each a line of the input. An accepted one
 * must satisfy the rules of docs/protocol.md 1.1, checked here by a second implementation. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "agent/api/gate.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

enum { MAX_LINES = 24 };

static struct token token = {.name = "owner", .scope = SCOPE_ADMIN, .is_valid = true};
static const char *const allowed[] = {"gpu-box", NULL};
static const struct gate_rules rules = {
    .bound_host = "127.0.0.1", .port = 15387, .allow_hosts = allowed, .token = &token};

static const char *only(const struct gate_input *in, const char *name, size_t *count)
{
    const char *value = NULL;

    *count = 0;
    for (size_t i = 0; i < in->n_headers; i++)
        if (strcasecmp(in->headers[i].name, name) == 0) {
            value = in->headers[i].value;
            ++*count;
        }
    return value;
}

static void must(bool ok)
{
    if (!ok)
        abort();
}

static void check_target(const char *t)
{
    must(t && t[0] == '/' && strlen(t) <= 512 && !strstr(t, ".."));
    for (; *t; t++)
        must(isalnum((unsigned char)*t) || strchr("/_.-?,&=", *t));
}

/* A loopback name with any port. */
static bool is_tunnel(const char *host)
{
    static const char *const names[] = {"localhost:", "[localhost]:", "127.0.0.1:", "[127.0.0.1]:", "[::1]:"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t n = strlen(names[i]);

        if (strncasecmp(host, names[i], n) == 0 && host[n])
            return strspn(host + n, "0123456789") == strlen(host + n);
    }
    return false;
}

static void check_host(const char *host)
{
    static const char *const ours[] = {"localhost", "127.0.0.1", "gpu-box"};
    bool found = is_tunnel(host);

    for (size_t i = 0; i < 3; i++) {
        char with_port[64];

        snprintf(with_port, sizeof with_port, "%s:15387", ours[i]);
        found = found || strcasecmp(host, ours[i]) == 0 || strcasecmp(host, with_port) == 0;
        snprintf(with_port, sizeof with_port, "[%s]:15387", ours[i]);
        found = found || strcasecmp(host, with_port) == 0;
        snprintf(with_port, sizeof with_port, "[%s]", ours[i]);
        found = found || strcasecmp(host, with_port) == 0;
    }
    must(found);
}

static void check_let_in(const struct gate_input *in, const struct request *rq, const struct gate_answer *v)
{
    const char *value;
    size_t n;

    check_target(in->target);
    must(rq->route &&
         (rq->method == rq->route->method || (rq->method == METHOD_HEAD && rq->route->method == METHOD_GET)));
    value = only(in, "Host", &n);
    must(n == 1);
    check_host(value);
    value = only(in, "Sec-Fetch-Site", &n);
    must(n == 0 || (n == 1 && (strcmp(value, "same-origin") == 0 || strcmp(value, "none") == 0)));
    value = only(in, "Origin", &n);
    must(n == 0 || (n == 1 && strncmp(value, "http://", 7) == 0));
    value = only(in, "Authorization", &n);
    must(rq->route->needs == NEEDS_NOTHING || rq->route->needs == NEEDS_LOCAL ||
         (n == 1 && strcasecmp(value, "Bearer right-token") == 0));
    value = only(in, "X-Job-Key", &n);
    must(n == 0 ? !rq->job_key[0] : n == 1 && strlen(value) == 43 && strlen(rq->job_key) == 64);
    value = only(in, "X-Job-Attempt", &n);
    must(n == 0 ? rq->attempt == 0 : n == 1 && rq->attempt == atoi(value) && rq->attempt > 0);
    only(in, "Transfer-Encoding", &n);
    must(n == 0);
    only(in, "Content-Length", &n);
    must(n <= 1 && v->body_bytes <= rq->route->max_body && v->body_bytes <= in->disk_free);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    char *text = malloc(len + 1);
    struct header headers[MAX_LINES];
    char *lines[MAX_LINES] = {0};
    size_t n = 0;
    struct gate_input in;
    struct request rq;
    struct gate_answer v;

    if (!text)
        return 0;
    memcpy(text, bytes, len);
    text[len] = '\0';
    sha256(token.digest, "right-token", 11);
    for (char *p = text; p && n < MAX_LINES; n++)
        lines[n] = strsep(&p, "\n");
    in = (struct gate_input){.method = lines[0],
                             .target = lines[1],
                             .headers = headers,
                             .is_loopback = true,
                             .disk_free = 1 << 20};
    for (size_t i = 2; i < n; i++) {
        char *colon = strchr(lines[i], ':');

        if (!colon)
            continue;
        *colon = '\0';
        headers[in.n_headers++] = (struct header){lines[i], colon + 1 + (colon[1] == ' ')};
    }
    if (gate_check(&rules, &in, &rq, &v))
        check_let_in(&in, &rq, &v);
    else
        must(v.problem != PROBLEM_NONE && v.detail[0]);
    free(text);
    return 0;
}
