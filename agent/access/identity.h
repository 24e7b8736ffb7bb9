/* identity -- the agent's key and certificate for TLS: files that its user names, or a key and a self-signed
 * certificate that are created at the first start. job_submit identifies an agent by its pin, the SHA-256 of
 * its public key (as in RFC 7469, section 2.4) in base64url, which stays when names, addresses, ports and
 * clocks change. */
#ifndef PSGD_AGENT_IDENTITY_H
#define PSGD_AGENT_IDENTITY_H

#include "shared/base/crypto.h"
#include "shared/base/err.h"

struct identity {
    char *key, *certificate; /* PEM; owned. The certificate may be followed by those of the CAs above it */
    char *client_ca;         /* PEM, owned: certificates of the CAs whose clients are accepted; NULL: none */
    char pin[BASE64_TEXT];
};

/* Reads tls.key and tls.crt in `dir`, or creates them (0600). ERR_AUTH: other users can read the key;
 * ERR_CONFIG: not a key and its certificate. */
int identity_load(struct identity *out, const char *dir, struct err *e);
/* Reads these two files instead. The same errors, and ERR_AUTH: other users can change one of them. */
int identity_read(struct identity *out, const char *certificate_path, const char *key_path, struct err *e);
/* Reads the certificates of the clients' CAs. ERR_AUTH: other users can change the file; ERR_NOT_FOUND,
 * ERR_IO. */
int identity_read_client_ca(struct identity *i, const char *path, struct err *e);
void identity_clear(struct identity *i);

#endif
