/* disk_log -- logs the changes that its process makes to files below a folder, and its messages to and
 * from clients, in order; loaded by LD_PRELOAD.
 *
 *   PSGD_DISK_LOG=PATH      several processes may append to the same
 *   PSGD_DISK_ROOT=FOLDER   an absolute path without links
 *   PSGD_DISK_TALK=1        connections, too
 *
 * A record is written after its call has succeeded, with one write(2), so that the records of a process whose
 * message another has received come before those of the other:
 *
 *   CALL <tab> FILE <tab> NUMBER <tab> LENGTH <tab> PATH <line feed>, then LENGTH bytes
 *
 *   create    FILE (an inode's number) is at PATH         write     LENGTH bytes of FILE from byte NUMBER
 *   truncate  FILE has NUMBER bytes                       sync      FILE
 *   sync_names    of the folder at PATH
 *   rename, link  PATH becomes, or is also, the path in the LENGTH bytes
 *   unlink, mkdir, rmdir  PATH
 *   said, heard   LENGTH bytes on a connection of TCP with a client's port NUMBER; tls_said, tls_heard: in it
 *
 * Paths are relative to the folder. Children of the process are left alone. */
#undef _FORTIFY_SOURCE /* makes inline functions of some that this file defines */
#include <netinet/in.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include "preload_log.h"

static char root[PATH_MAX];
static int log_fd = -1;
static bool hears;
static pid_t owner;

__attribute__((constructor)) static void read_environment(void)
{
    const char *folder = getenv("PSGD_DISK_ROOT");

    snprintf(root, sizeof root, "%s/", folder ? folder : "");
    log_fd = preload_log_open(getenv("PSGD_DISK_LOG"));
    hears = getenv("PSGD_DISK_TALK") != NULL;
    owner = getpid();
    unsetenv("PSGD_DISK_TALK");
    unsetenv("PSGD_DISK_LOG");
    unsetenv("PSGD_DISK_ROOT");
    unsetenv("LD_PRELOAD");
}

static void add(const char *call, uint64_t file, int64_t number, const char *path, const void *bytes,
                size_t len)
{
    char head[PATH_MAX + 128];
    int n = snprintf(head, sizeof head, "%s\t%llu\t%lld\t%zu\t%s\n", call, (unsigned long long)file,
                     (long long)number, len, path);
    const struct iovec parts[] = {{head, (size_t)n}, {(void *)(uintptr_t)bytes, len}};

    if (getpid() == owner && syscall(SYS_writev, log_fd, parts, 2) != (ssize_t)((size_t)n + len))
        abort(); /* a log with a gap shows losses that there are none */
}

/* The part of an absolute path below the folder; NULL: it is elsewhere. The folder itself is "". */
static const char *below(const char *path)
{
    size_t n = strlen(root);

    if (log_fd < 0)
        return NULL;
    if (strncmp(path, root, n - 1) == 0 && path[n - 1] == '\0')
        return path + n - 1;
    return strncmp(path, root, n) == 0 ? path + n : NULL;
}

/* The same of a path as the calls take it. */
static const char *below_at(int dir, const char *path, char whole[2 * PATH_MAX])
{
    char folder[PATH_MAX] = "";

    if (log_fd < 0)
        return NULL;
    if (path[0] != '/' && dir == AT_FDCWD && !getcwd(folder, sizeof folder))
        return NULL;
    if (path[0] != '/' && dir != AT_FDCWD)
        preload_path_of(dir, folder);
    snprintf(whole, 2 * PATH_MAX, "%s%s%s", folder, path[0] == '/' ? "" : "/", path);
    return below(whole);
}

static const char *below_fd(int fd, char path[PATH_MAX], struct stat *st)
{
    if (log_fd < 0 || fstat(fd, st) < 0 || (!S_ISREG(st->st_mode) && !S_ISDIR(st->st_mode)))
        return NULL;
    preload_path_of(fd, path);
    return below(path);
}

static int open_at(int dir, const char *path, int flags, mode_t mode)
{
    char whole[2 * PATH_MAX];
    const char *name = flags & (O_CREAT | O_TRUNC) ? below_at(dir, path, whole) : NULL;
    int fd = real_open_at(dir, path, flags, mode);
    struct stat st;

    if (fd < 0 || !name || fstat(fd, &st) < 0)
        return fd;
    add("create", st.st_ino, 0, name, NULL, 0);
    if (flags & O_TRUNC)
        add("truncate", st.st_ino, 0, name, NULL, 0);
    return fd;
}

OPEN_FUNCTIONS

static void add_write(int fd, const void *bytes, ssize_t n, off_t at)
{
    char path[PATH_MAX];
    struct stat st;
    const char *name = n > 0 ? below_fd(fd, path, &st) : NULL;

    if (name)
        add("write", st.st_ino, at < 0 ? lseek(fd, 0, SEEK_CUR) - n : at, name, bytes, (size_t)n);
}

ssize_t write(int fd, const void *bytes, size_t len)
{
    ssize_t n = syscall(SYS_write, fd, bytes, len);

    add_write(fd, bytes, n, -1);
    return n;
}

ssize_t writev(int fd, const struct iovec *parts, int n_parts)
{
    ssize_t n = syscall(SYS_writev, fd, parts, n_parts);
    off_t at = n > 0 ? lseek(fd, 0, SEEK_CUR) - n : 0;

    for (ssize_t left = n; left > 0; parts++) {
        ssize_t k = (size_t)left < parts->iov_len ? left : (ssize_t)parts->iov_len;

        add_write(fd, parts->iov_base, k, at);
        at += k;
        left -= k;
    }
    return n;
}

ssize_t pwrite(int fd, const void *bytes, size_t len, off_t at)
{
    ssize_t n = syscall(SYS_pwrite64, fd, bytes, len, at);

    add_write(fd, bytes, n, at);
    return n;
}

/* A call on an open file that succeeds with 0. */
static int done(int rc, const char *call, int fd, off_t number)
{
    char path[PATH_MAX];
    struct stat st;
    const char *name = rc == 0 ? below_fd(fd, path, &st) : NULL;

    if (name)
        add(call, st.st_ino, number, name, NULL, 0);
    return rc;
}

int fsync(int fd)
{
    struct stat st;
    bool is_folder = fstat(fd, &st) == 0 && S_ISDIR(st.st_mode);

    return done((int)syscall(SYS_fsync, fd), is_folder ? "sync_names" : "sync", fd, 0);
}

int fdatasync(int fd)
{
    return done((int)syscall(SYS_fdatasync, fd), "sync", fd, 0);
}

int ftruncate(int fd, off_t len)
{
    return done((int)syscall(SYS_ftruncate, fd, len), "truncate", fd, len);
}

/* A call on a name. */
static int named(int rc, const char *call, const char *name)
{
    if (rc == 0 && name)
        add(call, 0, 0, name, NULL, 0);
    return rc;
}

int mkdir(const char *path, mode_t mode)
{
    char whole[2 * PATH_MAX];
    const char *name = below_at(AT_FDCWD, path, whole);

    return named((int)syscall(SYS_mkdirat, AT_FDCWD, path, mode), "mkdir", name);
}

int unlinkat(int dir, const char *path, int flags)
{
    char whole[2 * PATH_MAX];
    const char *name = below_at(dir, path, whole);

    return named((int)syscall(SYS_unlinkat, dir, path, flags), flags & AT_REMOVEDIR ? "rmdir" : "unlink",
                 name);
}

int unlink(const char *path)
{
    return unlinkat(AT_FDCWD, path, 0);
}

int rmdir(const char *path)
{
    return unlinkat(AT_FDCWD, path, AT_REMOVEDIR);
}

/* A call with two names: neither is logged if one is elsewhere. */
static int paired(const char *call, int from_dir, const char *from, int to_dir, const char *to)
{
    char whole[2 * PATH_MAX], other[2 * PATH_MAX];
    const char *a = below_at(from_dir, from, whole), *b = below_at(to_dir, to, other);
    int rc = (int)(strcmp(call, "rename") == 0 ? syscall(SYS_renameat2, from_dir, from, to_dir, to, 0)
                                               : syscall(SYS_linkat, from_dir, from, to_dir, to, 0));

    if (rc == 0 && a && b)
        add(call, 0, 0, a, b, strlen(b));
    return rc;
}

int renameat(int from_dir, const char *from, int to_dir, const char *to)
{
    return paired("rename", from_dir, from, to_dir, to);
}

int rename(const char *from, const char *to)
{
    return paired("rename", AT_FDCWD, from, AT_FDCWD, to);
}

int linkat(int from_dir, const char *from, int to_dir, const char *to, int flags)
{
    (void)flags; /* none of the programs gives any */
    return paired("link", from_dir, from, to_dir, to);
}

int link(const char *from, const char *to)
{
    return paired("link", AT_FDCWD, from, AT_FDCWD, to);
}

static void add_talk(const char *call, int fd, const void *bytes, ssize_t n)
{
    struct sockaddr_in peer = {0};
    socklen_t len = sizeof peer;

    if (log_fd >= 0 && hears && n > 0 && getpeername(fd, (struct sockaddr *)&peer, &len) == 0 &&
        peer.sin_family == AF_INET)
        add(call, 0, ntohs(peer.sin_port), "", bytes, (size_t)n);
}

ssize_t send(int fd, const void *bytes, size_t len, int flags)
{
    ssize_t n = syscall(SYS_sendto, fd, bytes, len, flags, NULL, 0);

    add_talk("said", fd, bytes, n);
    return n;
}

ssize_t recv(int fd, void *bytes, size_t len, int flags)
{
    ssize_t n = syscall(SYS_recvfrom, fd, bytes, len, flags, NULL, NULL);

    if (!(flags & MSG_PEEK))
        add_talk("heard", fd, bytes, n);
    return n;
}

/* What _FORTIFY_SOURCE makes of it. */
ssize_t __recv_chk(int fd, void *bytes, size_t len, size_t room, int flags);
ssize_t __recv_chk(int fd, void *bytes, size_t len, size_t room, int flags)
{
    (void)room;
    return recv(fd, bytes, len, flags);
}

/* Of GnuTLS, which only the program links. */
static int socket_of(void *session)
{
    int (*get)(void *);

    *(void **)&get = dlsym(RTLD_NEXT, "gnutls_transport_get_int");
    return get(session);
}

ssize_t gnutls_record_send(void *session, const void *bytes, size_t len);
ssize_t gnutls_record_send(void *session, const void *bytes, size_t len)
{
    ssize_t n;
    REAL(gnutls_record_send);

    n = real(session, bytes, len);
    add_talk("tls_said", socket_of(session), bytes, n);
    return n;
}

ssize_t gnutls_record_recv(void *session, void *bytes, size_t len);
ssize_t gnutls_record_recv(void *session, void *bytes, size_t len)
{
    ssize_t n;
    REAL(gnutls_record_recv);

    n = real(session, bytes, len);
    add_talk("tls_heard", socket_of(session), bytes, n);
    return n;
}
