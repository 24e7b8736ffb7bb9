/* auth -- how the agent knows its clients, and they know it: tokens in files, the agent's own and one that a
 * cluster shares; the tokens of members (members.h); the agent's key (identity.h). Of a token only the
 * SHA-256 stays in memory. */
#ifndef PSGD_AGENT_AUTH_H
#define PSGD_AGENT_AUTH_H

#include "agent/access/identity.h"
#include "agent/access/members.h"

/* A file with a bearer token. */
struct token {
    char path[PATH_MAX];
    const char *name; /* of the client that presents it: "owner" */
    enum scope scope;
    bool is_valid; /* false: the file could not be read, and no request has this token */
    bool is_long;  /* long enough for /v1/prove: a client cannot guess it from a proof */
    uint8_t digest[SHA256_BYTES];
    struct stamp seen;
};

/* Writes a new token to the file. */
int token_write(const char *path, struct err *e);

/* Reads t->path; `may_make`: creates it (0600) if it does not exist. A file that is missing, empty, too
 * short, of another user or readable by others is an error and never means "no token". ERR_AUTH, ERR_CONFIG,
 * ERR_NOT_FOUND, ERR_IO. */
int token_load(struct token *t, bool may_make, struct err *e);

/* Reads the file again if it was changed. After an error the token is not valid until the file changes
 * again. */
int token_refresh(struct token *t, struct err *e);

bool token_is(const struct token *t, const uint8_t digest[SHA256_BYTES]);

/* For job_submit of the same user: links $XDG_STATE_HOME/psgd/agents/PORT.token to the token file, and writes
 * PORT.pin beside it. With "" as token_path or pin it removes what an earlier agent has left there. */
int token_link(const char *token_path, const char *pin, int port, struct err *e);
void token_unlink(const char *token_path, int port); /* only if the link points to token_path */

/* {0} is empty. */
struct auth {
    struct token token, cluster; /* the agent's own, and the shared one; path "": none */
    struct identity identity;
    struct members members;
};

/* Reads tokens, key and members; creates in o->dir the token and the key that do not exist; sets
 * o->token_file if it is "". ERR_AUTH: other users can read or change one of the files; ERR_CONFIG,
 * ERR_NOT_FOUND, ERR_IO. */
int auth_open(struct auth *a, struct agent_options *o, struct err *e);
void auth_close(struct auth *a);

/* Reads token files and members again if they were changed, and logs what is wrong with them. */
void auth_refresh(struct auth *a);

#endif
