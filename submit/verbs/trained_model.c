#include "submit/verbs/trained_model.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shared/base/file.h"
#include "shared/records/artifacts.h"
#include "submit/files/run_file.h"
#include "submit/verbs/verbs.h"

/* Sets m->job if the model is FOLDER/model/... of a result folder. */
static void find_job(struct trained_model *m)
{
    char folder[PATH_MAX], run[PATH_MAX];
    struct err ignored;
    char *slash;

    if (file_absolute(folder, sizeof folder, m->path, &ignored) < 0)
        return;
    for (int up = 0; up < 2 && (slash = strrchr(folder, '/')); up++)
        *slash = '\0';
    if (file_join(run, sizeof run, folder, "run.json", &ignored) == 0 && access(run, F_OK) == 0)
        snprintf(m->job, sizeof m->job, "%s", folder);
}

int trained_model_find(struct trained_model *m, const char *operand, struct err *e)
{
    struct stat st;

    if (stat(operand, &st) < 0)
        return err_errno(e, ERR_NOT_FOUND, "%s", operand);
    if (!S_ISDIR(st.st_mode))
        snprintf(m->path, sizeof m->path, "%s", operand);
    else if (file_join(m->path, sizeof m->path, operand, artifacts[ARTIFACT_FINAL_MODEL].path, e) < 0)
        return e->code;
    if (access(m->path, F_OK) < 0) {
        err_set(e, ERR_NOT_FOUND, "%s has no %s", operand, artifacts[ARTIFACT_FINAL_MODEL].path);
        return err_hint(e, "Name the result folder of a job, or the file of a model.");
    }
    find_job(m);
    return 0;
}

int trained_model_run(json_t **run, const struct trained_model *m, struct err *e)
{
    *run = NULL;
    return m->job[0] ? run_file_read(run, m->job, e) : 0;
}

static int open_file(struct trained_model *m, struct err *e)
{
    int rc;

    if (tensor_file_open(&m->file, m->path, e) < 0)
        return e->code;
    if (verb_model_of_weights(&m->spec, &m->file, e) < 0)
        return err_at(e, "%s", m->path);
    if (m->spec->has_trainer) {
        err_set(e, ERR_CONFIG, "%s: its model is computed by %s, a training program, and not by psgd",
                m->path, m->spec->name);
        return err_hint(
            e, "Load it there: in Python psgd.load_model() returns its tensors, by the program's names.");
    }
    rc = preprocessing_of_file(&m->record, &m->file, e);
    m->has_record = rc > 0;
    return rc < 0 ? err_at(e, "%s", m->path) : 0;
}

int trained_model_open(struct trained_model *m, const json_t *run, struct err *e)
{
    const json_t *record = json_object_get(json_object_get(run, "facts"), "preprocessing");

    if (open_file(m, e) < 0)
        return e->code;
    if (m->has_record || !record)
        return 0;
    m->has_record = preprocessing_parse(&m->record, record, e) == 0;
    return m->has_record ? 0 : err_at(e, "%s/run.json: facts.preprocessing", m->job);
}

int trained_model_put(const struct trained_model *m, const char *folder, struct err *e)
{
    const char *arch = tensor_file_meta(&m->file, "arch");
    char path[PATH_MAX], weights[PATH_MAX];

    if (file_join(path, sizeof path, folder, "model.json", e) < 0 ||
        file_write(path, arch, strlen(arch), 0600, e) < 0)
        return e->code;
    if (file_absolute(weights, sizeof weights, m->path, e) < 0 ||
        file_join(path, sizeof path, folder, "weights.safetensors", e) < 0)
        return e->code;
    return symlink(weights, path) < 0 ? err_errno(e, ERR_IO, "%s", path) : 0;
}

void trained_model_clear(struct trained_model *m)
{
    preprocessing_clear(&m->record);
    model_spec_free(m->spec);
    tensor_file_close(&m->file);
    *m = (struct trained_model){0};
}
