#include "agent/jobs/success.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/jobs/artifact.h"
#include "shared/base/file.h"
#include "shared/base/json.h"
#include "shared/job/settings.h"
#include "shared/records/weights.h"

enum { ROW_MAX = 4096 };

static const char final_model[] = "final.safetensors";

/* What the job's settings and model require of this worker. */
struct asked {
    uint64_t first_step, n_steps, record_every; /* first_step: steps that its checkpoint has done */
    bool is_fed; /* --feed shared: workers share the mini-batches, so that none does all n_steps */
    struct model_spec model;
};

static int read_package(json_t **doc, const struct task *t, const char *name, struct err *e)
{
    char path[sizeof t->dir + 32];

    snprintf(path, sizeof path, "%s/packages/%s", t->dir, name);
    return json_read(doc, path, MODEL_DOCUMENT_MAX, e);
}

static int read_first_step(uint64_t *step, const struct task *t, struct err *e)
{
    char path[sizeof t->dir + 32];
    const char *text;
    struct tensor_file f;
    int rc;

    snprintf(path, sizeof path, "%s/packages/weights.safetensors", t->dir);
    if (tensor_file_open(&f, path, e) < 0)
        return e->code;
    rc = weights_meta(&text, &f, "step", e);
    *step = rc == 0 ? strtoull(text, NULL, 10) : 0;
    tensor_file_close(&f);
    return rc;
}

static int read_asked(struct asked *a, const struct task *t, struct err *e)
{
    struct settings set;
    json_t *doc;
    int rc;

    if (read_package(&doc, t, "settings.json", e) < 0)
        return e->code;
    rc = settings_parse(&set, doc, e);
    json_decref(doc);
    if (rc < 0 || read_package(&doc, t, "model.json", e) < 0)
        return e->code;
    rc = model_spec_parse(&a->model, doc, e);
    json_decref(doc);
    a->n_steps = settings_steps(&set);
    a->is_fed = set.feed == FEED_SHARED;
    a->record_every = (uint64_t)set.record_every;
    a->first_step = 0;
    if (rc == 0 && set.starts_from == STARTS_FROM_CHECKPOINT)
        rc = read_first_step(&a->first_step, t, e);
    return rc;
}

static int open_artifact(int *fd, uint64_t *bytes, const struct task *t, enum artifact_id a, struct err *e)
{
    return artifact_open(fd, bytes, t->jobs->dir_fd, task_folder(t), artifact_name(a), e);
}

static bool is_server_node(const struct task *t)
{
    return strcmp(t->job.spec.role, "server") == 0;
}

/* Checks that the files exist without which the results are incomplete. */
static int check_files(const struct task *t, struct err *e)
{
    for (int i = 0; i < N_ARTIFACTS; i++) {
        uint64_t bytes;
        int fd;

        if (!(artifacts[i].flags & NEEDED) ||
            !artifact_is_of(&artifacts[i], is_server_node(t), t->job.spec.executor))
            continue;
        if (open_artifact(&fd, &bytes, t, (enum artifact_id)i, e) < 0)
            return e->code;
        close(fd);
    }
    return 0;
}

/* Checks that it is a model of this job, and sets *step to its step. */
static int check_model(uint64_t *step, const struct task *t, const struct asked *a, struct err *e)
{
    uint64_t bytes;
    struct tensor_file f;
    const char *job, *of_step;
    int fd, rc;

    if (open_artifact(&fd, &bytes, t, ARTIFACT_FINAL_MODEL, e) < 0)
        return e->code;
    rc = tensor_file_read_header(&f, fd, bytes, final_model, e);
    close(fd);
    if (rc < 0)
        return rc;
    job = tensor_file_meta(&f, "job_id");
    of_step = tensor_file_meta(&f, "step");
    *step = of_step ? strtoull(of_step, NULL, 10) : 0;
    if (!job || strcmp(job, t->job.spec.id) != 0)
        rc = err_set(e, ERR_REFUSED, "%s is not of this job", final_model);
    else if (!of_step)
        rc = err_set(e, ERR_REFUSED, "%s does not say of which step it is", final_model);
    else if (weights_check_shapes(&f, "", &a->model, e) < 0)
        rc = err_at(e, "%s", final_model);
    tensor_file_close(&f);
    return rc;
}

/* The last whole line, without its line feed. */
static int last_row(char row[ROW_MAX], const struct task *t, enum artifact_id a, struct err *e)
{
    uint64_t bytes, end, n;
    const char *lf;
    ssize_t got;
    int fd;

    if (open_artifact(&fd, &bytes, t, a, e) < 0)
        return e->code;
    end = file_whole_lines(fd, bytes);
    n = end < ROW_MAX ? end : ROW_MAX;
    got = pread(fd, row, n, (off_t)(end - n));
    close(fd);
    if (got != (ssize_t)n || n == 0)
        return err_set(e, ERR_REFUSED, "%s has no whole line", artifact_name(a));
    row[n - 1] = '\0';
    lf = memrchr(row, '\n', n - 1);
    if (lf)
        memmove(row, lf + 1, strlen(lf + 1) + 1);
    return 0;
}

/* The number in the column of this name. */
static uint64_t number_in(const char *row, const struct record_column *columns, const char *name)
{
    for (; strcmp(columns->name, name) != 0; columns++) {
        row = strchr(row, ',');
        if (!row)
            return 0;
        row++;
    }
    return strtoull(row, NULL, 10);
}

/* Every record_every-th step has a row. */
static int check_records(uint64_t step, const struct task *t, const struct asked *a, struct err *e)
{
    char row[ROW_MAX];
    uint64_t expected = step - step % a->record_every, recorded;

    if (expected <= a->first_step)
        return 0;
    if (last_row(row, t, ARTIFACT_TRAIN, e) < 0)
        return e->code;
    recorded = number_in(row, artifacts[ARTIFACT_TRAIN].columns, "step");
    if (recorded != expected)
        return err_set(e, ERR_REFUSED, "%s is of step %llu, and the last row of train.csv of step %llu",
                       final_model, (unsigned long long)step, (unsigned long long)recorded);
    return 0;
}

/* Whether the last report may have been dropped, in a flood of lines or for a full journal. */
static bool may_lack_progress(const struct task *t)
{
    return t->lines.n_dropped > 0 || t->journal.end > JOURNAL_MAX_BYTES;
}

/* A worker reports its last step. */
static int check_progress(uint64_t step, const struct task *t, const struct asked *a, struct err *e)
{
    uint64_t seen = t->job.step;

    if (step <= a->first_step || (seen < step && may_lack_progress(t)) || seen == step)
        return 0;
    return err_set(e, ERR_REFUSED,
                   "%s is of step %llu, and step %llu was the last that its node has reported", final_model,
                   (unsigned long long)step, (unsigned long long)seen);
}

static int check_worker(const struct task *t, struct asked *a, char message[MESSAGE_MAX], struct err *e)
{
    uint64_t step = 0;

    if (read_asked(a, t, e) < 0 || check_model(&step, t, a, e) < 0)
        return e->code;
    if (step > a->n_steps || step < a->first_step)
        return err_set(e, ERR_REFUSED, "%s is of step %llu, and the job's are %llu to %llu", final_model,
                       (unsigned long long)step, (unsigned long long)a->first_step,
                       (unsigned long long)a->n_steps);
    if (check_records(step, t, a, e) < 0 || check_progress(step, t, a, e) < 0)
        return e->code;
    if (step == a->n_steps)
        snprintf(message, MESSAGE_MAX, "all %llu steps are done", (unsigned long long)step);
    else if (a->is_fed)
        snprintf(message, MESSAGE_MAX, "%llu of the job's %llu mini-batches are done here",
                 (unsigned long long)step, (unsigned long long)a->n_steps);
    else
        snprintf(message, MESSAGE_MAX, "%s after step %llu of %llu", stop_what(t->job.stopped.reason),
                 (unsigned long long)step, (unsigned long long)a->n_steps);
    return 0;
}

/* The host reports the last percent when the executor's function has returned. */
static int check_executor(const struct task *t, char message[MESSAGE_MAX], struct err *e)
{
    const struct job *j = &t->job;

    if ((j->steps == 0 || j->step != j->steps) && !may_lack_progress(t))
        return err_set(e, ERR_REFUSED, "its last progress is %llu of %llu, so its executor has not returned",
                       (unsigned long long)j->step, (unsigned long long)j->steps);
    snprintf(message, MESSAGE_MAX, "executor %s has returned", j->spec.codec);
    return 0;
}

static int check_node(const struct task *t, char message[MESSAGE_MAX], struct err *e)
{
    struct asked *a;
    int rc;

    if (check_files(t, e) < 0)
        return e->code;
    if (t->job.spec.executor)
        return check_executor(t, message, e);
    if (is_server_node(t)) {
        snprintf(message, MESSAGE_MAX, "all its workers have finished");
        return 0;
    }
    a = calloc(1, sizeof *a);
    if (!a)
        return err_set(e, ERR_NOMEM, "no memory for the model's description");
    rc = check_worker(t, a, message, e);
    model_spec_clear(&a->model);
    free(a);
    return rc;
}

int success_check(const struct task *t, char message[MESSAGE_MAX], struct err *e)
{
    if (check_node(t, message, e) == 0)
        return 0;
    if (e->code != ERR_NOMEM && e->code != ERR_IO)
        e->code = ERR_REFUSED; /* not found, not a plain file, not a model, ... */
    return err_at(e, "job_runner has reported success");
}
