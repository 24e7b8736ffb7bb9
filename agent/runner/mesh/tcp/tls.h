/* tls -- TLS 1.3 with a pre-shared key over a connected socket: AES-128-GCM, X25519 for forward secrecy, and
 * nothing else to choose from. What is sent and received goes through tls_send and tls_recv, which keep the
 * conventions of sendmsg and recv with MSG_DONTWAIT. All GnuTLS that is not in shared/crypto.c.
 *
 * The socket stays the caller's, who polls and closes it; from tls_new on all its bytes are TLS's. Keys are
 * renewed on the way (RFC 8446, 5.5) without a word. */
#ifndef PSGD_TLS_H
#define PSGD_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "shared/err.h"

enum { TLS_KEY_BYTES = 32, TLS_IDENTITY_MAX = 128 };
enum tls_progress { TLS_DONE, TLS_WANTS_READ, TLS_WANTS_WRITE };

struct tls;

/* `identity` says whose key it is (at most TLS_IDENTITY_MAX - 1 characters); a server takes this one alone.
 * ERR_NOMEM. */
int tls_new(struct tls **out, int fd, bool is_server, const char *identity, const uint8_t key[TLS_KEY_BYTES],
            struct err *e);
/* Says good-bye where the kernel takes it at once, and frees; NULL is fine. */
void tls_close(struct tls *t);

/* Goes on as far as it can: TLS_DONE, or what the socket must be ready for. ERR_AUTH: another key, another
 * identity, or no TLS; the other end has been told. ERR_LOST: it is gone. */
int tls_handshake(struct tls *t, struct err *e);
const char *tls_cipher(const struct tls *t); /* by name, once the handshake is done */

/* -1 with EAGAIN: wait until the socket is writable, then come with the same bytes again, or more behind
 * them. What was returned is with the kernel. After any other error the connection is over. */
ssize_t tls_send(struct tls *t, const struct iovec *v, int n);

/* 0: the other end said good-bye. Without that its end is an error, ECONNRESET, for anybody can close a
 * connection. EBADMSG: what came is not what was sent. */
ssize_t tls_recv(struct tls *t, void *out, size_t len);
/* Something has come that the socket does not show any more: receive before waiting for it. */
bool tls_has_input(const struct tls *t);
/* Bytes of a record that is not whole yet. */
size_t tls_unfinished(const struct tls *t);

#endif
