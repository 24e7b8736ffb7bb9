/* head -- the head of a request, from the bytes that a client sent. HTTP libraries accept heads that RFC 9112
 * forbids, different ones in each version, so that two programs may read two requests from one head. So a
 * head is read here by the strictest reading of the RFC, once for all services, and libmicrohttpd sees only
 * what head_write makes of it.
 *
 * A head is: METHOD SP target SP HTTP/1.1 or HTTP/1.0 CRLF, then lines NAME: value CRLF, then CRLF. METHOD is
 * of A-Z; the target begins with '/' and is of visible ASCII; NAME is a token; a value has no control
 * character but HTAB. Every CR is followed by LF and every LF preceded by CR, no line begins with a space,
 * and nothing precedes the method. At most one Content-Length, of 1 to 18 digits, and no
 * Transfer-Encoding. */
#ifndef PSGD_HTTP_HEAD_H
#define PSGD_HTTP_HEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { HEAD_MAX = 16 << 10, HEADERS_MAX = 64, HEAD_WRITTEN_MAX = 256 };

struct header {
    const char *name, *value;
};

struct head {
    const char *method, *target; /* these and the headers point into the bytes read */
    struct header headers[HEADERS_MAX];
    size_t n_headers;
    bool is_1_0, wants_close, wants_continue;
    bool has_length;     /* it has a Content-Length */
    uint64_t body_bytes; /* that many, else 0 */
};

/* Of a head that is not valid, with the reason: the sentence for its client. */
#define HEAD_INVALID "the head of the request is not valid: %s"

/* Looks for the end of a head in the first `len` bytes, of which an earlier call has seen *seen. Returns its
 * length, or 0 if it is not complete. As soon as a byte is not allowed where it is, returns -1 and the reason
 * in *why. */
ssize_t head_find_end(const char *bytes, size_t len, size_t *seen, const char **why);

/* Parses a head of that length, and puts zero bytes behind the names and values. On failure *why has the
 * reason. */
bool head_parse(struct head *out, char *bytes, size_t len, const char **why);

/* Returns how many headers have this name; *value is that of the first, or NULL. */
size_t head_count(const struct head *h, const char *name, const char **value);

/* Writes the head that libmicrohttpd gets: method and version, a Host, and of the other headers those that
 * concern the connection itself. Its target is always "/": the service reads the one of `head`. Returns its
 * length. */
size_t head_write(char out[HEAD_WRITTEN_MAX], const struct head *head);

#endif
