#include "submit/files/temp.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "shared/base/file.h"

/* A folder of psgd is recognised by the length and beginning of its name and by its owner: other programs
 * have folders in $TMPDIR, too. */
static const char pattern[] = "psgd-temp-XXXXXX";

static bool is_ours(int dir, const char *name)
{
    struct stat st;

    return strlen(name) == sizeof pattern - 1 && strncmp(name, pattern, strlen("psgd-temp-")) == 0 &&
           fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid();
}

/* Removes the folders of processes that have ended: these hold no lock on them. */
static void remove_abandoned(const char *dir)
{
    DIR *list = opendir(dir);
    struct dirent *d;

    while (list && (d = readdir(list)) != NULL) {
        char path[PATH_MAX];
        struct err ignored;
        int fd;

        if (!is_ours(dirfd(list), d->d_name) || file_join(path, sizeof path, dir, d->d_name, &ignored) < 0)
            continue;
        fd = openat(dirfd(list), d->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0)
            continue;
        if (flock(fd, LOCK_EX | LOCK_NB) == 0)
            file_remove_tree(path, &ignored);
        close(fd);
    }
    if (list)
        closedir(list);
}

/* Another process may have removed the folder between its creation and its lock: *is_there. */
static int create(struct temp *t, const char *dir, bool *is_there, struct err *e)
{
    struct stat st;

    if (snprintf(t->path, sizeof t->path, "%s/%s", dir, pattern) >= (int)sizeof t->path)
        return err_set(e, ERR_IO, "TMPDIR: path too long");
    if (!mkdtemp(t->path)) {
        err_errno(e, ERR_IO, "%s: the folder for temporary files cannot be created", t->path);
        return err_hint(e, "Set TMPDIR=FOLDER to use another folder.");
    }
    t->fd = open(t->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (t->fd < 0 && errno != ENOENT) {
        err_errno(e, ERR_IO, "%s", t->path);
        rmdir(t->path);
        return e->code;
    }
    if (t->fd >= 0)
        flock(t->fd, LOCK_EX); /* where a file system has no locks, nothing is removed either */
    *is_there = t->fd >= 0 && fstat(t->fd, &st) == 0 && st.st_nlink > 0;
    if (!*is_there && t->fd >= 0)
        close(t->fd);
    return 0;
}

const char *temp_where(void)
{
    const char *dir = getenv("TMPDIR");

    return dir && dir[0] ? dir : "/tmp";
}

int temp_open(struct temp *t, struct err *e)
{
    bool is_there = false;

    remove_abandoned(temp_where());
    while (!is_there)
        if (create(t, temp_where(), &is_there, e) < 0)
            return e->code;
    return 0;
}

int temp_check_room(const struct temp *t, struct err *e)
{
    struct statvfs v;

    if (statvfs(t->path, &v) < 0 || (uint64_t)v.f_bavail * v.f_frsize >= TEMP_ROOM)
        return 0;
    err_set(e, ERR_NOSPACE, "%s: only %llu kB are free, too little for temporary files", t->path,
            (unsigned long long)v.f_bavail * v.f_frsize / 1000);
    return err_hint(e, "Set TMPDIR=FOLDER to use another folder.");
}

void temp_close(struct temp *t)
{
    struct err ignored;

    close(t->fd);
    if (file_remove_tree(t->path, &ignored) < 0)
        file_remove_tree(t->path, &ignored); /* a lack of descriptors may have passed */
}

int temp_file(int *fd, const char *dir, struct err *e)
{
    char path[PATH_MAX];

    *fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (*fd >= 0)
        return 0;
    /* Not all file systems support O_TMPFILE. */
    if (snprintf(path, sizeof path, "%s/.psgd-XXXXXX", dir) >= (int)sizeof path)
        return err_set(e, ERR_IO, "%s: path too long", dir);
    *fd = mkostemp(path, O_CLOEXEC);
    if (*fd < 0)
        return err_errno(e, ERR_IO, "%s", path);
    unlink(path);
    return 0;
}
