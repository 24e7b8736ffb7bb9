/* proof -- how an agent shows that it is one that knows a token, before that token is sent to it: an HMAC, by
 * the token's SHA-256, of a nonce of the client and of the pin of the agent's own key. A program that
 * relays the proof gains nothing: the client then speaks to that key only. */
#ifndef PSGD_SHARED_PROOF_H
#define PSGD_SHARED_PROOF_H

#include <stdbool.h>

#include "shared/base/crypto.h"

enum {
    PROOF_KEY = 9,       /* 8 hexadecimal digits, and a zero byte */
    PROOF_TOKEN_MIN = 32 /* characters: a proof of a short token would allow it to be guessed off line */
};

/* The name of a token in a request for a proof: the SHA-256 of `digest`, its SHA-256, begins with it. */
void proof_key(char out[PROOF_KEY], const uint8_t digest[SHA256_BYTES]);
bool proof_is_of(const uint8_t digest[SHA256_BYTES], const char *key);

/* `nonce` and `pin`: 43 characters of base64url. */
void proof_make(char out[BASE64_TEXT], const uint8_t digest[SHA256_BYTES], const char *nonce,
                const char *pin);

#endif
