#include "shared/job/job_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shared/base/file.h"
#include "shared/base/json.h"

/* 0, or errno: ENOENT, ENOTDIR: it has none of that kind. */
static int look_for(const char *folder, const char *name, mode_t kind)
{
    char path[PATH_MAX];
    struct err ignored;
    struct stat st;

    if (file_join(path, sizeof path, folder, name, &ignored) < 0)
        return ENAMETOOLONG;
    if (stat(path, &st) < 0)
        return errno;
    return (st.st_mode & S_IFMT) == kind ? 0 : ENOENT;
}

/* As look_for(). */
static int look_at(const char *path)
{
    int why = look_for(path, JOB_FOLDER_DOCUMENT, S_IFREG);

    return why ? why : look_for(path, JOB_FOLDER_PACKAGES, S_IFDIR);
}

bool job_folder_is(const char *path)
{
    return look_at(path) == 0;
}

static int no_job(const char *path, struct err *e)
{
    char refusal[PATH_MAX];
    struct err ignored;
    json_t *o;

    if (file_join(refusal, sizeof refusal, path, JOB_FOLDER_REFUSAL, &ignored) == 0 &&
        json_read(&o, refusal, JOB_FOLDER_REFUSAL_MAX, &ignored) == 0) {
        err_set(e, ERR_REFUSED, "%s has no job: it was refused: %.900s", path, json_text_at(o, "sentence"));
        json_decref(o);
        return e->code;
    }
    err_set(e, ERR_NOT_FOUND, "%s is no job folder: it has no " JOB_FOLDER_DOCUMENT " and packages", path);
    return err_hint(e, "job_submit pack -o DIR OPTIONS writes one.");
}

int job_folder_read(json_t **out, const char *path, struct err *e)
{
    char document[PATH_MAX];
    const int why = look_at(path);
    int version;

    if (why == ENOENT || why == ENOTDIR)
        return no_job(path, e);
    if (why) {
        err_set(e, ERR_IO, "the job folder %s: %s", path, strerror(why));
        return why == EACCES
                   ? err_hint(e, "Only the user that packed a job can run it and collect its results.")
                   : e->code;
    }
    if (file_join(document, sizeof document, path, JOB_FOLDER_DOCUMENT, e) < 0 ||
        json_read(out, document, JOB_FOLDER_DOCUMENT_MAX, e) < 0)
        return e->code;
    if (json_get_int(&version, *out, "version", 1, INT_MAX, "", e) == 0 && version == 1)
        return 0;
    if (e->code == 0)
        err_set(e, ERR_CONFIG, "it is of version %d, and this psgd reads version 1", version);
    json_decref(*out);
    return err_at(e, "%s", document);
}

const char *job_folder_node_name(char out[JOB_FOLDER_NODE_NAME], int node)
{
    if (node < 0)
        snprintf(out, JOB_FOLDER_NODE_NAME, "ps-%d", -2 - node);
    else
        snprintf(out, JOB_FOLDER_NODE_NAME, "node-%d", node);
    return out;
}

enum job_folder_lock job_folder_lock(const char *path)
{
    enum job_folder_lock found = JOB_FOLDER_NO_LOCK;
    char lock[PATH_MAX];
    struct err ignored;
    int fd;

    if (file_join(lock, sizeof lock, path, "lock", &ignored) < 0)
        return found;
    fd = open(lock, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return found;
    /* A shared lock: two processes that look at the same time must not take each other for the holder. */
    if (flock(fd, LOCK_SH | LOCK_NB) == 0)
        found = JOB_FOLDER_FREE;
    else if (errno == EWOULDBLOCK)
        found = JOB_FOLDER_HELD;
    close(fd);
    return found;
}
