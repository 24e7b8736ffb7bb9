#include "shared/base/crypto.h"

#include <errno.h>
#include <fcntl.h>
#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* GnuTLS fails here only if its self-test or the kernel's random source failed: no recovery is possible. */
static void must(int rc)
{
    if (rc < 0)
        abort();
}

void sha256(uint8_t out[SHA256_BYTES], const void *bytes, size_t len)
{
    must(gnutls_hash_fast(GNUTLS_DIG_SHA256, bytes, len, out));
}

void sha256_hex(char out[SHA256_HEX], const void *bytes, size_t len)
{
    uint8_t digest[SHA256_BYTES];

    sha256(digest, bytes, len);
    hex_encode(out, digest, sizeof digest);
}

void hmac_sha256(uint8_t out[SHA256_BYTES], const uint8_t *key, size_t key_len, const void *bytes, size_t len)
{
    must(gnutls_hmac_fast(GNUTLS_MAC_SHA256, key, key_len, bytes, len, out));
}

void hkdf_sha256(void *out, size_t len, const void *key, size_t key_len, const void *salt, size_t salt_len,
                 const void *info, size_t info_len)
{
    uint8_t extracted[SHA256_BYTES];
    /* The library's type is not const, but it does not write to them. */
    const gnutls_datum_t k = {(void *)(uintptr_t)key, (unsigned)key_len};
    const gnutls_datum_t s = {(void *)(uintptr_t)salt, (unsigned)salt_len};
    const gnutls_datum_t i = {(void *)(uintptr_t)info, (unsigned)info_len};
    const gnutls_datum_t prk = {extracted, sizeof extracted};

    must(gnutls_hkdf_extract(GNUTLS_MAC_SHA256, &k, &s, extracted));
    must(gnutls_hkdf_expand(GNUTLS_MAC_SHA256, &prk, &i, out, len));
    explicit_bzero(extracted, sizeof extracted);
}

struct sha256_sum {
    gnutls_hash_hd_t h;
};

struct sha256_sum *sha256_start(void)
{
    struct sha256_sum *s = malloc(sizeof *s);

    if (s && gnutls_hash_init(&s->h, GNUTLS_DIG_SHA256) < 0) {
        free(s);
        return NULL;
    }
    return s;
}

void sha256_add(struct sha256_sum *s, const void *bytes, size_t len)
{
    must(gnutls_hash(s->h, bytes, len));
}

void sha256_end(struct sha256_sum *s, uint8_t *out)
{
    uint8_t unused[SHA256_BYTES];

    if (!s)
        return;
    gnutls_hash_deinit(s->h, out ? out : unused);
    free(s);
}

int sha256_file(uint8_t out[SHA256_BYTES], uint64_t *bytes, const char *path, struct err *e)
{
    enum { CHUNK = 1 << 18 };
    /* Opening a pipe must not block before it is refused. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct sha256_sum *s;
    struct stat st;
    char *buf;
    ssize_t n = 0;

    if (fd < 0)
        return err_errno(e, errno == ENOENT ? ERR_NOT_FOUND : ERR_IO, "%s", path);
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) { /* /dev/zero has no end */
        close(fd);
        return err_set(e, ERR_IO, "%s: not a regular file", path);
    }
    s = sha256_start();
    buf = malloc(CHUNK);
    if (!s || !buf) {
        err_set(e, ERR_NOMEM, "%s: no memory", path);
        goto done;
    }
    *bytes = 0;
    while ((n = read(fd, buf, CHUNK)) > 0 || (n < 0 && errno == EINTR)) {
        if (n < 0)
            continue;
        sha256_add(s, buf, (size_t)n);
        *bytes += (uint64_t)n;
    }
    if (n < 0)
        err_errno(e, ERR_IO, "%s", path);
    else
        e->code = 0;
done:
    sha256_end(s, out);
    free(buf);
    close(fd);
    return e->code;
}

void hex_encode(char *out, const uint8_t *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        *out++ = "0123456789abcdef"[bytes[i] >> 4];
        *out++ = "0123456789abcdef"[bytes[i] & 15];
    }
    *out = '\0';
}

static int nibble(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool hex_decode(uint8_t *out, size_t len, const char *hex)
{
    if (strnlen(hex, 2 * len + 1) != 2 * len)
        return false;
    for (size_t i = 0; i < len; i++) {
        int hi = nibble(hex[2 * i]);
        int lo = nibble(hex[2 * i + 1]);

        if (hi < 0 || lo < 0)
            return false;
        out[i] = (uint8_t)(hi << 4 | lo);
    }
    return true;
}

static const char base64url_digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

void base64url(char out[BASE64_TEXT], const uint8_t bytes[SHA256_BYTES])
{
    for (int i = 0; i < SHA256_BYTES; i += 3) {
        unsigned v = (unsigned)bytes[i] << 16 | (unsigned)bytes[i + 1] << 8 |
                     (i + 2 < SHA256_BYTES ? bytes[i + 2] : 0u);
        int n = i + 2 < SHA256_BYTES ? 4 : 3;

        for (int k = 0; k < n; k++)
            *out++ = base64url_digits[v >> (18 - 6 * k) & 63];
    }
    *out = '\0';
}

bool is_base64url(const char *text)
{
    return strlen(text) == BASE64_TEXT - 1 && strspn(text, base64url_digits) == BASE64_TEXT - 1;
}

bool is_sha256_hex(const char *text)
{
    uint8_t unused[SHA256_BYTES];

    return hex_decode(unused, sizeof unused, text);
}

void random_bytes(void *out, size_t len)
{
    must(gnutls_rnd(GNUTLS_RND_KEY, out, len));
}

bool equal_in_constant_time(const void *a, const void *b, size_t len)
{
    return gnutls_memcmp(a, b, len) == 0;
}

void proof_key(char out[PROOF_KEY], const uint8_t digest[SHA256_BYTES])
{
    uint8_t twice[SHA256_BYTES];

    sha256(twice, digest, SHA256_BYTES);
    hex_encode(out, twice, (PROOF_KEY - 1) / 2);
}

bool proof_is_of(const uint8_t digest[SHA256_BYTES], const char *key)
{
    char own[PROOF_KEY];

    proof_key(own, digest);
    return strcmp(own, key) == 0;
}

void proof_make(char out[BASE64_TEXT], const uint8_t digest[SHA256_BYTES], const char *nonce, const char *pin)
{
    char text[16 + 2 * BASE64_TEXT];
    uint8_t sum[SHA256_BYTES];
    int n = snprintf(text, sizeof text, "psgd agent 1 %.*s %.*s", BASE64_TEXT - 1, nonce, BASE64_TEXT - 1,
                     pin);

    hmac_sha256(sum, digest, SHA256_BYTES, text, (size_t)n);
    base64url(out, sum);
}
