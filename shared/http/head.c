#include "shared/http/head.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define UPPER "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
/* RFC 9110, 5.6.2: the characters of a token. */
#define TOKEN UPPER "abcdefghijklmnopqrstuvwxyz0123456789!#$%&'*+-.^_`|~"

enum { METHOD_MAX = 16, LENGTH_DIGITS = 18 };

ssize_t head_find_end(const char *bytes, size_t len, size_t *seen, const char **why)
{
    for (size_t i = *seen; i < len; i++) {
        unsigned char c = (unsigned char)bytes[i];

        if (i > 0 && (c == '\n') != (bytes[i - 1] == '\r')) {
            *why = c == '\n' ? "a line feed without a carriage return"
                             : "a carriage return without a line feed";
            return -1;
        }
        if ((c < ' ' && c != '\r' && c != '\n' && c != '\t') || c == 0x7f) {
            *why = "a control character";
            return -1;
        }
        if (i == 0 && (c < 'A' || c > 'Z')) {
            *why = "it does not begin with a method";
            return -1;
        }
        if (c == '\n' && i >= 3 && bytes[i - 2] == '\n')
            return (ssize_t)i + 1;
        if (i + 1 == HEAD_MAX) {
            *why = "it is too long";
            return -1;
        }
    }
    *seen = len;
    return 0;
}

/* Ends the text at `p` by a zero byte, before `n` bytes that follow it. Returns what follows them. */
static char *cut(char *p, size_t n)
{
    *p = '\0';
    return p + n;
}

/* Returns what follows the request line, or NULL. */
static char *parse_request_line(struct head *h, char *line, const char **why)
{
    char *end = strstr(line, "\r\n"), *p = line;
    size_t n = strspn(p, UPPER);

    *why = "the request line is not METHOD /target HTTP/1.1";
    if (n == 0 || n > METHOD_MAX || p[n] != ' ')
        return NULL;
    h->method = p;
    h->target = p = cut(p + n, 1);
    if (*p != '/')
        return NULL;
    while (*p > ' ' && *p < 0x7f)
        p++;
    if (*p != ' ')
        return NULL;
    p = cut(p, 1);
    h->is_1_0 = strncmp(p, "HTTP/1.0", 8) == 0;
    if (p + 8 != end || (!h->is_1_0 && strncmp(p, "HTTP/1.1", 8) != 0))
        return NULL;
    return end + 2;
}

static char *parse_header(struct header *out, char *line, const char **why)
{
    char *end = strstr(line, "\r\n"), *next = end + 2;
    size_t n = strspn(line, TOKEN);

    if (n == 0 || line[n] != ':') {
        *why = line[0] == ' ' || line[0] == '\t' ? "a header that goes on in a second line"
                                                 : "a line that is not NAME: value";
        return NULL;
    }
    out->name = line;
    line = cut(line + n, 1);
    line += strspn(line, " \t");
    while (end > line && (end[-1] == ' ' || end[-1] == '\t'))
        end--;
    cut(end, 0);
    out->value = line;
    return next;
}

static bool has_item(const char *list, const char *item)
{
    size_t n_item = strlen(item);

    for (;;) {
        size_t n;

        list += strspn(list, " \t,");
        n = strcspn(list, " \t,");
        if (n == 0)
            return false;
        if (n == n_item && strncasecmp(list, item, n) == 0)
            return true;
        list += n;
    }
}

/* Takes from the header what concerns the connection and the length of the body. */
static bool apply_header(struct head *h, const struct header *header, const char **why)
{
    const char *value = header->value;

    if (strcasecmp(header->name, "Connection") == 0) {
        h->wants_close |= has_item(value, "close");
    } else if (strcasecmp(header->name, "Expect") == 0) {
        h->wants_continue = strcasecmp(value, "100-continue") == 0;
    } else if (strcasecmp(header->name, "Transfer-Encoding") == 0) {
        *why = "Transfer-Encoding is not supported: send a Content-Length";
        return false;
    } else if (strcasecmp(header->name, "Content-Length") == 0) {
        *why = "exactly one Content-Length in decimal digits is needed";
        if (h->has_length || !value[0] || strlen(value) > LENGTH_DIGITS ||
            strspn(value, "0123456789") != strlen(value))
            return false;
        h->has_length = true;
        h->body_bytes = strtoull(value, NULL, 10);
    }
    return true;
}

bool head_parse(struct head *out, char *bytes, size_t len, const char **why)
{
    char *end = bytes + len - 2, *line; /* the empty line */

    *out = (struct head){.n_headers = 0};
    *end = '\0';
    line = parse_request_line(out, bytes, why);
    for (; line && line < end; out->n_headers++) {
        struct header *header = &out->headers[out->n_headers];

        if (out->n_headers == HEADERS_MAX) {
            *why = "more than 64 headers";
            return false;
        }
        line = parse_header(header, line, why);
        if (line && !apply_header(out, header, why))
            return false;
    }
    return line;
}

size_t head_count(const struct head *h, const char *name, const char **value)
{
    size_t count = 0;

    *value = NULL;
    for (size_t i = 0; i < h->n_headers; i++)
        if (strcasecmp(h->headers[i].name, name) == 0 && count++ == 0)
            *value = h->headers[i].value;
    return count;
}

size_t head_write(char out[HEAD_WRITTEN_MAX], const struct head *head)
{
    int n = snprintf(out, HEAD_WRITTEN_MAX, "%s / HTTP/1.%d\r\nHost: here\r\n", head->method,
                     head->is_1_0 ? 0 : 1);

    if (head->body_bytes > 0)
        n += snprintf(out + n, HEAD_WRITTEN_MAX - (size_t)n, "Content-Length: %llu\r\n",
                      (unsigned long long)head->body_bytes);
    n += snprintf(out + n, HEAD_WRITTEN_MAX - (size_t)n, "%s%s\r\n",
                  head->wants_close ? "Connection: close\r\n" : "",
                  head->wants_continue ? "Expect: 100-continue\r\n" : "");
    return (size_t)n;
}
