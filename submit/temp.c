#include "submit/temp.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "shared/file.h"

int temp_open(struct temp *t, struct err *e)
{
    const char *dir = getenv("TMPDIR");

    if (snprintf(t->path, sizeof t->path, "%s/psgd-XXXXXX", dir && dir[0] ? dir : "/tmp") >=
        (int)sizeof t->path)
        return err_set(e, ERR_IO, "TMPDIR: path too long");
    if (!mkdtemp(t->path)) {
        err_errno(e, ERR_IO, "%s: the folder for temporary files cannot be created", t->path);
        return err_hint(e, "Set TMPDIR=FOLDER to use another folder.");
    }
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

    file_remove_tree(t->path, &ignored);
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
