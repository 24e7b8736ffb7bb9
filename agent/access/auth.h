/* auth -- by what the agent knows its clients, and they know it: its own token, one that agents share, the
 * tokens of members, and its key. */
#ifndef PSGD_AGENT_AUTH_H
#define PSGD_AGENT_AUTH_H

#include "agent/access/identity.h"
#include "agent/access/members.h"
#include "agent/access/token.h"
#include "agent/base/agent_options.h"

/* {0} is empty. */
struct auth {
    struct token token, cluster; /* the agent's own, and one that others share; path "": none */
    struct identity identity;
    struct members members;
};

/* Reads them, or makes those in o->dir that do not exist; sets o->token_file where it was not given.
 * ERR_AUTH: others can read or change one of the files; ERR_CONFIG, ERR_NOT_FOUND, ERR_IO. */
int auth_open(struct auth *a, struct agent_options *o, struct err *e);
void auth_close(struct auth *a);

/* Reads token files and members again if they were changed, and logs what is wrong with them. */
void auth_refresh(struct auth *a);

#endif
