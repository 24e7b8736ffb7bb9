/* members -- the users of the agent besides its owner: DIR/members.json has each one's name, scope and
 * SHA-256 of the token, and the invitations: codes by which a submitter joins and gets a token of its own.
 * The running agent and `agent token` both change that file, under a lock. The agent reads it again when it
 * was changed, so a revoked token is refused from the next request on. */
#ifndef PSGD_AGENT_MEMBERS_H
#define PSGD_AGENT_MEMBERS_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "agent/base/agent_options.h"
#include "shared/base/crypto.h"
#include "shared/base/err.h"

enum {
    MEMBER_NAME = 64,
    MEMBERS_MAX = 1000,
    INVITATIONS_MAX = 64,
    INVITATION_S = 3600 /* validity of the invitation that an agent prints when it starts */
};

struct member {
    char name[MEMBER_NAME + 1]; /* after joining: the name that was sent, with a number if it was taken */
    enum scope scope;
    double since, until; /* clock_wall(); until 0: for ever */
    uint8_t digest[SHA256_BYTES];
};

struct invitation {
    enum scope scope;
    double until;
    uint8_t digest[SHA256_BYTES]; /* of the code */
};

/* One state of a file: a changed or replaced file has another inode, size or time. */
struct stamp {
    ino_t inode; /* 0: there is no such file */
    off_t bytes;
    struct timespec changed;
};

/* Returns whether the file has changed since *s was taken ({0}: whether it exists), and takes the present
 * one. */
bool stamp_differs(struct stamp *s, const char *path);

struct members {
    char path[PATH_MAX], lock_path[PATH_MAX];
    bool may_wait; /* for a lock that another process holds; else ERR_CONFLICT */
    struct stamp seen;
    size_t n, n_invitations;
    struct member *list;            /* (MEMBERS_MAX); a name may occur twice while its token is replaced */
    struct invitation *invitations; /* (INVITATIONS_MAX) */
};

/* Reads members.json in `dir`, if there is one. ERR_AUTH: others can read it; ERR_CONFIG, ERR_IO, ERR_NOMEM.
 */
int members_open(struct members *m, const char *dir, struct err *e);
void members_close(struct members *m);

/* Reads the file again if it was changed. After an error there are no members until the file changes
 * again. */
int members_refresh(struct members *m, struct err *e);

/* 1 to MEMBER_NAME bytes without control characters that do not begin with "CN=", as the names of clients
 * with certificates do (shared/http/tls_session.h). */
bool is_member_name(const char *name);

/* Returns the member whose token has this digest; NULL: there is none, or the token has expired. */
const struct member *members_find(const struct members *m, const uint8_t digest[SHA256_BYTES], double now);

/* A new token or code, of 43 characters of base64url, and its digest. */
void members_make_secret(char out[BASE64_TEXT], uint8_t digest[SHA256_BYTES]);

/* Each of the following reads the file under the lock and changes it durably. A duration of 0 has no end.
 *
 * Adds an invitation with a new code; beyond INVITATIONS_MAX the oldest is dropped. */
int members_invite(struct members *m, enum scope scope, double for_s, char code[BASE64_TEXT], struct err *e);
/* Adds a member with the scope of the code, which is then used up. ERR_AUTH: there is no such code, or it was
 * used or has expired. */
int members_join(struct members *m, const char *code, const char *name, char token[BASE64_TEXT],
                 struct err *e);
/* Adds a member with a new token. ERR_CONFLICT: the name is taken. */
int members_add(struct members *m, const char *name, enum scope scope, double for_s, char token[BASE64_TEXT],
                struct err *e);
/* Adds a new token for the name, whose other tokens stay valid for keep_s. ERR_NOT_FOUND. */
int members_rotate(struct members *m, const char *name, double keep_s, char token[BASE64_TEXT],
                   struct err *e);
/* Adds an existing token, valid for for_s. */
int members_keep(struct members *m, const char *name, enum scope scope, double for_s,
                 const uint8_t digest[SHA256_BYTES], struct err *e);
/* Revokes all tokens of the name. ERR_NOT_FOUND. */
int members_revoke(struct members *m, const char *name, struct err *e);
int members_revoke_invitations(struct members *m, struct err *e);

#endif
