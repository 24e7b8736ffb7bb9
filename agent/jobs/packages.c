#include "agent/jobs/packages.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "shared/base/file.h"
#include "shared/base/json.h"
#include "shared/plugin/codec_manifest.h"
#include "shared/records/weights.h"

enum { OBJECT, SOURCE, MANIFEST };

/* Each list ends with NULL; the first file is required. */
static const char *const files_of[N_PACKAGES][PACKAGE_FILES_MAX + 1] = {
    [PACKAGE_SETTINGS] = {"settings.json"},
    [PACKAGE_CODEC] =
        {[OBJECT] = CODEC_OBJECT_NAME, [SOURCE] = CODEC_SOURCE_NAME, [MANIFEST] = CODEC_MANIFEST_NAME},
    [PACKAGE_MODEL] = {"model.json", PREPROCESSING_FILE},
    [PACKAGE_WEIGHTS] = {"weights.safetensors"},
    [PACKAGE_DATA] = {"train.safetensors", "test.safetensors"},
    [PACKAGE_TRAINER] = {"trainer.safetensors"},
};

int packages_parse(struct event *note, const json_t *doc, enum package p, struct err *e)
{
    static const char *const keys[] = {"files", NULL};
    const char *const *names = files_of[p];
    const json_t *files = json_object_get(doc, "files");

    if (json_only_keys(doc, keys, "", e) < 0)
        return e->code;
    if (!files)
        return err_set(e, ERR_CONFIG, "/files: missing");
    if (json_only_keys(files, names, "/files", e) < 0)
        return e->code;
    for (size_t i = 0; names[i]; i++) {
        if (i > 0 && !json_object_get(files, names[i]))
            continue;
        if (json_get_text(note->hex[i], SHA256_HEX, files, names[i], "/files", e) < 0)
            return e->code;
        if (!is_sha256_hex(note->hex[i]))
            return err_set(e, ERR_CONFIG, "/files/%s: not a SHA-256 in 64 lower-case hex digits", names[i]);
    }
    return 0;
}

static void blob_path(char out[PATH_MAX], const struct jobs *jobs, const char *hex)
{
    snprintf(out, PATH_MAX, "%s/blobs/%s", jobs->opt->dir, hex);
}

/* A manifest is accepted only if it names the files it was sent with. */
static int check_manifest(const struct jobs *jobs, const struct event *note, struct err *e)
{
    struct codec_manifest m;
    char path[PATH_MAX];

    blob_path(path, jobs, note->hex[MANIFEST]);
    if (codec_manifest_read(&m, path, e) < 0)
        return err_at(e, "/files/%s", CODEC_MANIFEST_NAME);
    if (strcmp(m.sha256, note->hex[OBJECT]) != 0 || strcmp(m.source_sha256, note->hex[SOURCE]) != 0)
        return err_set(e, ERR_CONFIG, "/files/%s: describes other files: %s, source %s", CODEC_MANIFEST_NAME,
                       m.sha256, m.source_sha256[0] ? m.source_sha256 : "none");
    return 0;
}

/* The digests of the built-in codecs are compared only if the result matters: if this machine has a lower
 * level than codecs need that are not built in. */
static bool counts_as_builtin(const struct jobs *jobs, const char *object_hex, const char *source_hex,
                              enum codec_use use)
{
    return !jobs->isolation.is_required && jobs->isolation.level < jobs->isolation.required &&
           codec_is_builtin(&jobs->codecs, object_hex, source_hex, use);
}

int packages_isolate(const struct jobs *jobs, const struct job_spec *spec, const struct codec_offer *offer,
                     enum codec_use use, struct err *e)
{
    bool is_builtin = counts_as_builtin(jobs, offer->object_hex, offer->source_hex, use);

    return isolation_admit(&jobs->isolation, offer->name, is_builtin, spec->require_isolation, e);
}

enum isolation packages_isolation(const struct jobs *jobs, const struct task *t)
{
    const char(*hex)[SHA256_HEX] = t->job.packages[PACKAGE_CODEC].hex;
    char path[PATH_MAX];
    bool is_compiled;

    snprintf(path, sizeof path, "%s/packages/" CODEC_OBJECT_NAME, t->dir);
    is_compiled = access(path, F_OK) < 0;
    return isolation_for(
        &jobs->isolation,
        counts_as_builtin(jobs, hex[OBJECT], hex[SOURCE], is_compiled ? CODEC_COMPILE : CODEC_LOAD),
        t->job.spec.require_isolation);
}

static int check_codec(enum codec_use *use, const struct jobs *jobs, const struct task *t,
                       const struct event *note, struct err *e)
{
    char path[PATH_MAX];
    const struct codec_offer offer = {.name = t->job.spec.codec,
                                      .object_hex = note->hex[OBJECT],
                                      .source_hex = note->hex[SOURCE],
                                      .object = path};

    blob_path(path, jobs, note->hex[OBJECT]);
    if (codec_admit(use, &jobs->codecs, &offer, e) < 0 ||
        packages_isolate(jobs, &t->job.spec, &offer, *use, e) < 0)
        return e->code;
    if (note->hex[MANIFEST][0])
        return check_manifest(jobs, note, e);
    return *use == CODEC_COMPILE
               ? err_set(e, ERR_CONFIG, "/files/%s: missing, but the codec must be compiled here",
                         CODEC_MANIFEST_NAME)
               : 0;
}

/* Also for a job that has named no program. */
static int check_trainer(const struct jobs *jobs, const struct task *t, const struct event *note,
                         struct err *e)
{
    const char *name = t->job.spec.trainer;

    return trainer_admit(&jobs->trainers, name[0] ? name : package_names[PACKAGE_TRAINER], note->hex[0], e);
}

int packages_link(struct jobs *jobs, const struct task *t, const struct event *note, enum package p,
                  struct err *e)
{
    const char *const *names = files_of[p];
    enum codec_use use = CODEC_LOAD;
    char path[PATH_MAX];

    for (size_t i = 0; names[i]; i++)
        if (note->hex[i][0] && blob_size(&jobs->blobs, note->hex[i]) < 0)
            return err_set(e, ERR_NOT_FOUND, "no blob %s on this agent", note->hex[i]);
    if (p == PACKAGE_CODEC && check_codec(&use, jobs, t, note, e) < 0)
        return e->code;
    if (p == PACKAGE_TRAINER && check_trainer(jobs, t, note, e) < 0)
        return e->code;
    for (size_t i = 0; names[i]; i++) {
        bool is_left_out = !note->hex[i][0] || (p == PACKAGE_CODEC && i == OBJECT && use == CODEC_COMPILE);

        snprintf(path, sizeof path, "%s/packages/%s", t->dir, names[i]);
        if (!is_left_out && blob_link(&jobs->blobs, note->hex[i], AT_FDCWD, path, e) < 0)
            return e->code;
        if (is_left_out && unlink(path) < 0 && errno != ENOENT)
            return err_errno(e, ERR_IO, "%s", path);
    }
    return 0;
}

int packages_sync(const struct task *t, struct err *e)
{
    char path[PATH_MAX];

    snprintf(path, sizeof path, "%s/packages", t->dir);
    return file_sync_folder(path, e);
}
