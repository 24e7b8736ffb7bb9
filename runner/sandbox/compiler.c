/* Confines the compiler of a codec's source, which is hostile input: `#include "/etc/shadow"` would print it
 * into the log. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "runner/sandbox/own_user.h"
#include "runner/sandbox/sandbox.h"

enum { OBJECT_MAX = 256 << 20 };

static int become_own_user(const char *folder)
{
    uid_t id = own_user_id(getpid());

    /* A container without other users: the compiler has the other layers. */
    if (geteuid() == 0 && chown(folder, id, id) == 0 && own_user_become(id) < 0 && errno != EINVAL &&
        errno != EPERM)
        return -1;
    return own_user_drop_capabilities();
}

int sandbox_compiler(void *arg)
{
    const struct rlimit size = {OBJECT_MAX, OBJECT_MAX};
    const char *folder = arg;

    /* cc may be ccache, which would fail where it cannot write its cache. */
    if (setenv("CCACHE_DISABLE", "1", 1) < 0 || setenv("TMPDIR", folder, 1) < 0 ||
        setrlimit(RLIMIT_FSIZE, &size) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
        become_own_user(folder) < 0)
        return -1;
    return landlock_for_compiler(folder) < 0 ? -1 : seccomp_for_compiler();
}
