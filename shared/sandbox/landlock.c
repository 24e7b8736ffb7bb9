/* Landlock, landlock(7): rights on files by rules, without privileges. A kernel with an older version (ABI)
 * lacks the last rights of the table; they are then not handled, which means allowed. */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shared/sandbox/sandbox.h"

/* The part of linux/landlock.h that is used here, versions 1 to 7: the oldest supported headers (Linux 5.10)
 * lack it. Structures only grow at their end; the kernel gets the size that this program knows. */

/* The same numbers on all architectures. */
enum { CALL_LANDLOCK_CREATE = 444, CALL_LANDLOCK_ADD_RULE = 445, CALL_LANDLOCK_RESTRICT = 446 };

enum { LANDLOCK_VERSION_FLAG = 1, LANDLOCK_PATH_BENEATH = 1 };

struct landlock_ruleset {
    uint64_t fs;    /* the rights that are handled: without a rule nothing of them is allowed */
    uint64_t net;   /* since 4 */
    uint64_t scope; /* since 6 */
};

struct landlock_path {
    uint64_t allowed;
    int32_t parent_fd;
} __attribute__((packed));

/* Rights on files and folders. */
#define LL_EXECUTE     (1ULL << 0)
#define LL_WRITE_FILE  (1ULL << 1)
#define LL_READ_FILE   (1ULL << 2)
#define LL_READ_DIR    (1ULL << 3)
#define LL_REMOVE_DIR  (1ULL << 4)
#define LL_REMOVE_FILE (1ULL << 5)
#define LL_MAKE_CHAR   (1ULL << 6)
#define LL_MAKE_DIR    (1ULL << 7)
#define LL_MAKE_REG    (1ULL << 8)
#define LL_MAKE_SOCK   (1ULL << 9)
#define LL_MAKE_FIFO   (1ULL << 10)
#define LL_MAKE_BLOCK  (1ULL << 11)
#define LL_MAKE_SYM    (1ULL << 12)
#define LL_REFER       (1ULL << 13) /* since 2 */
#define LL_TRUNCATE    (1ULL << 14) /* since 3 */
#define LL_IOCTL_DEV   (1ULL << 15) /* since 5 */

#define LL_BIND_TCP    (1ULL << 0)
#define LL_CONNECT_TCP (1ULL << 1)

#define LL_SCOPE_ABSTRACT_UNIX (1ULL << 0)
#define LL_SCOPE_SIGNAL        (1ULL << 1)

#define OF_V1 (LL_MAKE_SYM | (LL_MAKE_SYM - 1)) /* all rights up to LL_MAKE_SYM */

/* What each version added. */
static const struct {
    int abi;
    struct landlock_ruleset handles;
} versions[] = {
    {1, {.fs = OF_V1}},        {2, {.fs = LL_REFER}},
    {3, {.fs = LL_TRUNCATE}},  {4, {.net = LL_BIND_TCP | LL_CONNECT_TCP}},
    {5, {.fs = LL_IOCTL_DEV}}, {6, {.scope = LL_SCOPE_ABSTRACT_UNIX | LL_SCOPE_SIGNAL}},
};

/* The runner creates records when their first row is written, and replaces checkpoints. There is no right to
 * make a folder, a link, a socket, a FIFO or a device: the agent serves regular files only. */
static const uint64_t run_folder = LL_READ_FILE | LL_WRITE_FILE | LL_READ_DIR | LL_MAKE_REG | LL_REMOVE_FILE |
                                   LL_TRUNCATE;

/* A compiler makes temporary files of its own. */
static const uint64_t compile_folder = LL_READ_FILE | LL_WRITE_FILE | LL_READ_DIR | LL_MAKE_REG |
                                       LL_REMOVE_FILE | LL_MAKE_DIR | LL_REMOVE_DIR | LL_TRUNCATE;

struct allowed_path {
    const char *path;
    uint64_t allowed;
};

static const struct allowed_path nowhere[] = {{NULL, 0}};

#define SYSTEM (LL_EXECUTE | LL_READ_FILE | LL_READ_DIR)

static const struct allowed_path of_compiler[] = {
    {"/usr", SYSTEM},
    {"/bin", SYSTEM},
    {"/lib", SYSTEM},
    {"/lib32", SYSTEM},
    {"/lib64", SYSTEM},
    {"/opt", SYSTEM},
    {"/nix/store", SYSTEM},
    {"/gnu/store", SYSTEM},
    {"/etc/alternatives", SYSTEM},
    {"/etc/ld.so.cache", LL_READ_FILE},
    {"/dev/null", LL_READ_FILE | LL_WRITE_FILE},
    {NULL, 0},
};

#define READABLE (LL_READ_FILE | LL_READ_DIR)
#define DEVICE   (LL_READ_FILE | LL_WRITE_FILE | LL_IOCTL_DEV)
#define GPU(n)                                                                                               \
    {                                                                                                        \
        "/dev/nvidia" n, DEVICE                                                                              \
    }

/* A training program has these besides of_compiler. Of /etc only what programs look up: root's agent could
 * read the rest. Of another process /proc shows nothing that a debugger could read: Landlock forbids that
 * outside of the program's own processes. /dev/shm has the memory that processes of one program share. */
static const struct allowed_path of_trainer[] = {
    {"/proc", READABLE},
    {"/sys", READABLE},
    {"/etc/ld.so.conf", LL_READ_FILE},
    {"/etc/ld.so.conf.d", READABLE},
    {"/etc/localtime", LL_READ_FILE},
    {"/etc/timezone", LL_READ_FILE},
    {"/etc/locale.alias", LL_READ_FILE},
    {"/etc/passwd", LL_READ_FILE},
    {"/etc/group", LL_READ_FILE},
    {"/etc/nsswitch.conf", LL_READ_FILE},
    {"/etc/host.conf", LL_READ_FILE},
    {"/etc/hosts", LL_READ_FILE},
    {"/etc/hostname", LL_READ_FILE},
    {"/etc/resolv.conf", LL_READ_FILE},
    {"/etc/gai.conf", LL_READ_FILE},
    {"/etc/protocols", LL_READ_FILE},
    {"/etc/services", LL_READ_FILE},
    {"/etc/mime.types", LL_READ_FILE},
    {"/etc/ssl/certs", READABLE},
    {"/etc/ssl/openssl.cnf", LL_READ_FILE},
    {"/etc/pki/tls/certs", READABLE},
    {"/etc/pki/ca-trust", READABLE},
    {"/etc/fonts", READABLE},
    {"/etc/OpenCL", READABLE},
    {"/etc/vulkan", READABLE},
    {"/run/systemd/resolve", READABLE},
    {"/dev/zero", LL_READ_FILE | LL_WRITE_FILE},
    {"/dev/full", LL_READ_FILE | LL_WRITE_FILE},
    {"/dev/random", LL_READ_FILE},
    {"/dev/urandom", LL_READ_FILE},
    {"/dev/shm", READABLE | LL_WRITE_FILE | LL_MAKE_REG | LL_REMOVE_FILE | LL_TRUNCATE},
    GPU("ctl"),
    GPU("-uvm"),
    GPU("-uvm-tools"),
    GPU("-modeset"),
    GPU("0"),
    GPU("1"),
    GPU("2"),
    GPU("3"),
    GPU("4"),
    GPU("5"),
    GPU("6"),
    GPU("7"),
    GPU("8"),
    GPU("9"),
    GPU("10"),
    GPU("11"),
    GPU("12"),
    GPU("13"),
    GPU("14"),
    GPU("15"),
    {"/dev/nvidia-caps", READABLE | DEVICE},
    {"/dev/dri", READABLE | DEVICE},
    {"/dev/kfd", DEVICE},
    {NULL, 0},
};

/* Everything but devices. */
static const uint64_t trainer_folder = (OF_V1 & ~(LL_MAKE_CHAR | LL_MAKE_BLOCK)) | LL_REFER | LL_TRUNCATE;

/* Of the folder in which an interpreter is installed, or of a virtual environment: nothing else, because that
 * may be a user's home. */
static const struct allowed_path of_prefix[] = {
    {"bin", SYSTEM},          {"lib", SYSTEM},     {"lib32", SYSTEM}, {"lib64", SYSTEM},
    {"libexec", SYSTEM},      {"include", SYSTEM}, {"ssl", SYSTEM},   {"pyvenv.cfg", LL_READ_FILE},
    {"conda-meta", READABLE}, {NULL, 0},
};

static struct landlock_ruleset handled(int abi)
{
    struct landlock_ruleset all = {0};

    for (size_t i = 0; i < sizeof versions / sizeof *versions; i++)
        if (versions[i].abi <= abi) {
            all.fs |= versions[i].handles.fs;
            all.net |= versions[i].handles.net;
            all.scope |= versions[i].handles.scope;
        }
    return all;
}

static int allow(int rules, uint64_t handled_fs, int fd, uint64_t rights)
{
    const struct landlock_path p = {.allowed = rights & handled_fs, .parent_fd = fd};

    return (int)syscall(CALL_LANDLOCK_ADD_RULE, rules, LANDLOCK_PATH_BENEATH, &p, 0);
}

/* A path that this machine does not have is left out. */
static int allow_place(int rules, uint64_t handled_fs, int dir_fd, const char *path, uint64_t rights)
{
    int fd = openat(dir_fd, path, O_PATH | O_CLOEXEC), rc;

    if (fd < 0)
        return 0;
    rc = allow(rules, handled_fs, fd, rights);
    close(fd);
    return rc;
}

/* Relative paths are below the folder. */
static int allow_places(int rules, uint64_t handled_fs, int dir_fd, const struct allowed_path *p)
{
    int rc = 0;

    for (; p->path && rc == 0; p++)
        rc = allow_place(rules, handled_fs, dir_fd, p->path, p->allowed);
    return rc;
}

int landlock_version(void)
{
    return (int)syscall(CALL_LANDLOCK_CREATE, NULL, 0, LANDLOCK_VERSION_FLAG);
}

/* Returns 0, or -1 and errno. no_new_privs must be set. */
static int restrict_to(int abi, int folder_fd, uint64_t in_folder, const struct allowed_path *places)
{
    const struct landlock_ruleset set = handled(abi);
    /* An older kernel accepts the larger structure if the members that it does not know are zero. */
    int rules = (int)syscall(CALL_LANDLOCK_CREATE, &set, sizeof set, 0);
    int rc;

    if (rules < 0)
        return -1;
    rc = folder_fd < 0 ? 0 : allow(rules, set.fs, folder_fd, in_folder);
    if (rc == 0)
        rc = allow_places(rules, set.fs, AT_FDCWD, places);
    if (rc == 0)
        rc = (int)syscall(CALL_LANDLOCK_RESTRICT, rules, 0);
    close(rules);
    return rc;
}

int sandbox_landlock(int folder_fd, int *abi, char *why, size_t size, struct err *e)
{
    *abi = landlock_version();
    if (*abi < 0) {
        snprintf(why, size, "this kernel has no Landlock (%s; it needs Linux 5.13 and lsm=landlock)",
                 strerror(errno));
        *abi = 0;
        return 0;
    }
    if (restrict_to(*abi, folder_fd, run_folder, nowhere) < 0)
        return err_errno(e, ERR_IO, "Landlock");
    return 1;
}

int landlock_for_compiler(const char *folder)
{
    int abi = landlock_version(), fd, rc;

    if (abi < 0)
        return 0;
    fd = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    rc = restrict_to(abi, fd, compile_folder, of_compiler);
    close(fd);
    return rc;
}

static int allow_prefix(int rules, uint64_t handled_fs, const char *prefix)
{
    int fd = open(prefix, O_PATH | O_DIRECTORY | O_CLOEXEC), rc;

    if (fd < 0)
        return 0;
    rc = allow_places(rules, handled_fs, fd, of_prefix);
    close(fd);
    return rc;
}

static int allow_for_trainer(int rules, uint64_t handled_fs, const struct trainer_places *p)
{
    int rc = allow_place(rules, handled_fs, AT_FDCWD, p->own, trainer_folder);

    if (rc == 0)
        rc = allow_places(rules, handled_fs, AT_FDCWD, of_compiler);
    if (rc == 0)
        rc = allow_places(rules, handled_fs, AT_FDCWD, of_trainer);
    for (size_t i = 0; rc == 0 && i < sizeof p->prefixes / sizeof *p->prefixes; i++)
        if (p->prefixes[i])
            rc = allow_prefix(rules, handled_fs, p->prefixes[i]);
    for (size_t i = 0; rc == 0 && i < sizeof p->read_only / sizeof *p->read_only; i++)
        if (p->read_only[i])
            rc = allow_place(rules, handled_fs, AT_FDCWD, p->read_only[i], READABLE);
    return rc;
}

/* TCP ports are not handled: the program may fetch data. */
int landlock_for_trainer(const struct trainer_places *p)
{
    int abi = landlock_version(), rules, rc;
    struct landlock_ruleset set;

    if (abi < 0)
        return -1;
    set = handled(abi);
    set.net = 0;
    rules = (int)syscall(CALL_LANDLOCK_CREATE, &set, sizeof set, 0);
    if (rules < 0)
        return -1;
    rc = allow_for_trainer(rules, set.fs, p);
    if (rc == 0)
        rc = (int)syscall(CALL_LANDLOCK_RESTRICT, rules, 0);
    close(rules);
    return rc;
}
