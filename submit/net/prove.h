/* prove -- before job_submit sends a token to an address where it knows no pin, as that of an agent with a
 * cluster's token or the end of a tunnel, the agent proves that it knows that token (shared/base/proof.h).
 * Any other program at that address gets only a nonce. */
#ifndef PSGD_SUBMIT_PROVE_H
#define PSGD_SUBMIT_PROVE_H

#include <stddef.h>

#include "shared/base/crypto.h"
#include "shared/base/err.h"

/* An address at which an agent that knows the token should be. */
struct claim {
    const char *label, *address, *token;
    const char *sources; /* where the token came from, or was searched, for messages */
    char *pin;           /* (BASE64_TEXT) written: the agent's, to which every further connection is held */
    struct err why;      /* 0: it has proved that it knows the token. ERR_AUTH: no token, one that is too
                          * short, or another program; ERR_UNREACHABLE, ERR_PROTOCOL */
};

/* Asks all of them at once, and waits for the answers, at most 5 s; less if it has waited in vain before, as
 * silent agents may be asked again and again. ERR_NOMEM, ERR_CANCELLED: some were not asked. */
int prove_agents(struct claim *all, size_t n, struct err *e);

#endif
