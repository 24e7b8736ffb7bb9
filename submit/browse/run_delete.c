#include "submit/browse/run_delete.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shared/base/file.h"
#include "shared/base/json.h"
#include "submit/browse/run_label.h"
#include "submit/files/run_file.h"
#include "submit/files/untrusted_folder.h"
#include "submit/results/job_index.h"

#define DELETED ".deleted"

enum { SAME_NAME_MAX = 1000, DELETED_NAME = NAME_MAX + 8 };

/* A folder and the one with what was deleted beside it, both open; links are not followed. */
struct place {
    char parent[PATH_MAX];
    const char *name; /* of the run's folder in it */
    int dir, deleted; /* -1: none */
};

static void close_place(struct place *p)
{
    if (p->deleted >= 0)
        close(p->deleted);
    if (p->dir >= 0)
        close(p->dir);
}

static int open_place(struct place *p, const char *folder, struct err *e)
{
    char *slash;

    *p = (struct place){.dir = -1, .deleted = -1};
    if (file_absolute(p->parent, sizeof p->parent, folder, e) < 0)
        return e->code;
    for (size_t n = strlen(p->parent); n > 1 && p->parent[n - 1] == '/';)
        p->parent[--n] = '\0';
    slash = strrchr(p->parent, '/');
    if (slash == p->parent || !slash[1] || strcmp(slash + 1, ".") == 0 || strcmp(slash + 1, "..") == 0)
        return err_set(e, ERR_USAGE, "%s: the name of the run's folder is needed", folder);
    *slash = '\0';
    p->name = slash + 1;
    return untrusted_open(&p->dir, p->parent, e);
}

/* The name of the copy `k` of a name among what was deleted. */
static void deleted_name(char out[DELETED_NAME], const char *name, int k)
{
    if (k == 1)
        snprintf(out, DELETED_NAME, "%s", name);
    else
        snprintf(out, DELETED_NAME, "%s~%d", name, k);
}

/* EEXIST: `to` exists. NFS and some FUSE file systems know no flags. */
static int rename_new(int from_dir, const char *from, int to_dir, const char *to)
{
    struct stat st;

    if (renameat2(from_dir, from, to_dir, to, RENAME_NOREPLACE) == 0)
        return 0;
    if (errno != EINVAL && errno != ENOSYS)
        return -1;
    if (fstatat(to_dir, to, &st, AT_SYMLINK_NOFOLLOW) == 0) {
        errno = EEXIST;
        return -1;
    }
    return renameat(from_dir, from, to_dir, to);
}

/* Of the folder itself, if the user named a link to it, as logs/latest is. */
static int move_away(char *out, size_t size, const char *folder, struct err *e)
{
    char real[PATH_MAX], name[DELETED_NAME] = "";
    struct place p = {.dir = -1, .deleted = -1};
    int rc = realpath(folder, real) ? open_place(&p, real, e) : err_errno(e, ERR_IO, "%s", folder);

    if (rc == 0 && mkdirat(p.dir, DELETED, 0777) < 0 && errno != EEXIST)
        rc = err_errno(e, ERR_IO, "%s/" DELETED, p.parent);
    if (rc == 0)
        rc = untrusted_enter(&p.deleted, p.dir, DELETED, e);
    for (int k = 1; rc == 0; k++) {
        deleted_name(name, p.name, k);
        if (rename_new(p.dir, p.name, p.deleted, name) == 0)
            break;
        if (errno != EEXIST || k == SAME_NAME_MAX)
            rc = err_errno(e, ERR_IO, "%s/" DELETED "/%s", p.parent, name);
    }
    if (rc == 0 && snprintf(out, size, "%s/" DELETED "/%s", p.parent, name) >= (int)size)
        out[0] = '\0';
    close_place(&p);
    return rc;
}

int run_delete(char *out, size_t size, const struct run *r, struct err *e)
{
    const char *id = json_text_at(r->doc, "id");
    struct err ignored;
    int rc;

    if (run_label_check(r, e) < 0 || job_index_set_fact(id, r->folder, "deleted", json_true(), e) < 0)
        return e->code;
    rc = move_away(out, size, r->folder, e);
    if (rc < 0)
        job_index_set_fact(id, r->folder, "deleted", json_null(), &ignored);
    return rc;
}

/* `id` NULL: any run. */
static bool is_deleted_run(const struct place *p, const char *name, const char *id)
{
    char folder[PATH_MAX];
    struct stat st;
    struct err ignored;
    json_t *run;
    bool is_run;

    if (fstatat(p->deleted, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return false;
    if (!id)
        return true;
    if (snprintf(folder, sizeof folder, "%s/" DELETED "/%s", p->parent, name) >= (int)sizeof folder ||
        run_file_read(&run, folder, &ignored) < 0)
        return false;
    is_run = strcmp(json_text_at(run, "id"), id) == 0;
    json_decref(run);
    return is_run;
}

static int find_last(char name[DELETED_NAME], const struct place *p, const char *id, struct err *e)
{
    for (int k = SAME_NAME_MAX; k >= 1; k--) {
        deleted_name(name, p->name, k);
        if (is_deleted_run(p, name, id))
            return 0;
    }
    return err_set(e, ERR_NOT_FOUND, "%s/" DELETED " has no %s", p->parent, p->name);
}

int run_undelete(const char *folder, const char *id, struct err *e)
{
    char name[DELETED_NAME];
    struct place p;
    struct err ignored;
    json_t *run;
    int rc = open_place(&p, folder, e);

    if (rc == 0 && untrusted_enter(&p.deleted, p.dir, DELETED, e) < 0)
        rc = err_set(e, ERR_NOT_FOUND, "no run was deleted in %s", p.parent);
    if (rc == 0)
        rc = find_last(name, &p, id, e);
    if (rc == 0 && rename_new(p.deleted, name, p.dir, p.name) < 0)
        rc = errno == EEXIST ? err_set(e, ERR_CONFLICT, "%s exists again: rename it first", folder)
                             : err_errno(e, ERR_IO, "%s", folder);
    if (rc == 0 && run_file_read(&run, folder, &ignored) == 0) {
        job_index_set_fact(json_text_at(run, "id"), folder, "deleted", json_null(), &ignored);
        json_decref(run);
    }
    close_place(&p);
    return rc;
}
