/* members -- who may submit besides the owner of the agent's token: each submitter that has joined has a
 * token of its own, of which the agent keeps the SHA-256 in DIR/members.json. To join, a submitter presents
 * the code that the agent has printed; a code is accepted once. */
#ifndef PSGD_AGENT_MEMBERS_H
#define PSGD_AGENT_MEMBERS_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include "shared/clock.h"
#include "shared/crypto.h"
#include "shared/err.h"

enum { MEMBER_NAME = 64, MEMBERS_MAX = 1000, CODE_S = 3600 /* a code is accepted for this time */ };

struct member {
    char name[MEMBER_NAME + 1]; /* as the submitter calls itself: not checked */
    char joined_at[CLOCK_TEXT];
    uint8_t digest[SHA256_BYTES];
};

struct members {
    char path[PATH_MAX];
    size_t n;
    struct member *list;
    uint8_t code_digest[SHA256_BYTES];
    double code_until; /* clock_now(); 0: no code is accepted */
};

/* Reads members.json in `dir`, if there is one. ERR_CONFIG, ERR_IO. */
int members_open(struct members *m, const char *dir, struct err *e);
void members_close(struct members *m);

/* NULL: nobody has this token. */
const struct member *members_find(const struct members *m, const char *token);
/* Makes the code that the next join presents; an earlier one is no longer accepted. */
void members_make_code(struct members *m, char out[BASE64_TEXT]);
/* Reads the file again, adds a member to it and writes its new token. ERR_AUTH: not the code, or a used or
 * old one. */
int members_join(struct members *m, const char *code, const char *name, char token[BASE64_TEXT],
                 struct err *e);

#endif
