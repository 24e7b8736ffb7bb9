/* own_user -- a user and group id that no account and no other job has, without groups and capabilities. */
#ifndef PSGD_OWN_USER_H
#define PSGD_OWN_USER_H

#include <stddef.h>
#include <sys/types.h>

#include "shared/base/err.h"

/* The id for process `pid`: pids are unique among those that run, and the range, 1,879,048,192 and above,
 * is unused by accounts (systemd's UIDS-GIDS lists it as unused). */
uid_t own_user_id(pid_t pid);

/* Becomes that user for good. Returns 0, or -1 and errno. Only for root. */
int own_user_become(uid_t id);

/* Gives up all capabilities, also those that a user may have. Returns 0, or -1 and errno. */
int own_user_drop_capabilities(void);

/* The layer of sandbox_enter: as the others in sandbox.h. */
int sandbox_own_user(int folder_fd, char *why, size_t size, struct err *e);

#endif
