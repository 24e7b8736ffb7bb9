#include "submit/browse/job_files.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shared/base/clock.h"
#include "shared/base/file.h"

static const double kept_s = 600;

int job_files_open(struct job_files *c, struct err *e)
{
    *c = (struct job_files){.file_most = UINT64_C(256) << 20, .all_most = UINT64_C(2) << 30};
    return temp_open(&c->temp, e);
}

void job_files_close(struct job_files *c)
{
    if (c->temp.path[0])
        temp_close(&c->temp);
    c->temp.path[0] = '\0';
}

static struct copied *find_copied(struct job_files *c, const char *id)
{
    for (size_t i = 0; i < JOB_FILES_JOBS; i++)
        if (strcmp(c->jobs[i].id, id) == 0)
            return &c->jobs[i];
    return NULL;
}

static void drop_copies(struct job_files *c, struct copied *j)
{
    char path[PATH_MAX];
    struct err ignored;

    if (file_join(path, sizeof path, c->temp.path, j->id, &ignored) == 0)
        file_remove_tree(path, &ignored);
    *j = (struct copied){.bytes = 0};
}

/* The job, other than `except`, whose last use is longest ago; NULL: there is no other job. */
static struct copied *find_oldest(struct job_files *c, const struct copied *except)
{
    struct copied *out = NULL;

    for (size_t i = 0; i < JOB_FILES_JOBS; i++) {
        struct copied *j = &c->jobs[i];

        if (j != except && j->id[0] && (!out || j->used_at < out->used_at))
            out = j;
    }
    return out;
}

static struct copied *take_place(struct job_files *c, const char *id)
{
    struct copied *j = find_copied(c, id);

    if (!j)
        j = find_copied(c, "");
    if (!j) {
        j = find_oldest(c, NULL);
        drop_copies(c, j);
    }
    snprintf(j->id, sizeof j->id, "%s", id);
    j->used_at = clock_now();
    return j;
}

static uint64_t bytes_of_all(const struct job_files *c)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < JOB_FILES_JOBS; i++)
        sum += c->jobs[i].bytes;
    return sum;
}

static int make_room(struct job_files *c, const struct copied *of, struct err *e)
{
    while (bytes_of_all(c) >= c->all_most) {
        struct copied *other = find_oldest(c, of);

        if (!other)
            return err_set(e, ERR_NOSPACE, "of the job's files the first %llu MiB in all are shown",
                           (unsigned long long)c->all_most >> 20);
        drop_copies(c, other);
    }
    return 0;
}

int job_files_append(int *fd, off_t *had, struct job_files *c, const char *id, int node, int attempt,
                     const char *file, struct err *e)
{
    char path[PATH_MAX];
    char folder[SHOWN_FOLDER];
    char name[LISTED_ID + SHOWN_FOLDER + 64];
    struct stat st;

    if (make_room(c, take_place(c, id), e) < 0)
        return e->code;
    shown_node_folder(folder, node, attempt);
    snprintf(name, sizeof name, "%s/%s/records", id, folder);
    if (file_join(path, sizeof path, c->temp.path, name, e) < 0 || file_mkdirs(path, 0700, e) < 0)
        return e->code;
    snprintf(name, sizeof name, "%s/%s/%s", id, folder, file);
    if (file_join(path, sizeof path, c->temp.path, name, e) < 0)
        return e->code;
    *fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (*fd < 0)
        return err_errno(e, ERR_IO, "%s", path);
    if (fstat(*fd, &st) < 0)
        err_errno(e, ERR_IO, "%s", path);
    else if ((uint64_t)st.st_size >= c->file_most)
        err_set(e, ERR_NOSPACE, "of %s of node %d the first %llu MiB are shown while the job runs", file,
                node, (unsigned long long)c->file_most >> 20);
    else {
        *had = st.st_size;
        return 0;
    }
    close(*fd);
    *fd = -1;
    return e->code;
}

void job_files_count(struct job_files *c, const char *id, off_t appended)
{
    struct copied *j = find_copied(c, id); /* NULL: its copies were removed for those of another job */

    if (j && appended > 0)
        j->bytes += (uint64_t)appended;
}

void job_files_drop_unused(struct job_files *c, double now)
{
    for (size_t i = 0; i < JOB_FILES_JOBS; i++)
        if (c->jobs[i].id[0] && now > c->jobs[i].used_at + kept_s)
            drop_copies(c, &c->jobs[i]);
}

bool job_files_folder(char *out, size_t size, const struct job_files *c, const char *id)
{
    return snprintf(out, size, "%s/%s", c->temp.path, id) < (int)size && access(out, F_OK) == 0;
}
