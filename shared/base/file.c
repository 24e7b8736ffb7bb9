#include "shared/base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shared/base/process.h"

enum { PARTS_AT_ONCE = IOV_MAX };

/* Since Linux 6.3, and required if vm.memfd_noexec is 2: the file cannot be executed, but mapped executable.
 * Older kernels refuse the flag. */
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8U
#endif

int file_read(char **out, size_t *len, const char *path, size_t max, struct err *e)
{
    /* Opening a pipe must not block before it is refused. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat st;
    char *buf = NULL;
    size_t n = 0;

    if (fd < 0)
        return err_errno(e, errno == ENOENT ? ERR_NOT_FOUND : ERR_IO, "%s", path);
    if (fstat(fd, &st) < 0) {
        err_errno(e, ERR_IO, "%s", path);
        goto fail;
    }
    if (!S_ISREG(st.st_mode)) {
        err_set(e, ERR_IO, "%s: not a regular file", path);
        goto fail;
    }
    if ((unsigned long long)st.st_size > max) {
        err_set(e, ERR_CONFIG, "%s: %lld bytes, at most %zu are read", path, (long long)st.st_size, max);
        goto fail;
    }
    buf = malloc((size_t)st.st_size + 1);
    if (!buf) {
        err_set(e, ERR_NOMEM, "%s: no memory for %lld bytes", path, (long long)st.st_size);
        goto fail;
    }
    while (n < (size_t)st.st_size) {
        ssize_t k = read(fd, buf + n, (size_t)st.st_size - n);

        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0) {
            err_errno(e, ERR_IO, "%s", path);
            goto fail;
        }
        if (k == 0)
            break;
        n += (size_t)k;
    }
    close(fd);
    buf[n] = '\0';
    *out = buf;
    *len = n;
    return 0;
fail:
    free(buf);
    close(fd);
    return e->code;
}

int file_write_all(int fd, const void *bytes, size_t len, const char *what, struct err *e)
{
    const char *p = bytes;

    while (len > 0) {
        ssize_t k = write(fd, p, len);

        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0)
            return err_errno(e, ERR_IO, "%s", what);
        p += k;
        len -= (size_t)k;
    }
    return 0;
}

bool file_keep_room(int fd, size_t len)
{
    struct stat st;
    off_t end, kept;

    if (fstat(fd, &st) < 0)
        return true;
    end = st.st_size + (off_t)len;
    kept = st.st_blocks * 512 > st.st_size ? st.st_blocks * 512 : st.st_size;
    /* Only what is missing: a reservation that fails on a tmpfs gives up its whole range. */
    return kept >= end || fallocate(fd, FALLOC_FL_KEEP_SIZE, kept, end - kept) == 0 || errno != ENOSPC;
}

int file_sync_folder(const char *path, struct err *e)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0)
        return err_errno(e, ERR_IO, "%s", path);
    if (fsync(fd) < 0 && errno != EINVAL) {
        err_errno(e, ERR_IO, "%s", path);
        close(fd);
        return e->code;
    }
    close(fd);
    return 0;
}

int file_sync_name(const char *path, struct err *e)
{
    char dir[PATH_MAX];
    char *slash;

    snprintf(dir, sizeof dir, "%s", path);
    slash = strrchr(dir, '/');
    if (slash == dir)
        slash[1] = '\0';
    else if (slash)
        *slash = '\0';
    else
        strcpy(dir, ".");
    return file_sync_folder(dir, e);
}

/* A rename would replace a device or a pipe by a file; as root even /dev/null. */
int file_check_replaceable(const char *path, struct err *e)
{
    struct stat st;

    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
        return err_set(e, ERR_IO, "%s: not a regular file, and left as it is", path);
    return 0;
}

int file_sync_bytes(const char *path, struct err *e)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return err_errno(e, errno == ENOENT ? ERR_NOT_FOUND : ERR_IO, "%s", path);
    if (fsync(fd) < 0) {
        err_errno(e, ERR_IO, "%s", path);
        close(fd);
        return e->code;
    }
    close(fd);
    return 0;
}

int file_temporary(char *out, size_t size, const char *path, struct err *e)
{
    if (snprintf(out, size, "%s.tmp.%ld", path, (long)getpid()) >= (int)size)
        return err_set(e, ERR_CONFIG, "%s: path too long", path);
    return 0;
}

/* A process that has ended writes no more, even before its parent waits for it. */
static bool writer_has_ended(pid_t pid)
{
    struct process p;

    return (kill(pid, 0) < 0 && errno == ESRCH) || (process_look(&p, pid) && p.has_ended);
}

/* A name with the pid of this process is left over from an earlier process: this one is writing no file
 * now. */
static bool is_left_over(const char *name)
{
    const char *pid = NULL, *next = name;
    char *end;
    long n;

    while ((next = strstr(next, ".tmp.")) != NULL)
        pid = next += strlen(".tmp.");
    if (!pid)
        return false;
    n = strtol(pid, &end, 10);
    return n > 0 && n <= INT_MAX && !*end && (n == getpid() || writer_has_ended((pid_t)n));
}

void file_remove_temporary(const char *dir)
{
    DIR *list = opendir(dir);
    struct dirent *d;

    while (list && (d = readdir(list)) != NULL)
        if (is_left_over(d->d_name))
            unlinkat(dirfd(list), d->d_name, 0);
    if (list)
        closedir(list);
}

int file_write_vector(int fd, const struct iovec *parts, size_t n, const char *what, struct err *e)
{
    while (n > 0) {
        ssize_t k = writev(fd, parts, n < PARTS_AT_ONCE ? (int)n : PARTS_AT_ONCE);
        size_t done = k > 0 ? (size_t)k : 0;

        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0)
            return err_errno(e, ERR_IO, "%s", what);
        for (; n > 0 && done >= parts->iov_len; parts++, n--)
            done -= parts->iov_len;
        if (done == 0)
            continue;
        if (file_write_all(fd, (const char *)parts->iov_base + done, parts->iov_len - done, what, e) < 0)
            return e->code;
        parts++;
        n--;
    }
    return 0;
}

int file_write_by(const char *path, int (*write)(void *arg, int fd, const char *path, struct err *e),
                  void *arg, mode_t mode, bool is_synced, struct err *e)
{
    char tmp[PATH_MAX];
    int fd;

    if (file_temporary(tmp, sizeof tmp, path, e) < 0 || file_check_replaceable(path, e) < 0)
        return e->code;
    /* Creates a new file: a file that is left over, or another user's, may have another mode. */
    unlink(tmp);
    fd = open(tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
    if (fd < 0)
        return err_errno(e, ERR_IO, "%s", path);
    if (write(arg, fd, path, e) < 0)
        goto fail;
    if (is_synced && fsync(fd) < 0) {
        err_errno(e, ERR_IO, "%s", path);
        goto fail;
    }
    close(fd);
    if (rename(tmp, path) < 0) {
        err_errno(e, ERR_IO, "%s", path);
        unlink(tmp);
        return e->code;
    }
    return is_synced ? file_sync_name(path, e) : 0;
fail:
    close(fd);
    unlink(tmp);
    return e->code;
}

struct file_parts {
    const struct iovec *parts;
    size_t n;
};

static int write_listed(void *arg, int fd, const char *path, struct err *e)
{
    const struct file_parts *list = arg;

    return file_write_vector(fd, list->parts, list->n, path, e);
}

int file_write_parts(const char *path, const struct iovec *parts, size_t n, mode_t mode, bool is_synced,
                     struct err *e)
{
    return file_write_by(path, write_listed, &(struct file_parts){parts, n}, mode, is_synced, e);
}

int file_write(const char *path, const void *bytes, size_t len, mode_t mode, struct err *e)
{
    const struct iovec whole = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = len};

    return file_write_parts(path, &whole, 1, mode, true, e);
}

static int create_in_memory(void)
{
    int fd = memfd_create("psgd-copy", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);

    return fd < 0 && errno == EINVAL ? memfd_create("psgd-copy", MFD_CLOEXEC | MFD_ALLOW_SEALING) : fd;
}

int file_copy_bytes(int to, int from, size_t len, struct err *e)
{
    while (len > 0) {
        ssize_t n = sendfile(to, from, NULL, len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_errno(e, ERR_IO, "it cannot be copied");
        if (n == 0)
            return err_set(e, ERR_IO, "the file became shorter while it was read");
        len -= (size_t)n;
    }
    return 0;
}

uint64_t file_whole_lines(int fd, uint64_t bytes)
{
    char buf[FILE_LINE_MAX];
    size_t n = bytes < sizeof buf ? (size_t)bytes : sizeof buf;
    const char *lf;

    if (pread(fd, buf, n, (off_t)(bytes - n)) != (ssize_t)n)
        return 0;
    lf = memrchr(buf, '\n', n);
    return lf ? bytes - n + (size_t)(lf - buf) + 1 : 0;
}

int file_copy_to_memory(const char *path, size_t most, struct err *e)
{
    const int seals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
    int from = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY), to = -1;
    struct stat st;

    if (from < 0)
        return err_errno(e, errno == ENOENT ? ERR_NOT_FOUND : ERR_IO, "%s", path);
    if (fstat(from, &st) < 0) {
        err_errno(e, ERR_IO, "%s", path);
        goto done;
    }
    if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size > most) {
        err_set(e, ERR_CONFIG, "%s: not a regular file of at most %zu bytes", path, most);
        goto done;
    }
    to = create_in_memory();
    if (to < 0) {
        err_errno(e, ERR_IO, "memfd_create");
    } else if (file_copy_bytes(to, from, (size_t)st.st_size, e) < 0 ||
               (fcntl(to, F_ADD_SEALS, seals) < 0 && err_errno(e, ERR_IO, "sealing a copy in memory") < 0)) {
        err_at(e, "%s", path);
        close(to);
        to = -1;
    }
done:
    close(from);
    return to < 0 ? e->code : to;
}

int file_make_in_memory(const void *bytes, size_t len, struct err *e)
{
    int fd = create_in_memory();

    if (fd < 0)
        return err_errno(e, ERR_IO, "memfd_create");
    if (file_write_all(fd, bytes, len, "a file in memory", e) == 0)
        return fd;
    close(fd);
    return e->code;
}

void file_fd_path(char out[FILE_FD_PATH], int fd)
{
    snprintf(out, FILE_FD_PATH, "/proc/self/fd/%d", fd);
}

int file_mkdirs(const char *path, mode_t mode, struct err *e)
{
    char part[PATH_MAX];
    struct stat st;

    if (!path[0])
        return err_set(e, ERR_CONFIG, "a folder's path is empty");
    if (snprintf(part, sizeof part, "%s", path) >= (int)sizeof part)
        return err_set(e, ERR_CONFIG, "%s: path too long", path);
    for (char *p = part + 1; *p; p++) {
        if (*p != '/')
            continue;
        *p = '\0';
        if (mkdir(part, mode) < 0 && errno != EEXIST)
            return err_errno(e, ERR_IO, "%s", part);
        *p = '/';
    }
    if (mkdir(part, mode) < 0 && errno != EEXIST)
        return err_errno(e, ERR_IO, "%s", part);
    if (stat(part, &st) < 0 || !S_ISDIR(st.st_mode))
        return err_set(e, ERR_IO, "%s: not a folder", path);
    return 0;
}

static int remove_tree_at(int parent, const char *name, const char *path, struct err *e)
{
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct dirent *d;
    DIR *dir;

    if (fd < 0 && (errno == ENOTDIR || errno == ELOOP)) {
        if (unlinkat(parent, name, 0) < 0 && errno != ENOENT)
            return err_errno(e, ERR_IO, "%s", path);
        return 0;
    }
    if (fd < 0)
        return errno == ENOENT ? 0 : err_errno(e, ERR_IO, "%s", path);
    dir = fdopendir(fd);
    if (!dir) {
        err_errno(e, ERR_IO, "%s", path);
        close(fd);
        return e->code;
    }
    while ((d = readdir(dir)) != NULL) {
        if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
            continue;
        if (remove_tree_at(dirfd(dir), d->d_name, path, e) < 0) {
            closedir(dir);
            return e->code;
        }
    }
    closedir(dir);
    if (unlinkat(parent, name, AT_REMOVEDIR) < 0 && errno != ENOENT)
        return err_errno(e, ERR_IO, "%s", path);
    return 0;
}

int file_remove_tree(const char *path, struct err *e)
{
    return remove_tree_at(AT_FDCWD, path, path, e);
}

static bool is_regular(int parent, const char *name)
{
    struct stat st;

    return fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode);
}

size_t file_keep_only(const char *path, bool (*is_kept)(const char *name))
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    struct dirent *d;
    size_t n = 0;

    if (fd >= 0 && !dir)
        close(fd);
    while (dir && (d = readdir(dir)) != NULL) {
        if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
            continue;
        if (!is_kept(d->d_name) || !is_regular(dirfd(dir), d->d_name))
            n += remove_tree_at(dirfd(dir), d->d_name, path, &(struct err){0}) == 0;
    }
    if (dir)
        closedir(dir);
    return n;
}

int file_join(char *out, size_t size, const char *dir, const char *name, struct err *e)
{
    if (snprintf(out, size, "%s/%s", dir, name) >= (int)size)
        return err_set(e, ERR_CONFIG, "%s/%s: path too long", dir, name);
    return 0;
}

bool file_has_ending(const char *path, const char *ending)
{
    size_t n = strlen(path), k = strlen(ending);

    return n > k && strcmp(path + n - k, ending) == 0;
}

int file_absolute(char *out, size_t size, const char *path, struct err *e)
{
    char here[PATH_MAX];

    if (path[0] == '/')
        return file_join(out, size, "", path + 1, e);
    if (!getcwd(here, sizeof here))
        return err_errno(e, ERR_IO, "the current folder");
    return file_join(out, size, here[1] ? here : "", path, e); /* of "/" one slash only */
}

bool file_find_program(char *out, size_t size, const char *name)
{
    const char *path = getenv("PATH");

    while (path && *path) {
        size_t n = strcspn(path, ":");

        if (n > 0 && snprintf(out, size, "%.*s/%s", (int)n, path, name) < (int)size && access(out, X_OK) == 0)
            return true;
        path += n + (path[n] == ':');
    }
    return false;
}

int file_exe_dir(char *out, size_t size, struct err *e)
{
    ssize_t n = readlink("/proc/self/exe", out, size);
    char *slash;

    if (n < 0)
        return err_errno(e, ERR_IO, "/proc/self/exe");
    if ((size_t)n >= size)
        return err_set(e, ERR_CONFIG, "the path of this program is too long");
    out[n] = '\0';
    slash = strrchr(out, '/');
    if (!slash)
        return err_set(e, ERR_INTERNAL, "/proc/self/exe: no folder in \"%s\"", out);
    *slash = '\0';
    return 0;
}

int file_state_dir(char *out, size_t size, struct err *e)
{
    const char *state = getenv("XDG_STATE_HOME");
    const char *home = getenv("HOME");
    const struct passwd *pw;
    int n;

    if (state && state[0] == '/')
        n = snprintf(out, size, "%s/psgd", state);
    else if (home && home[0] == '/')
        n = snprintf(out, size, "%s/.local/state/psgd", home);
    else if ((pw = getpwuid(getuid())) != NULL)
        n = snprintf(out, size, "%s/.local/state/psgd", pw->pw_dir);
    else
        return err_set(e, ERR_CONFIG, "no home folder: set XDG_STATE_HOME");
    if (n >= (int)size)
        return err_set(e, ERR_CONFIG, "the state folder's path is too long");
    return 0;
}
