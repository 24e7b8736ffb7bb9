/* invitation -- ADDRESS#PIN#CODE, by which an agent lets one user join it. */
#ifndef PSGD_SUBMIT_INVITATION_H
#define PSGD_SUBMIT_INVITATION_H

#include "shared/base/crypto.h"
#include "shared/base/err.h"
#include "shared/job/worker_list.h"

enum { INVITATION_MAX = 1024 };

struct agent_invitation {
    char address[ADDRESS_MAX]; /* "host:port", normalized */
    char pin[BASE64_TEXT], code[BASE64_TEXT];
};

/* Parses it, alone or as the last word of the command that the agent prints, in quotes or not. ERR_USAGE. */
int invitation_parse(struct agent_invitation *out, const char *text, struct err *e);

/* Reads the first line of a file, at most INVITATION_MAX bytes, so that the code is in no list of processes
 * and no history of a shell. ERR_USAGE: there is none, or a longer one; ERR_IO. */
int invitation_read(char out[INVITATION_MAX], int fd, struct err *e);

#endif
