/* token -- a file with a bearer token: the agent's own, or one that a cluster shares. Only its SHA-256 stays
 * in memory. */
#ifndef PSGD_AGENT_TOKEN_H
#define PSGD_AGENT_TOKEN_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "agent/base/scope.h"
#include "shared/base/crypto.h"
#include "shared/base/err.h"

/* One state of a file: another one has another inode, size or time. */
struct stamp {
    ino_t inode; /* 0: there is no such file */
    off_t bytes;
    struct timespec changed;
};

/* Whether the file is another one than at the last call, or at {0} exists. */
bool stamp_differs(struct stamp *s, const char *path);

struct token {
    char path[PATH_MAX];
    const char *name; /* who presents it: "owner" */
    enum scope scope;
    bool is_valid; /* else the file could not be read, and nobody has this token */
    bool is_long;  /* enough for /v1/prove: a client cannot guess it from a proof */
    uint8_t digest[SHA256_BYTES];
    struct stamp seen;
};

/* A new token, of 43 characters of base64url, and its digest. */
void token_make(char out[BASE64_TEXT], uint8_t digest[SHA256_BYTES]);
/* Puts a new token into the file. */
int token_write(const char *path, struct err *e);

/* Reads t->path; `may_make`: creates it (0600) if it does not exist. A file that is missing, empty, too
 * short, of another user or readable by others is an error, never "no token". ERR_AUTH, ERR_CONFIG, ERR_IO.
 */
int token_load(struct token *t, bool may_make, struct err *e);

/* Reads the file again if it was changed; with an error the token is not valid until it is changed again. */
int token_refresh(struct token *t, struct err *e);

bool token_is(const struct token *t, const uint8_t digest[SHA256_BYTES]);

/* Links $XDG_STATE_HOME/psgd/agents/PORT.token to the token file ("": there is none; a link of an earlier
 * agent is removed), and writes PORT.pin beside it, or removes that if `pin` is "": job_submit of the same
 * user looks there. */
int token_link(const char *token_path, const char *pin, int port, struct err *e);
void token_unlink(const char *token_path, int port); /* only if the link points to token_path */

#endif
