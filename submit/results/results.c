#include "submit/results/results.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shared/base/file.h"
#include "shared/base/json.h"
#include "shared/base/utf8.h"
#include "submit/files/run_file.h"
#include "submit/files/untrusted_folder.h"
#include "submit/results/results_lock.h"
#include "submit/terminal/console.h"

static const char *const parts[] = {"records", "logs", "model"};
static const char *const executor_parts[] = {"records", "logs", "output"};
enum { N_PARTS = sizeof parts / sizeof *parts };

static const char *part(const struct submission *s, int i)
{
    return (s->settings.executor ? executor_parts : parts)[i];
}

static bool is_empty(const char *path)
{
    DIR *d = opendir(path);
    struct dirent *f;
    bool empty = true;

    while (d && (f = readdir(d)) != NULL)
        empty &= strcmp(f->d_name, ".") == 0 || strcmp(f->d_name, "..") == 0;
    if (d)
        closedir(d);
    return empty;
}

/* The folder's run.json, if it is this job's. NULL otherwise: `why` has ERR_NOT_FOUND if the folder has
 * none. */
static json_t *read_mine(const struct submission *s, struct err *why)
{
    const char *id;
    json_t *doc;

    if (run_file_read(&doc, s->folder, why) < 0)
        return NULL;
    why->code = 0;
    id = json_string_value(json_object_get(doc, "id"));
    if (id && strcmp(id, s->id) == 0)
        return doc;
    json_decref(doc);
    return NULL;
}

/* Has the folder results of this job? Its run.json says so, or, if the disk was too full for that file, the
 * job index, whose folder is `known`. */
static bool is_mine(const struct submission *s, const char *known)
{
    struct err why;
    json_t *doc = read_mine(s, &why);

    if (!doc)
        return why.code == ERR_NOT_FOUND && strcmp(s->folder, known) == 0;
    json_decref(doc);
    return true;
}

/* True if the file of {"name","bytes",...} exists with that length. */
static bool is_there(const struct submission *s, const json_t *file)
{
    const char *name = json_string_value(json_object_get(file, "name"));
    char path[PATH_MAX];
    struct err ignored;
    struct stat st;

    return name && file_join(path, sizeof path, s->folder, name, &ignored) == 0 && stat(path, &st) == 0 &&
           st.st_size == json_integer_value(json_object_get(file, "bytes"));
}

json_t *results_kept(const struct submission *s)
{
    struct err ignored;
    json_t *doc = read_mine(s, &ignored);
    const char *state = json_string_value(json_object_get(doc, "state"));
    const json_t *files = json_object_get(doc, "files"), *file;
    bool is_whole = json_is_true(json_object_get(doc, "is_complete")) && state &&
                    strcmp(state, job_state_name(s->state)) == 0;
    size_t i;

    json_array_foreach(files, i, file) is_whole = is_whole && is_there(s, file);
    if (is_whole)
        return doc;
    json_decref(doc);
    return NULL;
}

static int choose_folder(struct submission *s, struct err *e)
{
    const char *o = s->opt->output;
    char name[160];

    if (s->folder[0] && !o[0])
        return 0; /* set from the job index */
    s->has_default_folder = !o[0];
    snprintf(name, sizeof name, "logs/%s-%s", s->id, s->settings.name);
    if (file_absolute(s->folder, sizeof s->folder, o[0] ? o : name, e) < 0)
        return e->code;
    if (utf8_is_all(s->folder))
        return 0;
    err_set(e, ERR_CONFIG, "%s: the path is not UTF-8", s->folder);
    return err_hint(e, "The job index and run.json store the path as UTF-8. Name another folder: -o DIR");
}

/* Removes the temporary files of a job_submit that was killed. */
static void sweep_parts(const struct submission *s)
{
    char path[PATH_MAX];
    struct err ignored;

    file_remove_temporary(s->folder);
    for (int i = 0; i < N_PARTS; i++)
        if (file_join(path, sizeof path, s->folder, part(s, i), &ignored) == 0)
            file_remove_temporary(path);
}

int results_make_parts(struct submission *s, struct err *e)
{
    char path[PATH_MAX];
    const bool has_lock = s->lock_fd > 0;
    int rc = results_lock(s, e);

    if (rc == 0)
        sweep_parts(s);
    for (int i = 0; i < N_PARTS && rc == 0; i++)
        if (file_join(path, sizeof path, s->folder, part(s, i), e) < 0 || file_mkdirs(path, 0777, e) < 0)
            rc = e->code;
    if (!has_lock)
        results_unlock(s);
    return rc;
}

/* Checks before the job that the file of --trace, which is written last, can be written. */
static int check_trace(const char *path, struct err *e)
{
    bool is_there = access(path, F_OK) == 0;
    int fd;

    if (!path[0])
        return 0;
    fd = open(path, O_WRONLY | O_CREAT | O_NONBLOCK | O_CLOEXEC, 0666);
    if (fd < 0)
        return err_errno(e, ERR_IO, "--trace %s", path);
    close(fd);
    if (!is_there)
        unlink(path);
    return 0;
}

int results_prepare(struct submission *s, struct err *e)
{
    char known[PATH_MAX];

    memcpy(known, s->folder, sizeof known);
    if (choose_folder(s, e) < 0)
        return e->code;
    s->made_folder = access(s->folder, F_OK) < 0;
    if (file_mkdirs(s->folder, 0777, e) < 0)
        goto fail;
    if (!is_empty(s->folder) && !is_mine(s, known)) {
        err_set(e, ERR_CONFLICT, "%s is not empty and holds no results of %s", s->folder, s->id);
        return err_hint(e, "Name another folder: -o DIR");
    }
    s->made_parts = true;
    if (results_make_parts(s, e) < 0)
        goto fail;
    if (check_trace(s->trace, e) == 0)
        return 0;
    results_abandon(s);
    return e->code;
fail:
    results_abandon(s);
    return err_at(e, "the folder for the results cannot be written to");
}

void results_abandon(struct submission *s)
{
    char path[PATH_MAX];
    struct err ignored;

    for (int i = 0; s->made_parts && i < N_PARTS; i++)
        if (file_join(path, sizeof path, s->folder, part(s, i), &ignored) == 0)
            rmdir(path);
    if (s->made_folder)
        rmdir(s->folder);
    s->made_folder = s->made_parts = false;
}

static void point_latest(const struct submission *s)
{
    const char *name = strrchr(s->folder, '/') + 1;
    char link[PATH_MAX];
    char tmp[PATH_MAX];
    int n = (int)(name - s->folder);

    if (snprintf(link, sizeof link, "%.*slatest", n, s->folder) >= (int)sizeof link ||
        snprintf(tmp, sizeof tmp, "%.*s.latest.%ld", n, s->folder, (long)getpid()) >= (int)sizeof tmp)
        return;
    unlink(tmp);
    if (symlink(name, tmp) < 0 || rename(tmp, link) < 0) {
        console_more("%s does not point at the new folder (%s).", link, strerror(errno));
        unlink(tmp);
    }
}

int results_begin(struct submission *s, struct err *e)
{
    char path[PATH_MAX];

    s->made_folder = s->made_parts = false;
    if (s->has_default_folder)
        point_latest(s);
    /* After a failed attempt the subfolders are missing: they were moved to the folder of that attempt. */
    if (results_make_parts(s, e) < 0 || file_join(path, sizeof path, s->folder, "logs/submit.log", e) < 0)
        return e->code;
    return console_keep(path, e);
}

/* The path of a file, and its path until results_seal(). */
static int find_paths(char path[PATH_MAX], char temporary[PATH_MAX], const struct submission *s,
                      const char *name, struct err *e)
{
    return file_join(path, PATH_MAX, s->folder, name, e) < 0 ? e->code
                                                             : file_temporary(temporary, PATH_MAX, path, e);
}

int results_create(const struct submission *s, const char *name, int *fd, struct err *e)
{
    char path[PATH_MAX];
    char temporary[PATH_MAX];

    if (find_paths(path, temporary, s, name, e) < 0)
        return e->code;
    unlink(temporary);
    *fd = open(temporary, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (*fd < 0)
        return err_errno(e, ERR_IO, "%s", path);
    return 0;
}

void results_drop(const struct submission *s, const char *name, int fd)
{
    char path[PATH_MAX];
    char temporary[PATH_MAX];
    struct err ignored;

    close(fd);
    if (find_paths(path, temporary, s, name, &ignored) == 0)
        unlink(temporary);
}

int results_list(struct submission *s, const char *name, struct err *e)
{
    uint8_t sum[SHA256_BYTES];
    char hex[SHA256_HEX];
    char path[PATH_MAX];
    uint64_t bytes;

    if (file_join(path, sizeof path, s->folder, name, e) < 0)
        return e->code;
    if (access(path, F_OK) < 0)
        return err_errno(e, errno == ENOENT ? ERR_NOT_FOUND : ERR_IO, "%s", path);
    if (sha256_file(sum, &bytes, path, e) < 0)
        return e->code;
    hex_encode(hex, sum, sizeof sum);
    json_array_append_new(
        s->files, json_pack("{s:s, s:I, s:s}", "name", name, "bytes", (json_int_t)bytes, "sha256", hex));
    return 0;
}

int results_seal(struct submission *s, const char *name, int fd, struct err *e)
{
    char path[PATH_MAX];
    char temporary[PATH_MAX];

    if (find_paths(path, temporary, s, name, e) < 0) {
        close(fd);
        return e->code;
    }
    if (close(fd) < 0 || rename(temporary, path) < 0) {
        err_errno(e, ERR_IO, "%s", path);
        unlink(temporary);
        return e->code;
    }
    return results_list(s, name, e);
}

int results_write(struct submission *s, const char *name, const char *text, size_t len, struct err *e)
{
    char path[PATH_MAX];
    int fd;

    if (file_join(path, sizeof path, s->folder, name, e) < 0 || results_create(s, name, &fd, e) < 0)
        return e->code;
    if (file_write_all(fd, text, len, path, e) < 0) {
        results_drop(s, name, fd);
        return e->code;
    }
    return results_seal(s, name, fd, e);
}

int results_of_attempt(char out[PATH_MAX], const struct submission *s, int attempt, struct err *e)
{
    char below[48];

    snprintf(below, sizeof below, RESULTS_ATTEMPTS "/%d", attempt);
    return file_join(out, PATH_MAX, s->folder, below, e);
}

void checkpoint_file_name(char out[64], int node, const char *ending)
{
    if (node < 0)
        snprintf(out, 64, "checkpoints/ps-%d%s.safetensors", -2 - node, ending);
    else
        snprintf(out, 64, "checkpoints/node-%d%s.safetensors", node, ending);
}

static const char *meta_text(const struct tensor_file *f, const char *key)
{
    const char *text = tensor_file_meta(f, key);

    return text ? text : "";
}

void checkpoint_position_of(struct checkpoint_position *out, const struct tensor_file *f)
{
    snprintf(out->job, sizeof out->job, "%.60s", meta_text(f, "job_id"));
    snprintf(out->epoch, sizeof out->epoch, "%.20s", meta_text(f, "epoch"));
    snprintf(out->step, sizeof out->step, "%.20s", meta_text(f, "step"));
    snprintf(out->round, sizeof out->round, "%.20s", meta_text(f, "round"));
}

bool checkpoint_is_at(const struct tensor_file *f, const struct checkpoint_position *p, int node)
{
    return strcmp(meta_text(f, "job_id"), p->job) == 0 && strcmp(meta_text(f, "round"), p->round) == 0 &&
           (node < 0 || strcmp(meta_text(f, "step"), p->step) == 0);
}

static const char *const endings[] = {"", CHECKPOINT_PREVIOUS};

static bool open_checkpoint(struct tensor_file *f, const char *folder, int node, const char *ending)
{
    char name[64], path[PATH_MAX];
    struct err ignored;

    checkpoint_file_name(name, node, ending);
    return file_join(path, sizeof path, folder, name, &ignored) == 0 &&
           tensor_file_open(f, path, &ignored) == 0;
}

/* Is the last or second last checkpoint of the node at the position? */
static bool node_has(const char *folder, const struct checkpoint_position *p, int node)
{
    bool is_found = false;

    for (size_t k = 0; k < sizeof endings / sizeof *endings && !is_found; k++) {
        struct tensor_file f;

        if (!open_checkpoint(&f, folder, node, endings[k]))
            continue;
        is_found = checkpoint_is_at(&f, p, node);
        tensor_file_close(&f);
    }
    return is_found;
}

static bool all_nodes_have(const char *folder, const struct checkpoint_position *p,
                           const struct job_node *nodes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!node_has(folder, p, nodes[i].at.node))
            return false;
    return true;
}

bool checkpoint_find_common(uint64_t *step, const char *folder, const struct job_node *nodes, size_t n)
{

    for (size_t k = 0; k < sizeof endings / sizeof *endings; k++) {
        struct checkpoint_position p;
        struct tensor_file f;

        if (!open_checkpoint(&f, folder, nodes[0].at.node, endings[k]))
            continue;
        checkpoint_position_of(&p, &f);
        tensor_file_close(&f);
        *step = strtoull(p.step, NULL, 10);
        if (all_nodes_have(folder, &p, nodes, n))
            return true;
    }
    return false;
}
