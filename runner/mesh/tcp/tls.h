/* tls -- TLS 1.3 with a pre-shared key over a connected socket, with one fixed suite: AES-128-GCM, X25519
 * for forward secrecy. tls_send and tls_recv follow the conventions of sendmsg and recv with MSG_DONTWAIT.
 * All uses of GnuTLS are here and in shared/base/crypto.c.
 *
 * The caller owns, polls and closes the socket; from tls_new on only TLS reads and writes it. Keys are
 * updated automatically (RFC 8446, 5.5). */
#ifndef PSGD_TLS_H
#define PSGD_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "shared/base/err.h"

enum { TLS_KEY_BYTES = 32, TLS_IDENTITY_MAX = 128 };
enum tls_progress { TLS_DONE, TLS_WANTS_READ, TLS_WANTS_WRITE };

struct tls;

/* `identity` names the key (at most TLS_IDENTITY_MAX - 1 characters); a server accepts no other identity.
 * ERR_NOMEM. */
int tls_new(struct tls **out, int fd, bool is_server, const char *identity, const uint8_t key[TLS_KEY_BYTES],
            struct err *e);
/* Sends close_notify if the socket buffer has room, and frees; NULL is allowed. */
void tls_close(struct tls *t);

/* Advances the handshake without blocking. Returns TLS_DONE, or what the socket must be ready for.
 * ERR_AUTH: wrong key or identity, or no TLS; an alert was sent to the peer. ERR_LOST: the connection
 * ended. */
int tls_handshake(struct tls *t, struct err *e);
const char *tls_cipher(const struct tls *t); /* its name, once the handshake is done */

/* Returns the number of bytes that the kernel has taken. -1 with EAGAIN: call again once the socket is
 * writable, with the same bytes, or more appended to them. Any other error ends the connection. */
ssize_t tls_send(struct tls *t, const struct iovec *v, int n);

/* Returns 0 after close_notify. An end without it is an error, ECONNRESET, because a third party can close a
 * connection. EBADMSG: the received bytes were altered. */
ssize_t tls_recv(struct tls *t, void *out, size_t len);
/* Whether bytes are buffered here, which polling the socket does not show: call tls_recv before polling. */
bool tls_has_input(const struct tls *t);
/* Bytes received of an incomplete record. */
size_t tls_unfinished(const struct tls *t);

#endif
