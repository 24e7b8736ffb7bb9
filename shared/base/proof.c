#include "shared/base/proof.h"

#include <stdio.h>
#include <string.h>

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
