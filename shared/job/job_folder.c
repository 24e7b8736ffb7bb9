#include "shared/job/job_folder.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shared/base/file.h"
#include "shared/base/json.h"

static bool has(const char *folder, const char *name, mode_t kind)
{
    char path[PATH_MAX];
    struct err ignored;
    struct stat st;

    return file_join(path, sizeof path, folder, name, &ignored) == 0 && stat(path, &st) == 0 &&
           (st.st_mode & S_IFMT) == kind;
}

bool job_folder_is(const char *path)
{
    return has(path, JOB_FOLDER_DOCUMENT, S_IFREG) && has(path, JOB_FOLDER_PACKAGES, S_IFDIR);
}

int job_folder_read(json_t **out, const char *path, struct err *e)
{
    char document[PATH_MAX];
    int version;

    if (!job_folder_is(path)) {
        err_set(e, ERR_NOT_FOUND, "%s is no job folder: it has no " JOB_FOLDER_DOCUMENT " and packages",
                path);
        return err_hint(e, "job_submit pack -o DIR OPTIONS writes one.");
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

bool job_folder_is_unlocked(const char *path)
{
    char lock[PATH_MAX];
    struct err ignored;
    bool is_free;
    int fd;

    if (file_join(lock, sizeof lock, path, "lock", &ignored) < 0)
        return false;
    fd = open(lock, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return false;
    is_free = flock(fd, LOCK_EX | LOCK_NB) == 0;
    close(fd);
    return is_free;
}
