/* Any head of a request, read as the server does and then at the gate: method, target and headers, each a
 * line of the input. An accepted one must satisfy the rules of docs/protocol.md 1.1, checked here by a second
 * implementation. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "agent/api/gate.h"
#include "shared/http/http_server_private.h"
#include "tests/fuzz/must.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static struct token token = {.name = "owner", .scope = SCOPE_ADMIN, .is_valid = true};
static const char *const allowed[] = {"gpu-box", NULL};
static const struct gate_rules rules = {
    .bound_host = "127.0.0.1", .port = 15387, .allow_hosts = allowed, .token = &token};

static const char *only(const struct gate_input *in, const char *name, size_t *count)
{
    const char *value = NULL;

    *count = 0;
    for (size_t i = 0; i < in->head->n_headers; i++)
        if (strcasecmp(in->head->headers[i].name, name) == 0) {
            value = in->head->headers[i].value;
            ++*count;
        }
    return value;
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

static void check_admitted(const struct gate_input *in, const struct request *rq)
{
    const char *value;
    size_t n;

    check_target(in->head->target);
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
    must(n <= 1 && in->head->body_bytes <= rq->route->max_body && in->head->body_bytes <= in->disk_free);
}

/* Writes the lines as a head. Returns its length; 0: they do not fit. */
static size_t write_head(char out[HEAD_MAX + 1], char *text)
{
    size_t n = 0;

    for (int i = 0; text; i++) {
        const char *line = strsep(&text, "\n"), *end = i == 0 ? " " : i == 1 ? " HTTP/1.1\r\n" : "\r\n";

        if (i > 1 && !line[0]) /* the end of the file */
            continue;
        if (n + strlen(line) + strlen(end) + 2 > HEAD_MAX)
            return 0;
        n += (size_t)sprintf(out + n, "%s%s", line, end);
    }
    return n + (size_t)sprintf(out + n, "\r\n");
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    static struct request_head box;
    const struct gate_input in = {.head = &box.head, .is_loopback = true, .disk_free = 1 << 20};
    char *text = malloc(len + 1);
    const char *why = NULL;
    struct request rq;
    struct gate_refusal answer;
    ssize_t n_head;
    size_t n;

    if (!text)
        return 0;
    memcpy(text, bytes, len);
    text[len] = '\0';
    sha256(token.digest, "right-token", 11);
    n = write_head(box.bytes, text);
    free(text);
    box.n_seen = 0;
    n_head = head_find_end(box.bytes, n, &box.n_seen, &why);
    if (n_head <= 0 || !head_parse(&box.head, box.bytes, (size_t)n_head, &why)) {
        must(n_head == 0 || why);
        return 0;
    }
    if (gate_check(&rules, &in, &rq, &answer))
        check_admitted(&in, &rq);
    else
        must(answer.problem != PROBLEM_NONE && answer.detail[0]);
    return 0;
}
