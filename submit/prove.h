/* prove -- before job_submit sends a token to an address where it knows no pin, as that of an agent with a
 * cluster's token or the end of a tunnel, the agent proves that it knows that token (shared/proof.h). Any
 * other program at that address gets only a nonce. */
#ifndef PSGD_SUBMIT_PROVE_H
#define PSGD_SUBMIT_PROVE_H

#include "shared/crypto.h"
#include "shared/err.h"

/* Writes the agent's pin, to which every further connection is held. `sources`: where the token came from, or
 * was searched, for messages. It waits for the answer, at most 5 s, less after others that did not answer.
 * ERR_AUTH: no token, one that is too short, or another program; ERR_UNREACHABLE, ERR_PROTOCOL. */
int prove_agent(char pin[BASE64_TEXT], const char *label, const char *address, const char *token,
                const char *sources, struct err *e);

#endif
