/* request_check -- a second parser of raw requests, by RFC 9112 and docs/protocol.md, independent of the
 * agent's: tests compare the two, and the agent's answers with those that this parser allows. */
#ifndef PSGD_TEST_REQUEST_CHECK_H
#define PSGD_TEST_REQUEST_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CHECKED_HEADERS = 64, CHECKED_TEXT = 16 << 10 };

struct checked_header {
    char name[CHECKED_TEXT], value[CHECKED_TEXT];
};

struct checked_request {
    char method[32], target[CHECKED_TEXT];
    int minor;           /* of the version: 0 or 1 */
    size_t n, len, body; /* headers; bytes of the head; bytes that it announces behind it */
    struct checked_header headers[CHECKED_HEADERS];
};

enum checked { CHECKED_OK, CHECKED_INCOMPLETE, CHECKED_INVALID };

/* Whether they begin a handshake of TLS, which no agent answers in plain HTTP. */
bool request_is_tls(const char *bytes, size_t len);

enum checked request_read(struct checked_request *out, const char *bytes, size_t len);

/* Whether an agent without TLS at `address` ("127.0.0.1:PORT"), asked from a loopback address, may answer
 * with 2xx: the path is one that is served, every condition of the gate holds, and the token is this one. */
bool request_may_succeed(const struct checked_request *rq, const char *address, const char *token);

/* Copies a raw request, with the token in place of each $, as far as it fits. Returns its length. */
size_t request_fill(char *out, size_t size, const char *text, size_t len, const char *token);

#endif
