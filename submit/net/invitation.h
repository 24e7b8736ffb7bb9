/* invitation -- ADDRESS#PIN#CODE, which an agent prints, and with which one user can join it. */
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

/* Parses an invitation, alone or as the last word of the command that the agent prints, in quotes or not.
 * ERR_USAGE. */
int invitation_parse(struct agent_invitation *out, const char *text, struct err *e);

/* Reads the first line of a file, at most INVITATION_MAX - 1 bytes: as an argument, the code would be visible
 * in the list of processes and in the shell's history. ERR_USAGE: there is no line, or a longer one; ERR_IO,
 * ERR_CANCELLED. */
int invitation_read(char out[INVITATION_MAX], int fd, struct err *e);

#endif
