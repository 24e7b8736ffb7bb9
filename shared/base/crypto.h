/* crypto -- SHA-256, HMAC, HKDF, random bytes, comparison in constant time, the forms of digests as text, and
 * the proof that an agent has a token. TLS itself: shared/http/tls_session.h, runner/mesh/tcp/tls.h. */
#ifndef PSGD_CRYPTO_H
#define PSGD_CRYPTO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/base/err.h"

enum {
    SHA256_BYTES = 32,
    SHA256_HEX = 65, /* bytes of the hex form, with the NUL */
    BASE64_TEXT = 44 /* bytes of the base64url form, without padding, with the NUL */
};

void sha256(uint8_t out[SHA256_BYTES], const void *bytes, size_t len);
void sha256_hex(char out[SHA256_HEX], const void *bytes, size_t len);
void hmac_sha256(uint8_t out[SHA256_BYTES], const uint8_t *key, size_t key_len, const void *bytes,
                 size_t len);
/* RFC 5869: derives `len` bytes, at most 255 * SHA256_BYTES, from a key; `info` names their purpose. */
void hkdf_sha256(void *out, size_t len, const void *key, size_t key_len, const void *salt, size_t salt_len,
                 const void *info, size_t info_len);

/* Incremental hash: start, add, end (which frees). sha256_end(NULL out) only frees. */
struct sha256_sum;
struct sha256_sum *sha256_start(void); /* NULL: no memory */
void sha256_add(struct sha256_sum *s, const void *bytes, size_t len);
void sha256_end(struct sha256_sum *s, uint8_t *out);

/* *bytes: the length of the file. ERR_NOT_FOUND; ERR_IO, also if it is not a regular file; ERR_NOMEM. */
int sha256_file(uint8_t out[SHA256_BYTES], uint64_t *bytes, const char *path, struct err *e);

void hex_encode(char *out, const uint8_t *bytes, size_t len); /* writes 2 len characters and a zero */
bool hex_decode(uint8_t *out, size_t len, const char *hex); /* exactly 2 len lower-case digits, else false */
bool is_sha256_hex(const char *text);                       /* 64 hex digits */
void base64url(char out[BASE64_TEXT], const uint8_t bytes[SHA256_BYTES]); /* RFC 4648, section 5 */
bool is_base64url(const char *text);                                      /* 43 characters of base64url */
void random_bytes(void *out, size_t len);                                 /* for keys and tokens */
bool equal_in_constant_time(const void *a, const void *b, size_t len);

/* The proof that an agent has a token, before a client sends the token to it (docs/protocol.md, section 1):
 * an HMAC, with the token's SHA-256 `digest` as key, of a nonce of the client and of the pin of the agent's
 * own key. A program that relays the proof gains nothing: the client then talks only to the owner of that
 * key. */
enum {
    PROOF_KEY = 9,       /* 8 hexadecimal digits, and the NUL */
    PROOF_TOKEN_MIN = 32 /* characters of a token: a short one could be guessed from its proof */
};

/* Writes the name of a token in a request for a proof: the first digits of the SHA-256 of `digest`. */
void proof_key(char out[PROOF_KEY], const uint8_t digest[SHA256_BYTES]);
bool proof_is_of(const uint8_t digest[SHA256_BYTES], const char *key);

/* `nonce` and `pin`: 43 characters of base64url. */
void proof_make(char out[BASE64_TEXT], const uint8_t digest[SHA256_BYTES], const char *nonce,
                const char *pin);

#endif
