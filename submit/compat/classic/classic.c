#include "submit/compat/classic/classic.h"

#include <ctype.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "shared/base/file.h"
#include "submit/codecs/codec_find.h"
#include "submit/compat/classic/classic_file.h"
#include "submit/terminal/console.h"
#include "submit/terminal/text.h"

enum { COPY_MAX = INT_MAX };

static const struct style styles[] = {
    {.name = "classic",
     .csv = {{ARTIFACT_TRAIN,
              "T-N({n})-R({r})-ID({id})-CODEC({codec}).csv",
              "Time,Epoch,Batch,Total Batch,loss,accuracy",
              {"time_s", "epoch", "batch", "step", "loss", "accuracy"}},
             {ARTIFACT_EVAL,
              "E-N({n})-R({r})-ID({id})-CODEC({codec}).csv",
              "loss,accuracy",
              {"loss", "accuracy"}}},
     .log = "./tmp_log/Training log @ node-{id}_{time}.log",
     .title = "Training log @ node-{id}",
     .epoch = "-Cyc{epoch}",
     .submit_log = "./tmp_log/User Submit_{time}.log",
     .colon = " : "},
    {.name = "classic-0.9",
     .csv = {{ARTIFACT_TRAIN,
              "./Node-{id}-Retrieve/TR-{name}-N({id}).csv",
              "Time,Epochs,Batches,in,Total,Loss,accuracy",
              {"time_s", "epoch", "batch", "batches", "step", "loss", "accuracy"}},
             {ARTIFACT_EVAL,
              "./Node-{id}-Retrieve/EV-{name}-N({id}).csv",
              "Loss,accuracy",
              {"loss", "accuracy"}}},
     .model = "./Node-{id}-Retrieve/MODEL-{name}-N({id}).model",
     .log = "./Node-{id}-Retrieve/Fit-{id} {date}.log",
     .title = "Fit-{id}",
     .epoch = "-Epo-{epoch}",
     .submit_log = "./tmp_log/P-SGD Submit {date}.log",
     .colon = ": "},
};

/* NULL: tidy. */
static const struct style *find_style(const char *name)
{
    for (size_t i = 0; i < sizeof styles / sizeof *styles; i++)
        if (strcmp(styles[i].name, name) == 0)
            return &styles[i];
    return NULL;
}

int classic_prepare(const struct submission *s, struct err *e)
{
    if (!find_style(s->csv_style) || access(".", W_OK | X_OK) == 0)
        return 0;
    err_errno(e, ERR_IO, "--csv-style %s: the current folder", s->csv_style);
    return err_hint(e, "Parallel-SGD's files are written there; run job_submit in another folder.");
}

/* In Parallel-SGD the letter is that of the class: --codec MODULE.CLASS. Of a path, which has no place in the
 * name of a file, it is that of its last part. */
static char letter_of(const char *codec, const char *name)
{
    const char *dot = codec && !find_is_path(codec) ? strchr(codec, '.') : NULL;
    const char *colon = codec ? strchr(codec, ':') : NULL, *slash = strrchr(name, '/');

    if (dot && (!colon || dot < colon) && isalnum((unsigned char)dot[1]))
        return dot[1];
    return slash ? slash[1] : name[0];
}

/* For each layer its codec's letter: those of a list, in the order of the model, or the same for all. */
static void write_letters(char *out, size_t size, const struct submission *s)
{
    const char *codec = json_string_value(json_object_get(json_object_get(s->facts, "options"), "codec"));
    json_t *list = json_object_get(s->facts, "codecs"), *v;
    const char *layer;
    size_t n = 0;

    json_object_foreach(list, layer, v) if (n < size - 1)
        out[n++] = letter_of(json_string_value(v), json_string_value(v));
    while (!list && n < size - 1 && n < (size_t)(s->n_dense > 0 ? s->n_dense : 0))
        out[n++] = letter_of(codec, s->settings.codec);
    out[n] = '\0';
}

static int put_row(struct classic *c, int node, const struct record_text *cells, void *with, struct err *e)
{
    const struct csv *csv = with;
    bool is_new;

    if (classic_turn(c, &is_new, csv->file, node, e) < 0)
        return e->code;
    if (is_new)
        fprintf(c->f, "%s\n", csv->header);
    for (const char *const *name = csv->columns; *name; name++) {
        const struct record_text *cell = &cells[artifact_column(&artifacts[csv->from], *name)];

        fprintf(c->f, "%s%.*s", name == csv->columns ? "" : ",", (int)cell->len, cell->text);
    }
    fputc('\n', c->f);
    return 0;
}

static int write_csv(struct classic *c, const struct csv *csv, struct err *e)
{
    memset(c->is_begun, 0, (size_t)c->s->settings.node_count * sizeof *c->is_begun);
    if (classic_each_row(c, csv->from, put_row, (void *)(uintptr_t)csv, e) < 0)
        return e->code;
    c->f = NULL;
    return 0;
}

/* A file of the results; one that is not there is left out. */
static int copy_records(const struct classic *c, const char *from, const char *form, int node, double wall,
                        struct err *e)
{
    char path[PATH_MAX], name[CLASSIC_NAME], *bytes;
    char folder[CLASSIC_NAME];
    size_t len;
    int rc;

    if (file_join(path, sizeof path, c->s->folder, from, e) < 0)
        return e->code;
    if (file_read(&bytes, &len, path, COPY_MAX, e) < 0)
        return e->code == ERR_NOT_FOUND ? 0 : e->code;
    classic_fill(name, form, c, node, wall, "");
    memcpy(folder, name, sizeof folder);
    rc = file_mkdirs(dirname(folder), 0777, e);
    if (rc == 0)
        rc = file_write_parts(name, &(struct iovec){bytes, len}, 1, 0666, false, e);
    free(bytes);
    if (rc == 0 && node >= 0)
        console_info("Restoring data (%s) from %d.", name, node);
    return rc;
}

/* The model that psgd keeps, for each worker that ended with it. */
static int write_models(const struct classic *c, struct err *e)
{
    const char *path = artifacts[ARTIFACT_FINAL_MODEL].path, *kept = NULL;
    const json_t *file;
    size_t i;

    if (!c->style->model)
        return 0;
    json_array_foreach(json_object_get(c->run, "files"), i, file)
    {
        const char *name = json_string_value(json_object_get(file, "name"));

        if (name && strcmp(name, path) == 0)
            kept = json_string_value(json_object_get(file, "sha256"));
    }
    for (int node = 0; kept && node < c->s->settings.node_count; node++) {
        const char *own = json_string_value(json_object_get(classic_node(c, node), "model_sha256"));

        if (own && strcmp(own, kept) == 0 &&
            copy_records(c, path, c->style->model, node, classic_started(c, node), e) < 0)
            return e->code;
    }
    return 0;
}

static int write_all(struct classic *c, struct err *e)
{
    for (size_t i = 0; i < sizeof c->style->csv / sizeof *c->style->csv; i++)
        if (write_csv(c, &c->style->csv[i], e) < 0)
            return e->code;
    if (classic_write_logs(c, e) < 0 || write_models(c, e) < 0)
        return e->code;
    return copy_records(c, "logs/submit.log", c->style->submit_log, -1, c->s->submitted_at, e);
}

int classic_write(const struct submission *s, const json_t *run, struct err *e)
{
    char letters[80];
    struct classic c = {.s = s, .run = run, .style = find_style(s->csv_style), .letters = letters};
    int rc;

    if (!c.style)
        return 0;
    write_letters(letters, sizeof letters, s);
    c.is_begun = calloc((size_t)s->settings.node_count, sizeof *c.is_begun);
    if (!c.is_begun)
        return err_set(e, ERR_NOMEM, "no memory for %d nodes", s->settings.node_count);
    rc = appender_end(&c.files, write_all(&c, e), e);
    free(c.is_begun);
    return rc < 0 ? err_at(e, "--csv-style %s", s->csv_style) : 0;
}

void classic_try(struct submission *s, const json_t *run)
{
    struct err e;

    if (classic_write(s, run, &e) == 0)
        return;
    console_error("%s%s", e.text, text_stop(e.text));
    s->is_complete = false;
}
