/* credentials -- the options by which job_submit recognises agents, and agents its user. */
#ifndef PSGD_SUBMIT_CREDENTIALS_H
#define PSGD_SUBMIT_CREDENTIALS_H

#include <limits.h>
#include <stdbool.h>

#include "shared/base/err.h"

struct credentials { /* "": not given */
    char token_file[PATH_MAX];
    char ca[PATH_MAX]; /* certificates of CAs: agents are known by theirs, and by their names in it */
    char cert[PATH_MAX], key[PATH_MAX]; /* this user's own, for agents with --client-ca */
    bool insecure_no_tls;               /* all may be sent unencrypted where no pin is known */
};

/* ERR_USAGE: an option without the one that it needs; ERR_AUTH: a file that another user could change, or
 * a key that another user could read; ERR_CONFIG: a CA file without a certificate; ERR_NOT_FOUND, ERR_IO. */
int credentials_check(const struct credentials *c, struct err *e);

#endif
