/* digest_list -- a file in which the owner of an agent lists what may run there, by digest: a SHA-256 in each
 * line, as sha256sum writes it or alone; # begins a comment. */
#ifndef PSGD_DIGEST_LIST_H
#define PSGD_DIGEST_LIST_H

#include "shared/base/err.h"

/* Returns 1 if the file lists the digest, 0 if not; a file that does not exist lists none. The file is read
 * anew by each call. ERR_CONFIG: other users may write to it, or a line is no digest. ERR_IO, ERR_NOMEM. */
int digest_list_has(const char *path, const char *hex, struct err *e);

#endif
