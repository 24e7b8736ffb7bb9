#include "runner/sandbox/own_user.h"

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { FIRST_ID = 0x70000000 };

uid_t own_user_id(pid_t pid)
{
    return (uid_t)FIRST_ID + (uid_t)pid;
}

int own_user_drop_capabilities(void)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {{0}};

    return (int)syscall(SYS_capset, &head, none);
}

int own_user_become(uid_t id)
{
    if (setgroups(0, NULL) < 0 || setresgid(id, id, id) < 0 || setresuid(id, id, id) < 0)
        return -1;
    if (setresuid(0, 0, 0) == 0) { /* "keep capabilities" was set */
        errno = EPERM;
        return -1;
    }
    return 0;
}

/* Files that the runner has opened stay root's: with the sticky bit the codec cannot remove or rename
 * them. */
static int give_folder(int folder_fd, gid_t group)
{
    return folder_fd < 0                             ? 0
           : fchown(folder_fd, (uid_t)-1, group) < 0 ? -1
                                                     : fchmod(folder_fd, S_ISVTX | S_IRWXU | S_IRWXG);
}

int sandbox_own_user(int folder_fd, char *why, size_t size, struct err *e)
{
    uid_t id = own_user_id(getpid());
    int rc = 1;

    if (geteuid() != 0) {
        snprintf(why, size, "only an agent that root runs can give each job its own user");
        rc = 0;
    } else if (give_folder(folder_fd, (gid_t)id) < 0 || own_user_become(id) < 0) {
        snprintf(why, size, "the job cannot have its own user (%s; a container may map no other users)",
                 strerror(errno));
        rc = 0;
    }
    return own_user_drop_capabilities() < 0 ? err_errno(e, ERR_IO, "giving up capabilities") : rc;
}
