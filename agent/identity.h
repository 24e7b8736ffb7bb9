/* identity -- the agent's key and certificate for TLS, created at the first start that needs them. Nobody
 * signs the certificate: job_submit knows an agent by its pin, the SHA-256 of its public key (as in RFC 7469,
 * section 2.4) in base64url, which stays when names, addresses, ports and clocks change. */
#ifndef PSGD_AGENT_IDENTITY_H
#define PSGD_AGENT_IDENTITY_H

#include "shared/crypto.h"
#include "shared/err.h"

struct identity {
    char *key, *certificate; /* PEM; owned */
    char pin[BASE64_TEXT];
};

/* Reads tls.key and tls.crt in `dir`, or creates them (0600). ERR_AUTH: others can read the key; ERR_CONFIG:
 * not a key and its certificate. */
int identity_load(struct identity *out, const char *dir, struct err *e);
void identity_clear(struct identity *i);

#endif
