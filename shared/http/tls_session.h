/* tls_session -- the server's end of TLS 1.3, over a connected non-blocking socket. The TLS of libmicrohttpd
 * is not used: in its epoll mode (0.9.75) an unfinished handshake occupies a processor, and head.h needs the
 * bytes of a request, which the library does not hand over. */
#ifndef PSGD_HTTP_TLS_H
#define PSGD_HTTP_TLS_H

#include <sys/types.h>

#include "shared/base/err.h"

struct tls_keys;
struct tls_session;

enum { TLS_CLIENT_MAX = 64 }; /* bytes of what tls_session_client returns */

/* All in PEM: the server's key and certificate, and the certificates of the CAs whose clients it accepts;
 * NULL: it asks clients for no certificate. ERR_CONFIG: not a key and its certificate, or no certificate of a
 * CA. */
int tls_keys_new(struct tls_keys **out, const char *key, const char *certificate, const char *client_ca,
                 struct err *e);
void tls_keys_free(struct tls_keys *k); /* NULL is allowed */

struct tls_session *tls_session_new(const struct tls_keys *k, int fd); /* NULL: no memory */
void tls_session_free(struct tls_session *t);                          /* NULL is allowed */
/* Sends close_notify, if the socket has room for it. */
void tls_session_bye(struct tls_session *t);

/* The first byte of a client that speaks TLS: the type of a record with a handshake (RFC 8446, 5.1). No HTTP
 * method begins with it. */
enum { TLS_FIRST_BYTE = 22 };

/* Returns 1 when the handshake is done, 0 while it waits for the other end, -1 if it has failed and an alert
 * is sent. */
int tls_session_handshake(struct tls_session *t);
/* After it: "CN=" and the common name of the client's certificate, if one of the CAs has signed it;
 * else NULL, and *refusal has the reason, or NULL where the client has sent none. The handshake goes on
 * with a certificate that is refused; the HTTP answer then states the reason. CRLs are not read. */
const char *tls_session_client(const struct tls_session *t, const char **refusal);
/* As recv and send of a non-blocking socket. After EAGAIN the next call of send must have the same bytes, or
 * more behind them. Read until EAGAIN: polling the socket does not report bytes that the session has received
 * already. */
ssize_t tls_session_recv(struct tls_session *t, void *out, size_t len);
ssize_t tls_session_send(struct tls_session *t, const void *bytes, size_t len);

#endif
