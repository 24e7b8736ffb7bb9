/* joined_agents -- the agents that this user has joined. There is a file (0600) for each address, with the
 * agent's pin (agent/access/identity.h) and the token that it issued: $XDG_STATE_HOME/psgd/joined/NAME.json,
 * where NAME is the SHA-256 of the address. An agent whose address has changed is found again by its pin. */
#ifndef PSGD_SUBMIT_JOINED_AGENTS_H
#define PSGD_SUBMIT_JOINED_AGENTS_H

#include "shared/base/crypto.h"
#include "shared/base/err.h"
#include "shared/job/worker_list.h"

enum { TOKEN_MAX = 256 };

struct joined_agent {
    char pin[BASE64_TEXT], token[TOKEN_MAX];
    char address[ADDRESS_MAX]; /* "host:port" at which it was joined */
    char agent[64];            /* its id */
    double joined_at;          /* clock_wall(); 0: not known */
};

struct joined_agents {
    size_t n;
    struct joined_agent *items; /* sorted by address; owned */
    struct err bad; /* error of the first file that cannot be used and is left out; code 0: none */
};

/* The agent that was joined at that address. ERR_NOT_FOUND: none; ERR_AUTH: other users can read its file;
 * ERR_CONFIG: its file is damaged. */
int joined_agents_find(struct joined_agent *out, const char *address, struct err *e);
/* Creates the folder of the files. ERR_IO: it cannot be written. */
int joined_agents_prepare(struct err *e);
/* Writes the file of a->address, replacing an earlier one. */
int joined_agents_save(const struct joined_agent *a, struct err *e);
/* Removes the file of that address. ERR_NOT_FOUND, ERR_IO. */
int joined_agents_remove(const char *address, struct err *e);

/* All joined agents; none, if there is no folder of them. ERR_IO, ERR_NOMEM. */
int joined_agents_read(struct joined_agents *out, struct err *e);
void joined_agents_clear(struct joined_agents *l);

/* An address at which a joined agent may be that was joined at another one. */
struct searched_address {
    const char *address;              /* "host:port" */
    const struct joined_agent *found; /* in `known`: the agent whose pin fits; NULL: none */
};

/* Searches for agents of `known` at n addresses, all at once, by about log2(known->n) TLS handshakes with
 * each. No other bytes are sent. Ends after 3 s; an agent that has not answered by then is not found.
 * ERR_NOMEM, ERR_INTERNAL, ERR_CANCELLED. */
int joined_agents_search(struct searched_address *s, size_t n, const struct joined_agents *known,
                         struct err *e);

/* Saves the agent `a` also under `address`, its present one. */
int joined_agents_move(const struct joined_agent *a, const char *address, struct err *e);

#endif
