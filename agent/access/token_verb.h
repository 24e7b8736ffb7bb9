/* token_verb -- `agent token`: lists, makes and revokes tokens in an agent's folder, whether it runs or not.
 */
#ifndef PSGD_TOKEN_VERB_H
#define PSGD_TOKEN_VERB_H

#include "agent/base/agent_options.h"

/* Prints lists, new tokens and invitations on stdout, and nothing else. ERR_USAGE, ERR_CONFLICT: the name is
 * taken; ERR_NOT_FOUND: no such member, or no folder; ERR_AUTH, ERR_CONFIG, ERR_IO: of the folder's files. */
int token_verb(struct agent_options *o, struct err *e);

/* "30d", "12h", "10m", "30s" in seconds, `otherwise` for "". ERR_USAGE. */
int token_duration(double *out, const char *text, double otherwise, struct err *e);

#endif
