#include "tests/lib/request_check.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static bool is_token_char(char c)
{
    return isalnum((unsigned char)c) || (c && strchr("!#$%&'*+-.^_`|~", c));
}

static bool copy(char *out, size_t size, const char *from, const char *to)
{
    if ((size_t)(to - from) >= size)
        return false;
    memcpy(out, from, (size_t)(to - from));
    out[to - from] = '\0';
    return true;
}

/* The line from `p` up to its CR LF, or NULL. */
static const char *line_end(const char *p, const char *end)
{
    for (; p + 1 < end; p++)
        if (p[0] == '\r' && p[1] == '\n')
            return p;
    return NULL;
}

static bool read_request_line(struct checked_request *rq, const char *p, const char *end)
{
    const char *space = memchr(p, ' ', (size_t)(end - p)), *second;

    if (!space || space == p || space - p > 16 || !copy(rq->method, sizeof rq->method, p, space))
        return false;
    for (const char *m = rq->method; *m; m++)
        if (!isupper((unsigned char)*m))
            return false;
    p = space + 1;
    second = memchr(p, ' ', (size_t)(end - p));
    if (!second || *p != '/' || !copy(rq->target, sizeof rq->target, p, second))
        return false;
    for (const char *t = rq->target; *t; t++)
        if (!isgraph((unsigned char)*t) || (unsigned char)*t > 0x7e)
            return false;
    rq->minor = end[-1] - '0';
    return end - second == 9 && memcmp(second + 1, "HTTP/1.", 7) == 0 && (rq->minor == 0 || rq->minor == 1);
}

static bool read_header(struct checked_header *h, const char *p, const char *end)
{
    const char *colon = memchr(p, ':', (size_t)(end - p));

    if (!colon || colon == p || !copy(h->name, sizeof h->name, p, colon))
        return false;
    for (const char *n = h->name; *n; n++)
        if (!is_token_char(*n))
            return false;
    if (strlen(h->name) != (size_t)(colon - p)) /* a NUL in it */
        return false;
    for (p = colon + 1; p < end && (*p == ' ' || *p == '\t'); p++)
        ;
    while (end > p && (end[-1] == ' ' || end[-1] == '\t'))
        end--;
    for (const char *v = p; v < end; v++)
        if (*v != '\t' && ((unsigned char)*v < ' ' || *v == 0x7f))
            return false;
    return copy(h->value, sizeof h->value, p, end);
}

static const char *find(const struct checked_request *rq, const char *name, size_t *count)
{
    const char *value = NULL;

    *count = 0;
    for (size_t i = 0; i < rq->n; i++)
        if (strcasecmp(rq->headers[i].name, name) == 0 && ++*count == 1)
            value = rq->headers[i].value;
    return value;
}

static bool read_framing(struct checked_request *rq)
{
    size_t n;
    const char *length;

    find(rq, "Transfer-Encoding", &n);
    if (n > 0)
        return false;
    length = find(rq, "Content-Length", &n);
    if (n == 0)
        return true;
    if (n > 1 || !length[0] || strlen(length) > 18 || strspn(length, "0123456789") != strlen(length))
        return false;
    rq->body = (size_t)strtoull(length, NULL, 10);
    return true;
}

bool request_is_tls(const char *bytes, size_t len)
{
    return len > 0 && bytes[0] == 0x16;
}

enum checked request_read(struct checked_request *rq, const char *bytes, size_t len)
{
    const char *end = bytes + len, *p = bytes, *eol;

    rq->n = rq->body = 0;
    for (size_t i = 0; i < len; i++) { /* bytes that no head has, before its end or not */
        char c = bytes[i];

        if (i >= 4 && memcmp(bytes + i - 4, "\r\n\r\n", 4) == 0)
            break;
        if (i >= 16 << 10 || (i == 0 && !isupper((unsigned char)c)) || c == 0x7f ||
            (iscntrl((unsigned char)c) && !strchr("\t\r\n", c)) || c == '\0' ||
            (c == '\n' && (i == 0 || bytes[i - 1] != '\r')) || (c != '\n' && i > 0 && bytes[i - 1] == '\r'))
            return CHECKED_INVALID;
    }
    eol = line_end(p, end);
    if (!eol || !memmem(bytes, len, "\r\n\r\n", 4))
        return CHECKED_INCOMPLETE;
    if (!read_request_line(rq, p, eol))
        return CHECKED_INVALID;
    for (p = eol + 2; (eol = line_end(p, end)) != p; p = eol + 2)
        if (rq->n == CHECKED_HEADERS || !read_header(&rq->headers[rq->n++], p, eol))
            return CHECKED_INVALID;
    rq->len = (size_t)(p + 2 - bytes);
    return read_framing(rq) ? CHECKED_OK : CHECKED_INVALID;
}

static bool has_prefix(const char **text, const char *prefix)
{
    size_t n = strlen(prefix);

    if (strncasecmp(*text, prefix, n) != 0)
        return false;
    *text += n;
    return true;
}

/* localhost, 127.0.0.1 or [::1], with any port of digits or none; or the address itself. */
static bool is_our_host(const char *host, const char *address)
{
    static const char *const names[] = {"localhost", "127.0.0.1", "[::1]", "[localhost]", "[127.0.0.1]"};

    if (strcasecmp(host, address) == 0)
        return true;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *rest = host;

        if (has_prefix(&rest, names[i]) &&
            (!*rest || (rest[0] == ':' && rest[1] && strspn(rest + 1, "0123456789") == strlen(rest + 1))))
            return true;
    }
    return false;
}

static bool is_path(const char *one, const char *path, size_t len)
{
    return strlen(one) == len && memcmp(one, path, len) == 0;
}

/* Served without a token, on a loopback address. */
static bool is_public(const char *path, size_t len)
{
    static const char *const paths[] = {"/",          "/healthz", "/readyz",
                                        "/v1/status", "/metrics", "/openapi.json"};

    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        if (is_path(paths[i], path, len))
            return true;
    return len > 10 && memcmp(path, "/problems/", 10) == 0;
}

static bool is_served(const char *path, size_t len)
{
    static const char *const others[] = {"/v1/agent", "/v1/jobs"};

    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (is_path(others[i], path, len))
            return true;
    return is_public(path, len) || (len > 9 && memcmp(path, "/v1/jobs/", 9) == 0) ||
           (len == 17 + 64 && memcmp(path, "/v1/blobs/sha256/", 17) == 0);
}

bool request_may_succeed(const struct checked_request *rq, const char *address, const char *token)
{
    size_t path = strcspn(rq->target, "?"), n, n_type;
    const char *value = find(rq, "Host", &n);

    if (n != 1 || !is_our_host(value, address))
        return false;
    if (!is_served(rq->target, path) || strlen(rq->target) > 512 || strstr(rq->target, "..") ||
        strspn(rq->target, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789/_.-?,&=") !=
            strlen(rq->target))
        return false;
    value = find(rq, "Origin", &n);
    if (n > 1 || (n == 1 && (!has_prefix(&value, "http://") || !is_our_host(value, address))))
        return false;
    value = find(rq, "Sec-Fetch-Site", &n);
    if (n > 1 || (n == 1 && strcmp(value, "same-origin") != 0 && strcmp(value, "none") != 0))
        return false;
    value = find(rq, "Authorization", &n);
    if (!is_public(rq->target, path) &&
        (n != 1 || !has_prefix(&value, "Bearer ") || strcmp(value, token) != 0))
        return false;
    value = find(rq, "Content-Type", &n_type);
    if (rq->body > 0 && (n_type != 1 || (strncasecmp(value, "application/json", 16) != 0 &&
                                         strncasecmp(value, "application/octet-stream", 24) != 0)))
        return false;
    return strcmp(rq->method, "GET") == 0 || strcmp(rq->method, "HEAD") == 0 ||
           strcmp(rq->method, "PUT") == 0 || strcmp(rq->method, "POST") == 0 ||
           strcmp(rq->method, "DELETE") == 0;
}

size_t request_fill(char *out, size_t size, const char *text, size_t len, const char *token)
{
    size_t n = 0, n_token = strlen(token);

    for (size_t i = 0; i < len; i++) {
        bool is_token = text[i] == '$';
        size_t more = is_token ? n_token : 1;

        if (more > size - n)
            break;
        memcpy(out + n, is_token ? token : text + i, more);
        n += more;
    }
    return n;
}
