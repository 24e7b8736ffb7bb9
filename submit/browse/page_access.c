#include "submit/browse/page_access.h"

#include <stdio.h>
#include <string.h>

#include "shared/http/origin.h"

void page_access_init(struct page_access *a, int port)
{
    uint8_t bytes[SHA256_BYTES];

    *a = (struct page_access){.port = port};
    random_bytes(bytes, sizeof bytes);
    base64url(a->token, bytes);
    random_bytes(bytes, sizeof bytes);
    base64url(a->cookie, bytes);
    snprintf(a->cookie_name, sizeof a->cookie_name, "psgd-%d", port);
}

static bool is_secret(const char *given, size_t len, const char *secret)
{
    return len == strlen(secret) && equal_in_constant_time(given, secret, len);
}

/* "a=1; psgd-8000=COOKIE; b=2" */
static bool has_cookie(const struct page_access *a, const char *header)
{
    size_t n = strlen(a->cookie_name);

    for (const char *at = header; at && *at; at += strspn(at, "; ")) {
        size_t len = strcspn(at, ";");

        if (len > n && strncmp(at, a->cookie_name, n) == 0 && at[n] == '=' &&
            is_secret(at + n + 1, len - n - 1, a->cookie))
            return true;
        at += len;
    }
    return false;
}

static enum page_answer refuse_request(struct page_refusal *out, int status, const char *why)
{
    *out = (struct page_refusal){status, why};
    return PAGE_REFUSE;
}

static const char *header_of(const struct head *head, const char *name)
{
    const char *value;

    head_count(head, name, &value);
    return value;
}

/* The printed address; a link on any site may lead to it. */
static enum page_answer check_token(struct page_access *a, const struct head *head, const char *path,
                                    const char *token, struct page_refusal *out)
{
    if (strcmp(head->method, "GET") != 0 || strcmp(path, "/") != 0 ||
        !is_secret(token, strlen(token), a->token))
        return refuse_request(out, 403, "this is not the token that job_submit browse printed");
    if (a->is_used && !has_cookie(a, header_of(head, "Cookie")))
        return refuse_request(
            out, 403,
            "the address works once, and was used already: start job_submit browse again for "
            "another one");
    a->is_used = true;
    return PAGE_SET_COOKIE;
}

static bool has_twice(const struct head *head, const char *name)
{
    const char *value;

    return head_count(head, name, &value) > 1;
}

enum page_answer page_access_check(struct page_access *a, const struct head *head, const char *path,
                                   const char *token, struct page_refusal *out)
{
    const struct own_names own = {.bound_host = "127.0.0.1", .local_host = "127.0.0.1", .port = a->port};
    const char *host, *why;
    enum host_finding found = host_check(&own, head, &host);

    if (found == HOST_IS_NOT_ONE)
        return refuse_request(out, 400, host_is_not_one);
    if (found == HOST_IS_FOREIGN)
        return refuse_request(
            out, 403, "this is not the address of the page: use the one that job_submit browse printed");
    if (has_twice(head, "Cookie") || has_twice(head, "X-Psgd"))
        return refuse_request(out, 400, "the request has a header twice");
    if (head->body_bytes > 0)
        return refuse_request(out, 413, "the request has a body, but the page expects none");
    if (token)
        return check_token(a, head, path, token, out);
    why = origin_refusal(&own, head);
    if (why)
        return refuse_request(out, 403, why);
    if (!has_cookie(a, header_of(head, "Cookie")))
        return refuse_request(out, 403,
                              "this browser has not opened the address that job_submit browse printed");
    if (strcmp(head->method, "POST") == 0 &&
        strcmp(header_of(head, "X-Psgd") ? header_of(head, "X-Psgd") : "", "1") != 0)
        return refuse_request(out, 403, "the header X-Psgd: 1 is missing");
    return PAGE_SERVE;
}
