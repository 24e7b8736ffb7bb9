#include "submit/trainer/trainer_job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/file.h"
#include "shared/base/json.h"
#include "shared/records/weights.h"
#include "shared/trainer/trainer_wire.h"
#include "submit/files/temp.h"
#include "submit/terminal/console.h"
#include "submit/trainer/trainer_describe.h"
#include "submit/trainer/trainer_files.h"

enum {
    HEADER_MAX = 8 << 20,    /* of a file of its model: names, shapes, and the model's document */
    BATCHES_MAX = 1000000000 /* steps_per_epoch */
};

/* The files, for run.json. */
static json_t *files_json(const struct submission *s, const struct trainer_files *f)
{
    json_t *list = json_array();
    char path[PATH_MAX], folder[PATH_MAX] = "";
    struct err ignored;

    for (size_t i = 0; i < f->n; i++)
        json_array_append_new(
            list, json_pack("{s:s, s:I}", "name", f->files[i].name, "bytes", (json_int_t)f->files[i].len));
    if (file_absolute(path, sizeof path, s->opt->trainer, &ignored) == 0)
        snprintf(folder, sizeof folder, "%.*s",
                 (int)(f->is_folder ? strlen(path) : (size_t)(strrchr(path, '/') - path)), path);
    return json_pack("{s:s, s:b, s:s, s:o, s:I, s:o}", "main", f->main.file, "python", (int)f->main.is_python,
                     "sha256", s->trainer.hex, "folder", json_text(folder, SIZE_MAX), "bytes",
                     (json_int_t)f->bytes, "files", list);
}

/* The values as a file of weights, as for psgd's own networks. */
static int write_values(struct submission *s, const char *path, const float *values, struct err *e)
{
    const struct model_spec *m = &s->model_spec;
    struct tensor_view *t = calloc((size_t)m->n_tensors, sizeof *t);
    int rc;

    for (int i = 0; t && i < m->n_tensors; i++)
        weights_view(&t[i], &m->tensors[i], values + m->tensors[i].offset);
    rc = t ? tensor_file_write_unsynced(path, t, (size_t)m->n_tensors, NULL, e)
           : err_set(e, ERR_NOMEM, "no memory for %d tensors", m->n_tensors);
    free(t);
    return rc < 0 ? rc : blob_take_file(&s->weights, path, e);
}

/* Takes the model's document and its parsed form. */
static int take_model(struct submission *s, struct trainer_description *d, struct err *e)
{
    char *line = json_line(d->model);

    if (!line)
        return err_set(e, ERR_NOMEM, "no memory for the document of a model");
    if (strlen(line) > MODEL_DOCUMENT_MAX) {
        free(line);
        return err_set(e, ERR_TRAINER, "the names of its %d tensors are too long for a model's document",
                       d->spec.n_tensors);
    }
    blob_set(&s->model, line, strlen(line));
    s->model_spec = d->spec;
    d->spec = (struct model_spec){0};
    snprintf(s->settings.model, sizeof s->settings.model, "%s", s->model_spec.name);
    s->model_bytes = 4 * (uint64_t)s->model_spec.n_params + HEADER_MAX;
    json_object_set_new(s->facts, "model",
                        json_pack("{s:s, s:s, s:I, s:O}", "name", s->model_spec.name, "sha256", s->model.hex,
                                  "n_params", (json_int_t)s->model_spec.n_params, "description", d->model));
    return 0;
}

/* Without a number of steps the job would have no end, and local steps that are as many as an epoch no
 * exchange before its end. */
static int check_steps(const struct submission *s, const char *program, struct err *e)
{
    const struct settings *set = &s->settings;

    if (s->n_batches > BATCHES_MAX)
        return err_set(e, ERR_TRAINER, "%s: %llu steps in an epoch, at most %d", program,
                       (unsigned long long)s->n_batches, BATCHES_MAX);
    if (s->n_batches > 0)
        return 0;
    if (set->max_steps == 0 && s->opt->max_mb == 0) {
        err_set(e, ERR_CONFIG, "%s does not say how many batches an epoch has, so the job would have no end",
                program);
        return err_hint(
            e, "Loop over psgd.trainer.steps(loader), which asks len(loader), or give --max-steps N.");
    }
    if (!s->sends_params || set->local_steps > 0)
        return 0;
    err_set(e, ERR_CONFIG,
            "%s does not say how many batches an epoch has, so codec %s, which exchanges once in an epoch, "
            "would exchange only at the end",
            program, set->codec);
    return err_hint(e, "Give --local-steps N.");
}

static int take_description(struct submission *s, struct trainer_description *d, const char *folder,
                            struct err *e)
{
    char path[PATH_MAX];

    if (take_model(s, d, e) < 0 || file_join(path, sizeof path, folder, "weights.safetensors", e) < 0 ||
        write_values(s, path, d->values, e) < 0)
        return e->code;
    s->n_batches = d->n_batches;
    s->is_function = d->is_function;
    s->gives_gradients = d->gives_gradients;
    json_object_set_new(s->facts, "start",
                        json_pack("{s:s, s:s}", "from", "trainer", "shipped_sha256", s->weights.hex));
    return 0;
}

static void print_description(const struct submission *s, const char *program)
{
    const struct model_spec *m = &s->model_spec;
    char statistics[64] = "", steps[64] = "an epoch of unknown length";

    if (m->n_trained < m->n_params)
        snprintf(statistics, sizeof statistics, ", %zu of these statistics", m->n_params - m->n_trained);
    if (s->n_batches > 0)
        snprintf(steps, sizeof steps, "%llu step%s in an epoch", (unsigned long long)s->n_batches,
                 s->n_batches == 1 ? "" : "s");
    console_info("%s has started here: %d tensor%s of %zu parameter%s%s; %s.", program, m->n_tensors,
                 m->n_tensors == 1 ? "" : "s", m->n_params, m->n_params == 1 ? "" : "s", statistics, steps);
}

/* Packs the program, and starts it from its own package, as the workers will do. */
static int start_package(struct submission *s, const struct trainer_files *f, const char *temp, struct err *e)
{
    struct trainer_description d;
    struct trainer_main main;
    char package[PATH_MAX], folder[PATH_MAX];
    const struct describe_how how = {.program_fd = s->opt->program_fd,
                                     .folder = folder,
                                     .temp = temp,
                                     .main = &main,
                                     .python = s->opt->trainer_python,
                                     .set = &s->settings,
                                     .is_simulated = s->is_simulated,
                                     .flags = (s->takes_gradients ? TRAINER_TAKES_GRADIENTS : 0) |
                                              (s->resume[0] ? TRAINER_IS_RESUMED : 0),
                                     .deadline = s->deadline,
                                     .timeout_s = s->opt->timeout_s};
    int rc;

    if (file_join(package, sizeof package, temp, TRAINER_PACKAGE_NAME, e) < 0 ||
        file_join(folder, sizeof folder, temp, "trainer", e) < 0 ||
        trainer_package_write(package, f->files, f->n, &f->main, e) < 0 ||
        trainer_package_unpack(&main, package, folder, e) < 0 || blob_take_file(&s->trainer, package, e) < 0)
        return e->code;
    json_object_set_new(s->facts, "trainer", files_json(s, f));
    if (s->opt->trainer_sha256[0] && strcmp(s->opt->trainer_sha256, s->trainer.hex) != 0)
        console_info("%s has changed since that run: its present files are sent.", main.file);
    if (trainer_describe(&d, &how, e) < 0)
        return e->code;
    rc = take_description(s, &d, temp, e);
    trainer_description_clear(&d);
    return rc;
}

static int name_program(struct settings *set, const struct trainer_main *main, struct err *e)
{
    const char *slash = strrchr(main->file, '/'), *name = slash ? slash + 1 : main->file;

    if (strlen(name) >= sizeof set->model)
        return err_set(e, ERR_CONFIG, "--trainer: the name %s has more than %zu bytes", name,
                       sizeof set->model - 1);
    snprintf(set->trainer, sizeof set->trainer, "%s", main->file);
    set->dataset[0] = '\0'; /* the program's own */
    return 0;
}

int trainer_job_read(struct submission *s, struct err *e)
{
    struct trainer_files f;
    struct temp temp;
    int rc;

    if (trainer_files_read(&f, s->opt->trainer, s->opt->main, e) < 0)
        return e->code;
    trainer_files_print(&f);
    rc = name_program(&s->settings, &f.main, e);
    if (rc == 0)
        rc = temp_open(&temp, e);
    if (rc == 0) {
        rc = start_package(s, &f, temp.path, e);
        temp_close(&temp);
    }
    if (rc == 0) {
        print_description(s, f.main.file);
        rc = check_steps(s, f.main.file, e);
    }
    trainer_files_clear(&f);
    return rc;
}
