#include "agent/jobs/artifact.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shared/base/compat.h"
#include "shared/base/file.h"
#include "shared/job/reason.h"

const char *artifact_find(const char *name)
{
    for (int i = 0; i < N_ARTIFACTS; i++)
        if (strcmp(artifacts[i].name, name) == 0)
            return artifacts[i].name;
    return NULL;
}

const char *artifact_type(const char *name)
{
    const char *dot = strrchr(name, '.');

    if (strcmp(dot, ".csv") == 0)
        return "text/csv; charset=utf-8";
    if (strcmp(dot, ".log") == 0 || strcmp(dot, ".c") == 0)
        return "text/plain; charset=utf-8";
    if (strcmp(dot, ".json") == 0)
        return "application/json";
    return strcmp(dot, ".jsonl") == 0 ? "application/x-ndjson" : "application/octet-stream";
}

static bool is_of_package(const char *name)
{
    return strcmp(name, artifact_name(ARTIFACT_CODEC_SOURCE)) == 0 ||
           strcmp(name, artifact_name(ARTIFACT_CODEC_MANIFEST)) == 0;
}

int artifact_open(int *out, uint64_t *bytes, int dir_fd, const char *folder, const char *name, struct err *e)
{
    char path[128];
    struct stat st;
    int fd;

    snprintf(path, sizeof path, "jobs/%s/%s/%s", folder, is_of_package(name) ? "packages" : "run", name);
    fd = compat_open_beneath(dir_fd, path, O_RDONLY | O_NONBLOCK | O_NOCTTY); /* does not block on a pipe */
    if (fd < 0)
        return errno == ENOENT ? err_set(e, ERR_NOT_FOUND, "%s has no %s", folder, name)
                               : err_errno(e, ERR_REFUSED, "%s of %s", name, folder);
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || (st.st_nlink != 1 && !is_of_package(name))) {
        close(fd);
        return err_set(e, ERR_REFUSED, "%s of %s is not a plain file", name, folder);
    }
    *out = fd;
    *bytes = (uint64_t)st.st_size;
    return 0;
}

static bool is_in_run(const char *name)
{
    return artifact_find(name) && !is_of_package(name);
}

/* The temporary files of a training program whose monitor was killed with it. */
static void remove_program_tmp(const char *job_folder)
{
    char path[PATH_MAX];
    struct err ignored;

    if (file_join(path, sizeof path, job_folder, "trainer/tmp", &ignored) == 0)
        file_remove_tree(path, &ignored);
}

size_t artifact_clean_run(const char *job_folder, const char *reason)
{
    char path[PATH_MAX];

    remove_program_tmp(job_folder);
    if (file_join(path, sizeof path, job_folder, "run", &(struct err){0}) < 0)
        return 0;
    if (strcmp(reason, REASON_DISK_FULL) == 0)
        return file_keep_only(path, is_in_run);
    file_remove_temporary(path);
    return 0;
}

struct folder_use artifact_folder_use(const char *path, size_t most)
{
    struct folder_use use = {0};
    const struct dirent *f;
    DIR *d = opendir(path);
    struct stat st;

    while (d && use.n_files <= most && (f = readdir(d)) != NULL) {
        if (fstatat(dirfd(d), f->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))
            continue;
        use.bytes += (uint64_t)st.st_blocks * 512;
        use.n_files++;
    }
    if (d)
        closedir(d);
    return use;
}
