#include "agent/folder/rank_packages.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/jobs/job_action.h"
#include "agent/jobs/packages.h"
#include "shared/base/file.h"
#include "shared/base/json.h"
#include "shared/job/job_folder.h"
#include "shared/job/settings.h"
#include "shared/records/tensor_file.h"

enum { SETTINGS_BYTES_MAX = 1 << 20 };

static const enum artifact_id kept[] = {ARTIFACT_CHECKPOINT, ARTIFACT_PREVIOUS_CHECKPOINT};

static bool read_point(struct meeting_point *out, const char *path)
{
    static const char *const keys[] = {"epoch", "step", "round"};
    int64_t *values[] = {&out->epoch, &out->step, &out->round};
    struct tensor_file f;
    struct err ignored;
    const char *job;
    bool is_whole;

    if (access(path, R_OK) < 0 || tensor_file_open(&f, path, &ignored) < 0)
        return false;
    job = tensor_file_meta(&f, "job_id");
    is_whole = job != NULL;
    snprintf(out->job, sizeof out->job, "%s", job ? job : "");
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const char *text = tensor_file_meta(&f, keys[i]);

        is_whole &= text != NULL;
        *values[i] = text ? strtoll(text, NULL, 10) : 0;
    }
    tensor_file_close(&f);
    return is_whole;
}

/* Calls `each` with every checkpoint of the node, until it returns true. Returns whether it has. */
static bool find_checkpoint(const struct jobs *jobs, const char *job,
                            bool (*each)(void *arg, const char *path, const struct meeting_point *p),
                            void *arg)
{
    for (const struct task *t = jobs->last; t; t = t->prev)
        for (size_t i = 0; strcmp(t->job.spec.id, job) == 0 && i < sizeof kept / sizeof *kept; i++) {
            char path[PATH_MAX];
            struct meeting_point p;

            snprintf(path, sizeof path, "%s/run/%s", t->dir, artifact_name(kept[i]));
            if (read_point(&p, path) && each(arg, path, &p))
                return true;
        }
    return false;
}

static bool add_point(void *arg, const char *path, const struct meeting_point *p)
{
    struct meeting_member *k = arg;

    (void)path;
    if (k->n_points < MEETING_CHECKPOINTS)
        k->points[k->n_points++] = *p;
    return false;
}

void rank_checkpoints_list(struct meeting_member *out, const struct jobs *jobs, const char *job)
{
    out->n_points = 0;
    find_checkpoint(jobs, job, add_point, out);
}

struct wanted_checkpoint {
    const struct meeting_point *at;
    bool is_server;
    char path[PATH_MAX];
};

/* A server may have saved a round under a later step. */
static bool is_wanted(void *arg, const char *path, const struct meeting_point *p)
{
    struct wanted_checkpoint *w = arg;

    if (strcmp(p->job, w->at->job) != 0 || p->round != w->at->round ||
        (!w->is_server && p->step != w->at->step))
        return false;
    snprintf(w->path, sizeof w->path, "%s", path);
    return true;
}

static int hash_file(char hex[SHA256_HEX], const char *path, struct err *e)
{
    uint8_t digest[SHA256_BYTES];
    uint64_t bytes;

    if (sha256_file(digest, &bytes, path, e) < 0)
        return e->code;
    hex_encode(hex, digest, sizeof digest);
    return 0;
}

static int name_package(char path[PATH_MAX], const char *job_folder, const char *hex, struct err *e)
{
    char name[SHA256_HEX + 16];

    snprintf(name, sizeof name, JOB_FOLDER_PACKAGES "/%s", hex);
    return file_join(path, PATH_MAX, job_folder, name, e);
}

/* A file of the job folder may have been damaged or replaced since it was written. */
static int check_name(const char *path, const char *found, const char *hex, struct err *e)
{
    return strcmp(found, hex) == 0
               ? 0
               : err_set(e, ERR_CONFIG, "%s is damaged: its SHA-256 is not its name", path);
}

static int import_file(const struct task *t, const char *job_folder, const char *hex, struct err *e)
{
    char path[PATH_MAX], found[SHA256_HEX];

    if (name_package(path, job_folder, hex, e) < 0 || hash_file(found, path, e) < 0 ||
        check_name(path, found, hex, e) < 0)
        return e->code;
    return blob_take(&t->jobs->blobs, hex, path, e);
}

static int read_settings(json_t **out, const char *job_folder, const char *hex, struct err *e)
{
    char path[PATH_MAX], found[SHA256_HEX], *text;
    size_t len;
    int rc;

    if (name_package(path, job_folder, hex, e) < 0 || file_read(&text, &len, path, SETTINGS_BYTES_MAX, e) < 0)
        return e->code;
    sha256_hex(found, text, len);
    rc = check_name(path, found, hex, e) < 0 ? e->code : json_parse(out, text, len, path, e);
    free(text);
    return rc;
}

/* {"files":{NAME:HEX}}; NULL: ERR_NOMEM. */
static json_t *one_file(const char *name, const char *hex, struct err *e)
{
    json_t *out = json_pack("{s:{s:s}}", "files", name, hex);

    if (!out)
        err_set(e, ERR_NOMEM, "no memory for the name of %s", name);
    return out;
}

static int put_settings(const struct task *t, const json_t *settings, char hex[SHA256_HEX], struct err *e)
{
    char *line = json_line(settings);
    int rc = line ? blob_put(&t->jobs->blobs, hex, line, strlen(line), e)
                  : err_set(e, ERR_NOMEM, "no memory for the job's settings");

    free(line);
    return rc;
}

/* The job's settings, except that it starts from a checkpoint. */
static json_t *settings_of_resumed(const struct task *t, const char *job_folder, const json_t *files,
                                   struct err *e)
{
    const char *packed = json_text_at(json_object_get(files, "files"), "settings.json");
    char hex[SHA256_HEX];
    json_t *settings, *out = NULL;

    if (read_settings(&settings, job_folder, packed, e) < 0)
        return NULL;
    if (json_object_set_new(settings, "starts_from", json_string("checkpoint")) < 0)
        err_set(e, ERR_NOMEM, "no memory for the job's settings");
    else if (put_settings(t, settings, hex, e) == 0)
        out = one_file("settings.json", hex, e);
    json_decref(settings);
    return out;
}

static json_t *weights_of_resumed(const struct task *t, const struct meeting_point *at, struct err *e)
{
    struct wanted_checkpoint w = {.at = at, .is_server = strcmp(t->job.spec.role, "server") == 0};
    char hex[SHA256_HEX];

    if (!find_checkpoint(t->jobs, t->job.spec.id, is_wanted, &w)) {
        err_set(e, ERR_NOT_FOUND, "the checkpoint of round %lld is gone", (long long)at->round);
        return NULL;
    }
    if (hash_file(hex, w.path, e) < 0 || blob_take(&t->jobs->blobs, hex, w.path, e) < 0)
        return NULL;
    return one_file("weights.safetensors", hex, e);
}

static int take_package(struct task *t, const char *job_folder, enum package p, const json_t *files,
                        bool is_own, struct err *e)
{
    struct event note;

    event_init(&note, NOTE_PACKAGE);
    snprintf(note.package, sizeof note.package, "%s", package_names[p]);
    if (packages_parse(&note, files, p, e) < 0)
        return err_at(e, "job.json: %s", package_names[p]);
    for (int i = 0; i < PACKAGE_FILES_MAX && !is_own; i++)
        if (note.hex[i][0] && import_file(t, job_folder, note.hex[i], e) < 0)
            return e->code;
    if (packages_link(t->jobs, t, &note, p, e) < 0 || packages_sync(t, e) < 0)
        return e->code;
    return task_record(t, &note, e);
}

int rank_packages_take(struct task *t, const char *job_folder, const json_t *packages,
                       const struct meeting_point *resume, struct err *e)
{
    for (int p = 0; p < N_PACKAGES; p++) {
        const json_t *files = json_object_get(packages, package_names[p]);
        json_t *own = NULL;
        int rc;

        if (!job_lacks(&t->job, (enum package)p))
            continue;
        *e = (struct err){0};
        if (resume && p == PACKAGE_SETTINGS)
            own = settings_of_resumed(t, job_folder, files, e);
        if (resume && p == PACKAGE_WEIGHTS)
            own = weights_of_resumed(t, resume, e);
        if (e->code < 0)
            return e->code;
        rc = take_package(t, job_folder, (enum package)p, own ? own : files, own != NULL, e);
        json_decref(own);
        if (rc < 0)
            return rc;
    }
    job_advance(t);
    return 0;
}
