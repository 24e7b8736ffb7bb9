/* token -- the agent's bearer token. Only its SHA-256 stays in memory. */
#ifndef PSGD_AGENT_TOKEN_H
#define PSGD_AGENT_TOKEN_H

#include <stdbool.h>
#include <stdint.h>

#include "shared/crypto.h"
#include "shared/err.h"

struct token {
    uint8_t digest[SHA256_BYTES];
};

/* Reads the token file; `may_make`: creates it (0600, 43 characters of base64url) if it does not exist. A
 * file that is missing, empty, too short or readable by others is an error, never "no token". ERR_CONFIG,
 * ERR_IO. */
int token_load(struct token *t, const char *path, bool may_make, struct err *e);

bool token_is(const struct token *t, const char *presented);

/* Links $XDG_STATE_HOME/psgd/agents/PORT.token to the token file ("": there is none), and writes PORT.pin
 * beside it, or removes that if `pin` is "": job_submit of the same user looks there. */
int token_link(const char *token_path, const char *pin, int port, struct err *e);
void token_unlink(const char *token_path, int port); /* only if the link points to token_path */

#endif
