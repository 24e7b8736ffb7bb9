/* temp -- a folder for things on their way. What is shipped from there loses its name at once
 * (blob_take_file). */
#ifndef PSGD_SUBMIT_TEMP_H
#define PSGD_SUBMIT_TEMP_H

#include <limits.h>

#include "shared/err.h"

struct temp {
    char path[PATH_MAX];
};

int temp_open(struct temp *t, struct err *e); /* in $TMPDIR or /tmp */
void temp_close(struct temp *t);              /* removes it with all that is in it */

enum { TEMP_ROOM = 4 << 20 }; /* bytes that compiling a codec may take there */
/* ERR_NOSPACE: less is free. */
int temp_check_room(const struct temp *t, struct err *e);

/* A file without a name, in `dir`; the descriptor is the caller's. */
int temp_file(int *fd, const char *dir, struct err *e);

#endif
