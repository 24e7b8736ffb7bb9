#include "agent/jobs/blob.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shared/base/clock.h"
#include "shared/base/file.h"

enum { SYNC_EVERY_BYTES = 8 << 20 };

static const char temporary[] = "tmp-";

static DIR *open_listing(const struct blob_store *s)
{
    int fd = openat(s->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);

    if (!d && fd >= 0)
        close(fd);
    return d;
}

int blob_store_open(struct blob_store *s, const char *path, uint64_t limit, struct err *e)
{
    struct dirent *d;
    DIR *list;

    if (file_mkdirs(path, 0700, e) < 0)
        return e->code;
    *s = (struct blob_store){.dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), .limit = limit};
    if (s->dir_fd < 0 || !(list = open_listing(s)))
        return err_errno(e, ERR_IO, "%s", path);
    while ((d = readdir(list)) != NULL)
        if (strncmp(d->d_name, temporary, sizeof temporary - 1) == 0)
            unlinkat(s->dir_fd, d->d_name, 0);
    closedir(list);
    return 0;
}

void blob_store_close(struct blob_store *s)
{
    if (s->dir_fd > 0)
        close(s->dir_fd);
    *s = (struct blob_store){0};
}

/* The file's modification time is the time of its last use, by the monotonic clock, which cannot be set. */
static void note_use(struct blob_store *s, const char *hex)
{
    double now = clock_now();
    struct timespec used[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = (time_t)now}};

    used[1].tv_nsec = (long)((now - (double)used[1].tv_sec) * 1e9);
    utimensat(s->dir_fd, hex, used, AT_SYMLINK_NOFOLLOW);
}

int64_t blob_size(struct blob_store *s, const char *hex)
{
    struct stat st;

    if (!is_sha256_hex(hex) || fstatat(s->dir_fd, hex, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))
        return -1;
    note_use(s, hex);
    return st.st_size;
}

int blob_begin(struct blob_upload *u, struct blob_store *s, const char *hex, uint64_t bytes, struct err *e)
{
    *u = (struct blob_upload){.fd = -1};
    if (!is_sha256_hex(hex))
        return err_set(e, ERR_CONFIG, "\"%s\" is not a SHA-256 in 64 lower-case hex digits", hex);
    memcpy(u->hex, hex, sizeof u->hex);
    snprintf(u->name, sizeof u->name, "%s%llu", temporary, (unsigned long long)++s->n_begun);
    u->sum = sha256_start();
    if (!u->sum)
        return err_set(e, ERR_NOMEM, "no memory for an upload");
    u->fd = openat(s->dir_fd, u->name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0400);
    if (u->fd < 0) {
        err_errno(e, ERR_IO, "blob store");
        sha256_end(u->sum, NULL);
        return e->code;
    }
    u->is_open = true;
    u->announced = bytes;
    s->announced += bytes;
    return 0;
}

/* Bytes that are written, or will never be, are no longer announced. */
static void drop_announced(struct blob_upload *u, struct blob_store *s, uint64_t bytes)
{
    if (bytes > u->announced)
        bytes = u->announced;
    u->announced -= bytes;
    s->announced -= bytes;
}

int blob_add(struct blob_upload *u, struct blob_store *s, const void *bytes, size_t len)
{
    if (u->err.code < 0)
        return u->err.code;
    if (file_write_all(u->fd, bytes, len, "blob store", &u->err) < 0)
        return u->err.code;
    sha256_add(u->sum, bytes, len);
    u->bytes += len;
    drop_announced(u, s, len);
    /* Starts writeback early, so that the fsync at the end, which blocks the agent's one thread, has little
     * left to do. */
    if (u->bytes - u->synced >= SYNC_EVERY_BYTES) {
        sync_file_range(u->fd, (off_t)u->synced, (off_t)(u->bytes - u->synced), SYNC_FILE_RANGE_WRITE);
        u->synced = u->bytes;
    }
    return 0;
}

int blob_end(struct blob_upload *u, struct blob_store *s, struct err *e)
{
    uint8_t digest[SHA256_BYTES];
    char hex[SHA256_HEX];

    if (u->err.code < 0) {
        *e = u->err;
        goto fail;
    }
    sha256_end(u->sum, digest);
    u->sum = NULL;
    hex_encode(hex, digest, sizeof digest);
    if (strcmp(hex, u->hex) != 0) {
        err_set(e, ERR_CONFIG, "the %llu bytes received have the SHA-256 %s", (unsigned long long)u->bytes,
                hex);
        goto fail;
    }
    if (fsync(u->fd) < 0 || renameat(s->dir_fd, u->name, s->dir_fd, u->hex) < 0 || fsync(s->dir_fd) < 0) {
        err_errno(e, ERR_IO, "blob store");
        goto fail;
    }
    note_use(s, u->hex);
    close(u->fd);
    drop_announced(u, s, u->announced);
    u->is_open = false;
    return 0;
fail:
    blob_drop(u, s);
    return e->code;
}

void blob_drop(struct blob_upload *u, struct blob_store *s)
{
    if (!u->is_open)
        return;
    sha256_end(u->sum, NULL);
    u->sum = NULL;
    close(u->fd);
    unlinkat(s->dir_fd, u->name, 0);
    drop_announced(u, s, u->announced);
    u->is_open = false;
}

int blob_put(struct blob_store *s, char hex[SHA256_HEX], const void *bytes, size_t len, struct err *e)
{
    struct blob_upload u;

    sha256_hex(hex, bytes, len);
    if (blob_begin(&u, s, hex, len, e) < 0)
        return e->code;
    blob_add(&u, s, bytes, len); /* keeps its error for the end */
    return blob_end(&u, s, e);
}

/* Whether the file system, or this pair of folders, has no hard links: BeeGFS and exFAT have none, Lustre and
 * some volumes of Kubernetes none between folders, ext4 at most 65,000 of one file. */
static bool lacks_links(int error)
{
    return error == EPERM || error == EXDEV || error == EOPNOTSUPP || error == ENOSYS || error == EMLINK;
}

/* Copies from_dir/from to the new file to_dir/to; one that is incomplete is removed. */
static int copy_blob(int from_dir, const char *from, int to_dir, const char *to, struct err *e)
{
    int in = openat(from_dir, from, O_RDONLY | O_CLOEXEC | O_NOFOLLOW), out;
    struct stat st;

    if (in < 0 || fstat(in, &st) < 0) {
        err_errno(e, ERR_IO, "%s", from);
        if (in >= 0)
            close(in);
        return e->code;
    }
    *e = (struct err){0};
    out = openat(to_dir, to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0400);
    if (out < 0)
        err_errno(e, ERR_IO, "%s", to);
    else if (file_copy_bytes(out, in, (size_t)st.st_size, e) < 0)
        err_at(e, "%s", to);
    else if (fsync(out) < 0)
        err_errno(e, ERR_IO, "%s", to);
    close(in);
    if (out >= 0)
        close(out);
    if (out >= 0 && e->code < 0)
        unlinkat(to_dir, to, 0);
    return e->code;
}

/* Makes to_dir/to a link to from_dir/from, or a copy of it; a file there is replaced as a whole by way of the
 * name `fresh`. */
static int link_or_copy(int from_dir, const char *from, int to_dir, const char *to, const char *fresh,
                        struct err *e)
{
    if (linkat(from_dir, from, to_dir, to, 0) == 0)
        return 0;
    if (errno != EEXIST && !lacks_links(errno))
        return err_errno(e, ERR_IO, "%s", to);
    unlinkat(to_dir, fresh, 0); /* that of an earlier process of the same number */
    if (linkat(from_dir, from, to_dir, fresh, 0) < 0) {
        if (!lacks_links(errno))
            return err_errno(e, ERR_IO, "%s", to);
        if (copy_blob(from_dir, from, to_dir, fresh, e) < 0)
            return e->code;
    }
    *e = (struct err){0};
    if (renameat(to_dir, fresh, to_dir, to) < 0)
        err_errno(e, ERR_IO, "%s", to);
    unlinkat(to_dir, fresh, 0); /* a rename to another link of the same file leaves both */
    return e->code;
}

int blob_link(struct blob_store *s, const char *hex, int dir_fd, const char *name, struct err *e)
{
    char fresh[PATH_MAX];

    if (blob_size(s, hex) < 0)
        return err_set(e, ERR_NOT_FOUND, "no blob %s on this agent", hex);
    return file_temporary(fresh, sizeof fresh, name, e) < 0
               ? e->code
               : link_or_copy(s->dir_fd, hex, dir_fd, name, fresh, e);
}

int blob_take(struct blob_store *s, const char *hex, const char *path, struct err *e)
{
    char fresh[32];

    if (!is_sha256_hex(hex))
        return err_set(e, ERR_CONFIG, "\"%s\" is not a SHA-256 in 64 lower-case hex digits", hex);
    if (blob_size(s, hex) >= 0)
        return 0;
    snprintf(fresh, sizeof fresh, "%s%llu", temporary, (unsigned long long)++s->n_begun);
    return link_or_copy(AT_FDCWD, path, s->dir_fd, hex, fresh, e);
}

struct old_blob {
    char hex[SHA256_HEX];
    double used; /* clock_now; -HUGE_VAL: before this boot */
    uint64_t bytes;
};

static int by_age(const void *a, const void *b)
{
    double x = ((const struct old_blob *)a)->used, y = ((const struct old_blob *)b)->used;

    return x < y ? -1 : x > y;
}

/* Lists the blobs that no job links: removing any other frees nothing. */
static size_t list_unheld(const struct blob_store *s, double now, struct old_blob **out, uint64_t *total)
{
    struct old_blob *list = NULL;
    size_t n = 0, size = 0;
    struct dirent *d;
    DIR *dir = open_listing(s);

    *total = 0;
    while (dir && (d = readdir(dir)) != NULL) {
        struct stat st;

        if (!is_sha256_hex(d->d_name) || fstatat(s->dir_fd, d->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
            st.st_nlink > 1)
            continue;
        if (n == size) {
            struct old_blob *more = realloc(list, (size = size ? 2 * size : 64) * sizeof *list);

            if (!more)
                break;
            list = more;
        }
        memcpy(list[n].hex, d->d_name, SHA256_HEX);
        list[n].used = (double)st.st_mtim.tv_sec + (double)st.st_mtim.tv_nsec / 1e9;
        if (list[n].used > now)
            list[n].used = -HUGE_VAL;
        list[n].bytes = (uint64_t)st.st_size;
        *total += list[n++].bytes;
    }
    if (dir)
        closedir(dir);
    *out = list;
    return n;
}

void blob_trim(struct blob_store *s, double keep_s)
{
    double now = clock_now();
    struct old_blob *list;
    uint64_t total;
    size_t n = list_unheld(s, now, &list, &total);

    if (total > s->limit) {
        qsort(list, n, sizeof *list, by_age);
        for (size_t i = 0; i < n && total > s->limit && list[i].used < now - keep_s; i++)
            if (unlinkat(s->dir_fd, list[i].hex, 0) == 0)
                total -= list[i].bytes;
    }
    free(list);
}
