#include "submit/results/queue_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shared/base/clock.h"
#include "shared/base/file.h"
#include "shared/base/json.h"
#include "shared/job/job_folder.h"
#include "submit/results/job_index.h"

#define PLACE_FILE "place.json"
#define LOCK_FILE  "lock"

static const double OLD_S = 10; /* the age from which on the folder of a job that is written has its lock */

static int queue_path(char out[PATH_MAX], struct err *e)
{
    char state[PATH_MAX];

    return file_state_dir(state, sizeof state, e) < 0 ? e->code : file_join(out, PATH_MAX, state, "queue", e);
}

int queue_folder_path(char out[PATH_MAX], const char *id, const char *name, struct err *e)
{
    char queue[PATH_MAX], job[PATH_MAX];
    const char *folder = id ? job : queue;

    if (queue_path(queue, e) < 0 || (id && file_join(job, sizeof job, queue, id, e) < 0))
        return e->code;
    if (name)
        return file_join(out, PATH_MAX, folder, name, e);
    memcpy(out, folder, PATH_MAX);
    return 0;
}

int queue_folder_make(struct err *e)
{
    char path[PATH_MAX];

    return queue_folder_path(path, NULL, QUEUE_PACKAGES, e) < 0 ? e->code : file_mkdirs(path, 0700, e);
}

bool queue_folder_has(const char *id)
{
    char path[PATH_MAX];
    struct err ignored;

    return job_id_is_valid(id) && queue_folder_path(path, id, JOB_FOLDER_DOCUMENT, &ignored) == 0 &&
           access(path, F_OK) == 0;
}

json_t *queue_folder_get(const char *id, const char *name)
{
    char path[PATH_MAX];
    struct err ignored;
    json_t *o;

    return queue_folder_path(path, id, name, &ignored) == 0 &&
                   json_read(&o, path, QUEUE_DOCUMENT_MAX, &ignored) == 0
               ? o
               : NULL;
}

int queue_folder_put(const char *id, const char *name, const json_t *o, struct err *e)
{
    char *text = o ? json_line(o) : NULL;
    char path[PATH_MAX];
    int rc;

    if (!text)
        return err_set(e, ERR_NOMEM, "no memory for %s of %s", name, id);
    rc = queue_folder_path(path, id, name, e);
    if (rc == 0)
        rc = file_write(path, text, strlen(text), 0600, e);
    free(text);
    return rc;
}

int queue_folder_set_place(const char *id, const struct queue_place *p, struct err *e)
{
    json_t *o = json_pack("{s:i, s:f}", "priority", p->priority, "number", p->number);
    int rc = queue_folder_put(id, PLACE_FILE, o, e);

    json_decref(o);
    return rc;
}

/* A damaged place costs the job its place only. */
static void read_place(struct queue_place *p, const char *id)
{
    json_t *o = queue_folder_get(id, PLACE_FILE);
    double priority = json_number_at(o, "priority", 0);

    p->priority = fabs(priority) <= QUEUE_PRIORITY_MAX ? (int)priority : 0;
    p->number = json_number_at(o, "number", 0);
    json_decref(o);
}

static int is_job_name(const struct dirent *f)
{
    return job_id_is_valid(f->d_name);
}

static int by_place(const void *a, const void *b)
{
    const struct queued_job *x = a, *y = b;

    if (x->place.priority != y->place.priority)
        return x->place.priority > y->place.priority ? -1 : 1;
    if (x->place.number != y->place.number)
        return x->place.number < y->place.number ? -1 : 1;
    return strcmp(x->id, y->id);
}

int queue_folder_list(struct queued_job **out, size_t *n, struct err *e)
{
    struct dirent **names = NULL;
    char path[PATH_MAX];
    int k;

    *n = 0;
    if (queue_folder_path(path, NULL, NULL, e) < 0)
        return e->code;
    k = scandir(path, &names, is_job_name, alphasort);
    *out = calloc(k > 0 ? (size_t)k : 1, sizeof **out);
    for (int i = 0; i < k; i++) {
        if (*out && queue_folder_has(names[i]->d_name)) {
            snprintf((*out)[*n].id, sizeof(*out)[*n].id, "%.*s", JOB_ID_MAX - 1, names[i]->d_name);
            read_place(&(*out)[*n].place, names[i]->d_name);
            ++*n;
        }
        free(names[i]);
    }
    free(names);
    if (!*out)
        return err_set(e, ERR_NOMEM, "no memory for the list of waiting jobs");
    qsort(*out, *n, sizeof **out, by_place);
    return 0;
}

int queue_folder_lock(const char *id, const char *name, struct err *e)
{
    char path[PATH_MAX];
    int fd;

    if (queue_folder_path(path, id, name ? name : LOCK_FILE, e) < 0)
        return e->code;
    fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_errno(e, errno == ENOENT ? ERR_NOT_FOUND : ERR_IO, "%s", path);
    if (flock(fd, LOCK_EX | LOCK_NB) == 0)
        return fd;
    err_errno(e, errno == EWOULDBLOCK ? ERR_CONFLICT : ERR_IO, "%s", path);
    close(fd);
    return e->code;
}

long queue_folder_watcher(void)
{
    char path[PATH_MAX], pid[24] = "";
    struct err ignored;
    long is = 0;
    int fd;

    if (queue_folder_path(path, NULL, QUEUE_WATCHER, &ignored) < 0 ||
        (fd = open(path, O_RDONLY | O_CLOEXEC)) < 0)
        return 0;
    if (flock(fd, LOCK_SH | LOCK_NB) < 0 && errno == EWOULDBLOCK)
        is = pread(fd, pid, sizeof pid - 1, 0) > 0 ? strtol(pid, NULL, 10) : 1;
    close(fd);
    return is;
}

/* Removes the file in packages/ unless the folder of a job has a link to it. A job that is being written has
 * its own link already, or writes the file anew. */
static void drop_package(const char *name)
{
    char path[PATH_MAX], below[sizeof QUEUE_PACKAGES + NAME_MAX + 1];
    struct err ignored;
    struct stat st;

    snprintf(below, sizeof below, QUEUE_PACKAGES "/%s", name);
    if (queue_folder_path(path, NULL, below, &ignored) == 0 && lstat(path, &st) == 0 && S_ISREG(st.st_mode) &&
        st.st_nlink == 1)
        unlink(path);
}

/* Frees the names. */
static void drop_packages(struct dirent **names, int n)
{
    for (int i = 0; i < n; i++) {
        drop_package(names[i]->d_name);
        free(names[i]);
    }
    free(names);
}

uint64_t queue_folder_bytes(void)
{
    char path[PATH_MAX];
    struct err ignored;
    struct stat st;
    uint64_t sum = 0;
    DIR *dir = queue_folder_path(path, NULL, QUEUE_PACKAGES, &ignored) == 0 ? opendir(path) : NULL;

    for (const struct dirent *f; dir && (f = readdir(dir)) != NULL;)
        if (fstatat(dirfd(dir), f->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode))
            sum += (uint64_t)st.st_size;
    if (dir)
        closedir(dir);
    return sum;
}

int queue_folder_remove(const char *id, struct err *e)
{
    char path[PATH_MAX], folder[PATH_MAX], packages[PATH_MAX];
    struct dirent **names = NULL;
    int n;

    if (queue_folder_path(path, id, JOB_FOLDER_DOCUMENT, e) < 0 ||
        queue_folder_path(folder, id, NULL, e) < 0 ||
        queue_folder_path(packages, id, JOB_FOLDER_PACKAGES, e) < 0)
        return e->code;
    if (unlink(path) < 0 && errno != ENOENT)
        return err_errno(e, ERR_IO, "%s", path);
    if (file_sync_folder(folder, e) < 0) /* from here on the job is not in the queue, also after a crash */
        return e->code;
    n = scandir(packages, &names, NULL, NULL);
    file_remove_tree(folder, e);
    drop_packages(names, n);
    return 0;
}

static bool is_old(const char *folder)
{
    struct stat st;

    return stat(folder, &st) == 0 && clock_wall() - (double)st.st_mtime > OLD_S;
}

/* A folder whose removal was interrupted has no job.json; one whose writing was interrupted has a lock that
 * nobody holds. */
static void sweep_folder(const char *name)
{
    bool is_new = strncmp(name, QUEUE_NEW, strlen(QUEUE_NEW)) == 0;
    char folder[PATH_MAX];
    struct err ignored;
    int fd;

    if (!(is_new || job_id_is_valid(name)) || queue_folder_has(name) ||
        queue_folder_path(folder, name, NULL, &ignored) < 0 || (is_new && !is_old(folder)))
        return;
    fd = queue_folder_lock(name, is_new ? QUEUE_WRITING : NULL, &ignored);
    if (fd < 0)
        return;
    if (is_new)
        job_index_remove(name + strlen(QUEUE_NEW));
    file_remove_tree(folder, &ignored);
    close(fd);
}

void queue_folder_sweep(void)
{
    struct dirent **names = NULL;
    char path[PATH_MAX];
    struct err ignored;
    int n;

    if (queue_folder_path(path, NULL, NULL, &ignored) < 0)
        return;
    n = scandir(path, &names, NULL, NULL);
    for (int i = 0; i < n; i++) {
        sweep_folder(names[i]->d_name);
        free(names[i]);
    }
    free(names);
    names = NULL;
    if (queue_folder_path(path, NULL, QUEUE_PACKAGES, &ignored) == 0) {
        n = scandir(path, &names, NULL, NULL);
        drop_packages(names, n);
    }
}

int queue_folder_cancel(const char *id, const char *reason, struct err *e)
{
    json_t *o = json_pack("{s:o}", "reason", json_text(reason, SIZE_MAX));
    int rc = queue_folder_put(id, QUEUE_CANCEL, o, e);

    json_decref(o);
    queue_folder_ring();
    return rc;
}

void queue_folder_ring(void)
{
    char path[PATH_MAX];
    struct err ignored;
    int fd;

    if (queue_folder_path(path, NULL, QUEUE_BELL, &ignored) < 0)
        return;
    fd = open(path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return;
    futimens(fd, NULL);
    close(fd);
}
