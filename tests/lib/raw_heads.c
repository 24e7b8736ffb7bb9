#include "tests/lib/raw_heads.h"

#include <stdio.h>
#include <string.h>

size_t raw_head_of_length(char *out, size_t len, const char *token)
{
    char begin[512];
    int n = snprintf(begin, sizeof begin, "GET / HTTP/1.1\r\n" HOST "Cookie: %s\r\nX: ", token);

    memset(out, 'x', len);
    memcpy(out, begin, (size_t)n);
    memcpy(out + len - 4, "\r\n\r\n", 4);
    return len;
}

size_t raw_head_of_headers(char *out, size_t size, int n, const char *token)
{
    int len = snprintf(out, size, "GET / HTTP/1.1\r\n" HOST "Cookie: %s\r\n", token);

    for (int i = 2; i < n; i++)
        len += snprintf(out + len, size - (size_t)len, "X: %d\r\n", i);
    len += snprintf(out + len, size - (size_t)len, END);
    return (size_t)len;
}
