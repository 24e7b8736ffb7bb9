/* crypto -- the uses of GnuTLS other than TLS: SHA-256, HMAC, HKDF, random bytes, comparison in constant
 * time. */
#ifndef PSGD_CRYPTO_H
#define PSGD_CRYPTO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/base/err.h"

enum {
    SHA256_BYTES = 32,
    SHA256_HEX = 65, /* the hex form with its closing zero byte */
    BASE64_TEXT = 44 /* the same of base64url, without padding */
};

void sha256(uint8_t out[SHA256_BYTES], const void *bytes, size_t len);
void hmac_sha256(uint8_t out[SHA256_BYTES], const uint8_t *key, size_t key_len, const void *bytes,
                 size_t len);
/* RFC 5869: `len` bytes, at most 255 SHA256_BYTES, derived from a key; `info` is its purpose. */
void hkdf_sha256(void *out, size_t len, const void *key, size_t key_len, const void *salt, size_t salt_len,
                 const void *info, size_t info_len);

/* Incremental hash: start, add, end (which frees). sha256_end(NULL out) only frees. */
struct sha256_sum;
struct sha256_sum *sha256_start(void); /* NULL: no memory */
void sha256_add(struct sha256_sum *s, const void *bytes, size_t len);
void sha256_end(struct sha256_sum *s, uint8_t *out);

/* ERR_NOT_FOUND; ERR_IO, also of what is no regular file; ERR_NOMEM. */
int sha256_file(uint8_t out[SHA256_BYTES], uint64_t *bytes, const char *path, struct err *e);

void hex_encode(char *out, const uint8_t *bytes, size_t len); /* writes 2 len characters and a zero */
bool hex_decode(uint8_t *out, size_t len, const char *hex); /* exactly 2 len lower-case digits, else false */
bool is_sha256_hex(const char *text);                       /* 64 hex digits */
void base64url(char out[BASE64_TEXT], const uint8_t bytes[SHA256_BYTES]); /* RFC 4648, section 5 */
bool is_base64url(const char *text);                                      /* such a text of 43 characters? */
void random_bytes(void *out, size_t len);                                 /* for keys and tokens */
bool equal_in_constant_time(const void *a, const void *b, size_t len);

#endif
