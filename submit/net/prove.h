/* prove -- has agents prove that they know a token (shared/base/crypto.h), before job_submit sends the token
 * to an address without a known pin, as that of a cluster's agent or of the end of a tunnel. Any other
 * program at the address gets only a nonce. */
#ifndef PSGD_SUBMIT_PROVE_H
#define PSGD_SUBMIT_PROVE_H

#include <stddef.h>

#include "shared/base/crypto.h"
#include "shared/base/err.h"

/* The claim that the agent at an address knows the token. */
struct claim {
    const char *label, *address, *token;
    const char *sources; /* where the token was found, or searched, for messages */
    char *pin;           /* (BASE64_TEXT) written: the agent's, for the check of every further connection */
    /* 0: it has proved that it knows the token. ERR_AUTH: no token, one that is too short, or another
     * program; ERR_UNREACHABLE, ERR_PROTOCOL. */
    struct err why;
};

/* Sends a request to all n addresses at once, and waits at most 5 s for the answers. After calls in which
 * some agent has not answered the wait is shorter, down to 1 s, because callers repeat requests to silent
 * agents. ERR_NOMEM, ERR_CANCELLED: the claims are then undecided. */
int prove_agents(struct claim *all, size_t n, struct err *e);

#endif
