/* tls_session -- the server's end of TLS 1.3, over a connected non-blocking socket.
 * The library's own TLS is not used: in its epoll mode (0.9.75) an unfinished handshake occupies a processor,
 * and it hands over requests without the bytes that they were made of. */
#ifndef PSGD_HTTP_TLS_H
#define PSGD_HTTP_TLS_H

#include <sys/types.h>

#include "shared/base/err.h"

struct tls_keys;
struct tls_session;

enum { TLS_CLIENT_MAX = 64 }; /* bytes of what tls_session_client returns */

/* The server's key and certificate, and the certificates of the CAs whose clients it knows; NULL: it asks for
 * no client's certificate. All PEM. ERR_CONFIG: not a key and its certificate, or no certificate of a CA. */
int tls_keys_new(struct tls_keys **out, const char *key, const char *certificate, const char *client_ca,
                 struct err *e);
void tls_keys_free(struct tls_keys *k); /* NULL is allowed */

struct tls_session *tls_session_new(const struct tls_keys *k, int fd); /* NULL: no memory */
void tls_session_free(struct tls_session *t);                          /* NULL is allowed */
/* Tells the other end that nothing more is sent, if the socket has room. */
void tls_session_bye(struct tls_session *t);

/* The first byte of a client that speaks TLS: the type of a record with a handshake (RFC 8446, 5.1). No HTTP
 * method begins with it. */
enum { TLS_FIRST_BYTE = 22 };

/* Returns 1 when the handshake is done, 0 while it waits for the other end, -1: it has failed, with an
 * alert. */
int tls_session_handshake(struct tls_session *t);
/* After it: "CN=" and the common name of the client's certificate, if one of the CAs has signed it;
 * else NULL, and *refusal has the reason, or NULL where the client has sent none. The handshake goes on
 * with a certificate that is refused; the HTTP answer then states the reason. CRLs are not read. */
const char *tls_session_client(const struct tls_session *t, const char **refusal);
/* As recv and send of a non-blocking socket; after EAGAIN the next call of send must have the same bytes, or
 * more behind them. What was received and not read yet is not seen by polling the socket: read until
 * EAGAIN. */
ssize_t tls_session_recv(struct tls_session *t, void *out, size_t len);
ssize_t tls_session_send(struct tls_session *t, const void *bytes, size_t len);

#endif
