#include "shared/base/private.h"

#include <errno.h>
#include <limits.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shared/base/file.h"

/* In a user namespace that maps only some users, the files of all others have this owner. */
static bool is_outside(uid_t owner)
{
    unsigned long first = 0, outside = 0, n = 0;
    char overflow[16] = "", map[64] = "";
    FILE *f = fopen("/proc/self/uid_map", "re");

    if (f && !fgets(map, sizeof map, f))
        map[0] = '\0';
    if (f)
        fclose(f);
    if (sscanf(map, "%lu %lu %lu", &first, &outside, &n) != 3 || n == 0xffffffffu)
        return false;
    f = fopen("/proc/sys/kernel/overflowuid", "re");
    if (f && !fgets(overflow, sizeof overflow, f))
        overflow[0] = '\0';
    if (f)
        fclose(f);
    return overflow[0] && strtoul(overflow, NULL, 10) == owner;
}

static int check_owner(const struct stat *st, const char *path, bool is_last, struct err *e)
{
    uid_t me = geteuid();

    if (st->st_uid == me || (!is_last && (st->st_uid == 0 || is_outside(st->st_uid))))
        return 0;
    return err_set(e, ERR_AUTH, "%s belongs to user %u, not to user %u, who runs this", path,
                   (unsigned)st->st_uid, (unsigned)me);
}

static bool others_may_write(const struct stat *st)
{
    return (st->st_mode & S_IWOTH) || ((st->st_mode & S_IWGRP) && st->st_gid != getegid());
}

static int check_folder(const char *path, bool is_last, struct err *e)
{
    struct stat st;

    if (stat(path, &st) < 0)
        return err_errno(e, ERR_IO, "%s", path);
    if (check_owner(&st, path, is_last, e) < 0)
        return err_hint(e, "Choose a folder of your own with --dir: its owner can replace what is in it.");
    if ((st.st_mode & S_ISVTX) && !is_last)
        return 0;
    if (others_may_write(&st)) {
        err_set(e, ERR_AUTH, "%s can be written to by others (mode %03o)", path, (unsigned)st.st_mode & 0777);
        return err_hint(e,
                        "Run chmod go-w %s, or choose another folder with --dir: others could replace what "
                        "is in it.",
                        path);
    }
    return 0;
}

/* The folders above `path`. */
static int check_above(const char *path, struct err *e)
{
    char part[PATH_MAX];

    snprintf(part, sizeof part, "%s", path);
    for (char *slash = strrchr(part, '/'); slash; slash = strrchr(part, '/')) {
        slash[slash == part] = '\0';
        if (check_folder(part, false, e) < 0)
            return e->code;
        if (slash == part)
            break;
    }
    return 0;
}

int private_folder(const char *path, struct err *e)
{
    return check_folder(path, true, e) < 0 ? e->code : check_above(path, e);
}

int guarded_file(const char *path, struct err *e)
{
    char whole[PATH_MAX];
    struct stat st;

    if (!realpath(path, whole) || stat(whole, &st) < 0)
        return err_errno(e, errno == ENOENT ? ERR_NOT_FOUND : ERR_IO, "%s", path);
    if (check_owner(&st, whole, false, e) == 0 && others_may_write(&st))
        err_set(e, ERR_AUTH, "%s can be written to by others (mode %03o)", whole,
                (unsigned)st.st_mode & 0777);
    else if (check_owner(&st, whole, false, e) == 0 && check_above(whole, e) == 0)
        return 0;
    return err_hint(e, "Copy it to a file of your own, in a folder that only you can write to.");
}

int private_read(char **out, size_t *len, const char *path, size_t max, struct err *e)
{
    struct stat st;

    if (stat(path, &st) == 0 && S_ISREG(st.st_mode)) {
        if (check_owner(&st, path, st.st_uid != 0, e) < 0)
            return err_hint(e, "Copy it to a file of your own; its owner could change it.");
        if (st.st_mode & 077) {
            err_set(e, ERR_AUTH, "%s can be read by others (mode %03o)", path, (unsigned)st.st_mode & 0777);
            return err_hint(
                e, "Run chmod 600 %s, and replace the secret in it: other users may have read it.", path);
        }
    }
    return file_read(out, len, path, max, e);
}

void secret_free(void *block)
{
    if (block)
        explicit_bzero(block, malloc_usable_size(block));
    free(block);
}
