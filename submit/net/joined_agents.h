/* joined_agents -- the agents that this user has joined: for each address the agent's pin
 * (agent/access/identity.h) and the token that it gave, in a file of its own (0600) in
 * $XDG_STATE_HOME/psgd/joined, named by the SHA-256 of the address. */
#ifndef PSGD_SUBMIT_JOINED_AGENTS_H
#define PSGD_SUBMIT_JOINED_AGENTS_H

#include "shared/base/crypto.h"
#include "shared/base/err.h"
#include "shared/job/worker_list.h"

enum { TOKEN_MAX = 256 };

struct access {
    char pin[BASE64_TEXT], token[TOKEN_MAX];
    char address[ADDRESS_MAX]; /* "host:port" at which it was joined */
    char agent[64];            /* its id */
    double joined_at;          /* clock_wall(); 0: not known */
};

struct access_list {
    size_t n;
    struct access *items; /* by address; owned */
    struct err bad;       /* of the first file that cannot be used, which is left out; code 0: none */
};

/* The agent that was joined at that address. ERR_NOT_FOUND: none; ERR_AUTH: its file can be read by others;
 * ERR_CONFIG: its file is damaged. */
int access_find(struct access *out, const char *address, struct err *e);
/* Can what is joined be kept? Creates the folder. */
int access_prepare(struct err *e);
/* Replaces what is known of that address. */
int access_save(const struct access *a, struct err *e);
/* Forgets it. ERR_NOT_FOUND, ERR_IO. */
int access_remove(const char *address, struct err *e);

/* All that were joined; none, if there is no folder of them. ERR_IO, ERR_NOMEM. */
int access_list_read(struct access_list *out, struct err *e);
void access_list_clear(struct access_list *l);

#endif
