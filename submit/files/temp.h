/* temp -- a temporary folder. A process that is killed cannot remove its folder: so each process holds a lock
 * on its folder, and the next process of the same user removes the folders without a lock. Files that are
 * shipped from the folder are unlinked at once (blob_take_file). */
#ifndef PSGD_SUBMIT_TEMP_H
#define PSGD_SUBMIT_TEMP_H

#include <limits.h>

#include "shared/base/err.h"

struct temp {
    char path[PATH_MAX];
    int fd; /* of the folder, with the lock */
};

const char *temp_where(void);                 /* $TMPDIR, or /tmp */
int temp_open(struct temp *t, struct err *e); /* in temp_where() */
void temp_close(struct temp *t);              /* removes the folder and its contents */

enum { TEMP_ROOM = 4 << 20 }; /* bytes that compiling a codec may need */
/* ERR_NOSPACE: less than TEMP_ROOM is free. */
int temp_check_room(const struct temp *t, struct err *e);

/* An unnamed file in `dir`; the caller owns the descriptor. */
int temp_file(int *fd, const char *dir, struct err *e);

#endif
