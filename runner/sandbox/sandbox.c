#include "runner/sandbox/sandbox.h"

#include <dirent.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>

#include "runner/sandbox/own_user.h"
#include "shared/base/sanitized.h"

/* Returns the number of threads of this process; 1 if /proc cannot be read, as in a root without it. */
static int n_threads(void)
{
    DIR *d = opendir("/proc/self/task");
    int n = d ? -2 : 1; /* "." and ".." */

    while (d && readdir(d))
        n++;
    if (d)
        closedir(d);
    return n;
}

/* Each layer only makes sense with those before it: without a filter of calls a codec can start a program
 * that is not its own any more; without Landlock it reads what every user may. */
static enum isolation level_of(const struct sandbox *s)
{
    return !s->has_seccomp        ? ISOLATION_NONE
           : s->landlock_abi == 0 ? ISOLATION_PROCESS
           : !s->has_own_user     ? ISOLATION_FILES
                                  : ISOLATION_USER;
}

/* Enters the layers in the order of sandbox.h. */
static int enter(struct sandbox *s, int folder_fd, struct err *e)
{
    char no_user[sizeof s->lacks] = "", no_landlock[sizeof s->lacks] = "", no_seccomp[sizeof s->lacks] = "";
    int rc = 0;

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return err_errno(e, ERR_IO, "no_new_privs");
    snprintf(s->no_tree, sizeof s->no_tree, IS_SANITIZED ? "a build with sanitizers" : "no Landlock");
    if (!IS_SANITIZED && landlock_version() > 0 &&
        (rc = sandbox_own_tree(folder_fd, s->no_tree, sizeof s->no_tree, e)) < 0)
        return rc;
    s->has_own_tree = rc > 0;
    if ((rc = sandbox_own_user(folder_fd, no_user, sizeof no_user, e)) < 0)
        return rc;
    s->has_own_user = rc > 0;
    if (sandbox_limits(s->has_own_user, e) < 0)
        return e->code;
    if (IS_SANITIZED) {
        snprintf(s->lacks, sizeof s->lacks, "a build with sanitizers runs without a filter of system calls");
        return 0;
    }
    /* Another user id sets it anew, so it comes after that. */
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
        return err_errno(e, ERR_IO, "PR_SET_DUMPABLE");
    if (sandbox_landlock(folder_fd, &s->landlock_abi, no_landlock, sizeof no_landlock, e) < 0)
        return e->code;
    rc = sandbox_seccomp(no_seccomp, sizeof no_seccomp, e);
    if (rc < 0)
        return rc;
    s->has_seccomp = rc > 0;
    snprintf(s->lacks, sizeof s->lacks, "%s",
             no_seccomp[0]    ? no_seccomp
             : no_landlock[0] ? no_landlock
                              : no_user);
    return 0;
}

int sandbox_enter(struct sandbox *out, int folder_fd, enum isolation required, struct err *e)
{
    struct sandbox s = {0};
    int n = n_threads();

    *out = s;
    if (n != 1 && !IS_SANITIZED)
        return err_set(e, ERR_INTERNAL, "the sandbox cannot be entered: %d threads run already", n);
    if (enter(&s, folder_fd, e) < 0)
        return err_at(e, "the sandbox");
    s.level = level_of(&s);
    *out = s;
    if (s.level >= required)
        return 0;
    err_set(e, ERR_CODEC, "the codec would be isolated at level %s here, and %s is required: %s",
            isolation_name(s.level), isolation_name(required), s.lacks);
    return err_hint(e, "agent --require-isolation %s allows it.", isolation_name(s.level));
}

void sandbox_print(const struct sandbox *s)
{
    json_t *o = json_pack("{s:s, s:i, s:b, s:b, s:b, s:s}", "level", isolation_name(s->level), "landlock_abi",
                          s->landlock_abi, "seccomp", (int)s->has_seccomp, "own_user", (int)s->has_own_user,
                          "own_tree", (int)s->has_own_tree, "lacks", s->lacks);

    if (o && json_dumpf(o, stdout, JSON_COMPACT) == 0)
        putchar('\n');
    json_decref(o);
    fflush(stdout);
}
