/* sandbox -- enters the layers of sandbox.h; limits, the user id, and the compiler's confinement are here,
 * the layers with a kernel interface of their own in own_tree.c, landlock.c and seccomp.c. */
#include "shared/sandbox/sandbox.h"

#include <dirent.h>
#include <errno.h>
#include <fts.h>
#include <grp.h>
#include <jansson.h>
#include <limits.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shared/base/compiler.h"

enum { THREADS = 64, THREADS_PER_PROCESSOR = 4 };
enum { FIRST_ID = 0x70000000 };
enum { OBJECT_MAX = 256 << 20 };
enum { PROGRAM_PROCESSES = 4096 }; /* of a training program's own user, with their threads */

/* Limits. */

int sandbox_processors(void)
{
    static long n; /* sysconf() reads a file */

    if (n == 0)
        n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (int)n : 1;
}

int sandbox_threads(void)
{
    return THREADS + THREADS_PER_PROCESSOR * sandbox_processors();
}

static int lower_limit(int what, rlim_t most)
{
    struct rlimit l;

    if (getrlimit((unsigned)what, &l) < 0)
        return -1;
    l.rlim_max = l.rlim_max < most ? l.rlim_max : most;
    l.rlim_cur = l.rlim_max;
    return setrlimit((unsigned)what, &l);
}

/* Makes the limits final that the agent has set for this process (agent/jobs/supervise.c). */
static bool keep_limits(void)
{
    static const int set[] = {RLIMIT_DATA, RLIMIT_FSIZE, RLIMIT_NOFILE, RLIMIT_CPU, RLIMIT_CORE};
    struct rlimit l;

    for (size_t i = 0; i < sizeof set / sizeof *set; i++)
        if (getrlimit((unsigned)set[i], &l) < 0 || lower_limit(set[i], l.rlim_cur) < 0)
            return false;
    return true;
}

/* RLIMIT_NPROC counts all threads of a user, so it is set only for a user that has no other process. */
static int set_limits(bool has_own_user, struct err *e)
{
    if (!keep_limits() || (has_own_user && lower_limit(RLIMIT_NPROC, (rlim_t)sandbox_threads()) < 0) ||
        lower_limit(RLIMIT_MSGQUEUE, 0) < 0 || lower_limit(RLIMIT_MEMLOCK, 0) < 0)
        return err_errno(e, ERR_IO, "setrlimit");
    return 0;
}

/* A user of its own. */

uid_t sandbox_user_id(pid_t pid)
{
    return (uid_t)FIRST_ID + (uid_t)pid;
}

/* Gives up all capabilities, also those that a user may have. Returns 0, or -1 and errno. */
static int drop_capabilities(void)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {{0}};

    return (int)syscall(SYS_capset, &head, none);
}

/* Becomes that user for good, without groups. Returns 0, or -1 and errno. Only for root. */
static int become_user(uid_t id)
{
    if (setgroups(0, NULL) < 0 || setresgid(id, id, id) < 0 || setresuid(id, id, id) < 0)
        return -1;
    if (setresuid(0, 0, 0) == 0) { /* SECBIT_KEEP_CAPS was set: the process could become root again */
        errno = EPERM;
        return -1;
    }
    return 0;
}

/* Files that the runner has opened still belong to root: with the sticky bit the codec cannot remove or
 * rename them. */
static int give_folder(int folder_fd, gid_t group)
{
    return folder_fd < 0                             ? 0
           : fchown(folder_fd, (uid_t)-1, group) < 0 ? -1
                                                     : fchmod(folder_fd, S_ISVTX | S_IRWXU | S_IRWXG);
}

/* Returns 1 if the process has become a user of its own, 0 if it cannot (`why`), or ERR_IO. */
static int enter_own_user(int folder_fd, char *why, size_t size, struct err *e)
{
    uid_t id = sandbox_user_id(getpid());
    int rc = 1;

    if (geteuid() != 0) {
        snprintf(why, size, "only an agent that root runs can give each job its own user");
        rc = 0;
    } else if (give_folder(folder_fd, (gid_t)id) < 0 || become_user(id) < 0) {
        snprintf(why, size, "the job cannot have its own user (%s; a container may map no other users)",
                 strerror(errno));
        rc = 0;
    }
    return drop_capabilities() < 0 ? err_errno(e, ERR_IO, "giving up capabilities") : rc;
}

/* All layers. */

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

/* A layer is of use only with the previous ones: without a filter of calls a codec can start a program that
 * is not confined; without Landlock it can read the files that every user can read. */
static enum isolation level_of(const struct sandbox *s)
{
    return !s->has_seccomp        ? ISOLATION_NONE
           : s->landlock_abi == 0 ? ISOLATION_PROCESS
           : !s->has_own_user     ? ISOLATION_FILES
                                  : ISOLATION_USER;
}

/* Enters the layers in the order of sandbox.h. */
static int enter_layers(struct sandbox *s, int folder_fd, struct err *e)
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
    if ((rc = enter_own_user(folder_fd, no_user, sizeof no_user, e)) < 0)
        return rc;
    s->has_own_user = rc > 0;
    if (set_limits(s->has_own_user, e) < 0)
        return e->code;
    if (IS_SANITIZED) {
        snprintf(s->lacks, sizeof s->lacks, "a build with sanitizers runs without a filter of system calls");
        return 0;
    }
    /* A change of the user id sets it again, so it is cleared after that. */
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

static int check_level(const struct sandbox *s, enum isolation required, struct err *e)
{
    if (s->level >= required)
        return 0;
    return err_set(e, ERR_CODEC, "the codec would be isolated at level %s here, and %s is required: %s",
                   isolation_name(s->level), isolation_name(required), s->lacks);
}

int sandbox_forgo(struct sandbox *out, const char *why, enum isolation required, struct err *e)
{
    *out = (struct sandbox){.level = ISOLATION_NONE};
    snprintf(out->lacks, sizeof out->lacks, "%s", why);
    snprintf(out->no_tree, sizeof out->no_tree, "it is not confined");
    return keep_limits() ? check_level(out, required, e) : err_errno(e, ERR_IO, "setrlimit");
}

int sandbox_enter(struct sandbox *out, int folder_fd, enum isolation required, struct err *e)
{
    struct sandbox s = {0};
    int n = n_threads();

    *out = s;
    if (n != 1 && !IS_SANITIZED)
        return err_set(e, ERR_INTERNAL, "the sandbox cannot be entered: %d threads run already", n);
    if (enter_layers(&s, folder_fd, e) < 0)
        return err_at(e, "the sandbox");
    s.level = level_of(&s);
    *out = s;
    if (check_level(&s, required, e) == 0)
        return 0;
    return err_hint(e, "agent --require-isolation %s allows it.", isolation_name(s.level));
}

json_t *sandbox_json(const struct sandbox *s)
{
    return json_pack("{s:s, s:i, s:b, s:b, s:b, s:s}", "level", isolation_name(s->level), "landlock_abi",
                     s->landlock_abi, "seccomp", (int)s->has_seccomp, "own_user", (int)s->has_own_user,
                     "own_tree", (int)s->has_own_tree, "lacks", s->lacks);
}

/* The compiler of a codec's source, which is hostile input: `#include "/etc/shadow"` would print that file
 * into the log. */

static int become_compiler_user(const char *folder)
{
    uid_t id = sandbox_user_id(getpid());

    /* A container may have no other users (EINVAL, EPERM): the other layers still confine the compiler. */
    if (geteuid() == 0 && chown(folder, id, id) == 0 && become_user(id) < 0 && errno != EINVAL &&
        errno != EPERM)
        return -1;
    return drop_capabilities();
}

int sandbox_compiler(void *arg)
{
    const struct rlimit size = {OBJECT_MAX, OBJECT_MAX};
    const char *folder = arg;

    /* cc may be ccache, which would fail where it cannot write its cache. */
    if (setenv("CCACHE_DISABLE", "1", 1) < 0 || setenv("TMPDIR", folder, 1) < 0 ||
        setrlimit(RLIMIT_FSIZE, &size) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
        become_compiler_user(folder) < 0)
        return -1;
    return landlock_for_compiler(folder) < 0 ? -1 : seccomp_for_compiler();
}

/* A training program. */

/* Its output goes to pipes, which it may open again, as /dev/stderr. */
static int give_program(const char *own, uid_t user)
{
    char *const roots[] = {(char *)(uintptr_t)own, NULL};
    FTS *walk = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
    FTSENT *f;
    int rc = walk ? 0 : -1;

    while (rc == 0 && (errno = 0, f = fts_read(walk)) != NULL)
        rc = lchown(f->fts_accpath, user, user);
    if (rc == 0 && errno != 0)
        rc = -1;
    if (walk)
        fts_close(walk);
    return rc < 0 || fchown(STDOUT_FILENO, user, user) < 0 || fchown(STDERR_FILENO, user, user) < 0 ? -1 : 0;
}

/* The signal at the parent's end is lost with the user's change. The program is in its folder again, by its
 * path in the new tree. */
static int enter_program_user(const struct trainer_places *p, uid_t user)
{
    char folder[PATH_MAX];
    pid_t parent = getppid();

    if (!getcwd(folder, sizeof folder) || give_program(p->own, user) < 0 || own_tree_for_trainer(p) < 0 ||
        chdir(folder) < 0 || lower_limit(RLIMIT_NPROC, PROGRAM_PROCESSES) < 0 || become_user(user) < 0 ||
        prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
        return -1;
    if (getppid() == parent)
        return 0;
    errno = ESRCH;
    return -1;
}

int sandbox_trainer(const struct trainer_places *p, uid_t user)
{
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || (user > 0 && enter_program_user(p, user) < 0) ||
        drop_capabilities() < 0)
        return -1;
    return landlock_for_trainer(p);
}
