/* A job as a run of MLflow, in the folders of its file store (mlflow/store/tracking/file_store.py):
 *
 *     DIR/EXPERIMENT/meta.yaml                 an experiment: the jobs of one data set and model
 *     DIR/EXPERIMENT/RUN/meta.yaml             a run: names, times, status
 *     DIR/EXPERIMENT/RUN/params/OPTION         an option of the job
 *     DIR/EXPERIMENT/RUN/metrics/TAG/NODE      lines of "milliseconds value step", of a curve (run_scalars)
 *     DIR/EXPERIMENT/RUN/metrics/NAME          its last values, one line
 *     DIR/EXPERIMENT/RUN/tags/NAME
 *     DIR/EXPERIMENT/RUN/artifacts/            run.json, the model, the records
 *
 * EXPERIMENT and RUN are digits of the SHA-256 of the experiment's name and of the job's id, so that
 * exporting a job again replaces its run. If DIR has an experiment of that name, the run is put there. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shared/base/clock.h"
#include "shared/base/crypto.h"
#include "shared/base/file.h"
#include "shared/base/json.h"
#include "shared/base/number.h"
#include "shared/job/job_state.h"
#include "shared/records/artifacts.h"
#include "submit/export/export.h"
#include "submit/files/appender.h"
#include "submit/files/untrusted_folder.h"
#include "submit/results/run.h"

enum { EXPERIMENT_DIGITS = 18, RUN_DIGITS = 32, META_MAX = 1 << 16, ARTIFACT_MAX = INT_MAX };
enum { STATUS_RUNNING = 1, STATUS_FINISHED = 3, STATUS_FAILED = 4, STATUS_KILLED = 5, SOURCE_LOCAL = 4 };

struct store {
    const char *folder; /* the folder of results */
    const json_t *run;
    char dir[PATH_MAX];
    char experiment[256], experiment_id[64], run_id[RUN_DIGITS + 1];
    char path[PATH_MAX]; /* the run's folder */
    struct appender curves;
};

/* YAML's double quotes have the escapes of JSON. */
static void put_text(FILE *f, const char *key, const char *text)
{
    json_t *v = json_text(text, SIZE_MAX);
    char *quoted = v ? json_dumps(v, JSON_ENCODE_ANY) : NULL;

    fprintf(f, "%s: %s\n", key, quoted ? quoted : "\"\"");
    free(quoted);
    json_decref(v);
}

static void put_number(FILE *f, const char *key, long long v)
{
    fprintf(f, "%s: %lld\n", key, v);
}

static long long ms(double seconds)
{
    return llround(seconds * 1000);
}

/* The time at which the last node ended; 0: unknown. */
static double run_end(const json_t *run)
{
    double last = 0, at;
    const json_t *n;
    size_t i;

    json_array_foreach(json_object_get(run, "nodes"), i, n)
    {
        if (clock_parse(&at, json_text_at(n, "finished_at")))
            last = fmax(last, at);
    }
    return last;
}

static int status(const json_t *run)
{
    static const struct {
        enum job_state state;
        int status;
    } known[] = {
        {JOB_SUCCEEDED, STATUS_FINISHED}, {JOB_FAILED, STATUS_FAILED}, {JOB_CANCELLED, STATUS_KILLED}};

    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(job_state_name(known[i].state), json_text_at(run, "state")) == 0)
            return known[i].status;
    return STATUS_RUNNING;
}

/* The file is not synced to the disk, because a job can be exported again. */
static int write_file(const char *dir, const char *name, const char *text, size_t len, struct err *e)
{
    char path[PATH_MAX], *slash;

    if (file_join(path, sizeof path, dir, name, e) < 0)
        return e->code;
    slash = strrchr(path, '/');
    *slash = '\0';
    if (file_mkdirs(path, 0777, e) < 0)
        return e->code;
    *slash = '/';
    return file_write_parts(path, &(struct iovec){(void *)(uintptr_t)text, len}, 1, 0666, false, e);
}

/* Writes meta.yaml with the text that `put` prints. */
static int write_meta(const struct store *s, const char *dir, void (*put)(FILE *f, const struct store *s),
                      struct err *e)
{
    char *text = NULL;
    size_t len = 0;
    FILE *f = open_memstream(&text, &len);
    int rc;

    if (!f)
        return err_set(e, ERR_NOMEM, "no memory for meta.yaml");
    put(f, s);
    rc = fclose(f) == 0 ? write_file(dir, "meta.yaml", text, len, e) : err_set(e, ERR_NOMEM, "no memory");
    free(text);
    return rc;
}

static void put_location(FILE *f, const char *key, const struct store *s, const char *more)
{
    char at[2 * PATH_MAX];

    snprintf(at, sizeof at, "file://%s/%s%s", s->dir, s->experiment_id, more);
    put_text(f, key, at);
}

static void put_experiment(FILE *f, const struct store *s)
{
    put_location(f, "artifact_location", s, "");
    put_number(f, "creation_time", ms(clock_wall()));
    put_text(f, "experiment_id", s->experiment_id);
    put_number(f, "last_update_time", ms(clock_wall()));
    put_text(f, "lifecycle_stage", "active");
    put_text(f, "name", s->experiment);
}

static void put_run(FILE *f, const struct store *s)
{
    char more[RUN_DIGITS + 16];
    double end = run_end(s->run), began = run_node_began(s->run, 0);
    const char *user = getenv("USER");

    snprintf(more, sizeof more, "/%s/artifacts", s->run_id);
    put_location(f, "artifact_uri", s, more);
    if (end > 0)
        put_number(f, "end_time", ms(end));
    else
        fputs("end_time: null\n", f);
    put_text(f, "entry_point_name", "");
    put_text(f, "experiment_id", s->experiment_id);
    put_text(f, "lifecycle_stage", "active");
    put_text(f, "run_id", s->run_id);
    put_text(f, "run_name", json_text_at(s->run, "name"));
    put_text(f, "run_uuid", s->run_id);
    put_text(f, "source_name", "job_submit");
    put_number(f, "source_type", SOURCE_LOCAL);
    put_text(f, "source_version", "");
    put_number(f, "start_time", ms(began));
    put_number(f, "status", status(s->run));
    fputs("tags: []\n", f);
    put_text(f, "user_id", user ? user : "");
}

/* Is this the meta.yaml of an experiment of that name? MLflow writes names with or without quotes. */
static bool is_meta_of(const char *path, const char *name)
{
    struct err ignored;
    char *text = NULL, *line, *rest;
    bool is = false;
    size_t len;

    if (file_read(&text, &len, path, META_MAX, &ignored) < 0)
        return false;
    for (line = strtok_r(text, "\n", &rest); line && !is; line = strtok_r(NULL, "\n", &rest))
        if (strncmp(line, "name: ", 6) == 0) {
            size_t n = strlen(name), quoted = strchr("'\"", line[6]) ? 1 : 0;

            is = strncmp(line + 6 + quoted, name, n) == 0 && strlen(line + 6) == n + 2 * quoted;
        }
    free(text);
    return is;
}

/* Finds the experiment of that name in DIR, if there is one. */
static bool find_experiment(struct store *s)
{
    DIR *d = opendir(s->dir);
    const struct dirent *entry;
    char path[PATH_MAX];
    bool found = false;

    while (d && !found && (entry = readdir(d)))
        if (isdigit((unsigned char)entry->d_name[0]) && strlen(entry->d_name) < sizeof s->experiment_id &&
            snprintf(path, sizeof path, "%s/%s/meta.yaml", s->dir, entry->d_name) < (int)sizeof path &&
            is_meta_of(path, s->experiment)) {
            strcpy(s->experiment_id, entry->d_name);
            found = true;
        }
    if (d)
        closedir(d);
    return found;
}

/* 18 decimal digits, as MLflow's own ids. */
static void make_experiment_id(struct store *s)
{
    char hex[SHA256_HEX];
    unsigned long long v;

    sha256_hex(hex, s->experiment, strlen(s->experiment));
    hex[15] = '\0';
    v = strtoull(hex, NULL, 16) % 900000000000000000ULL + 100000000000000000ULL;
    snprintf(s->experiment_id, EXPERIMENT_DIGITS + 1, "%llu", v);
}

static int open_run(struct store *s, struct err *e)
{
    const char *set = json_text_at(json_object_get(s->run, "settings"), "dataset");
    const char *model = json_text_at(json_object_get(json_object_get(s->run, "facts"), "model"), "name");
    const char *id = json_text_at(s->run, "id");
    char hex[SHA256_HEX], path[PATH_MAX];

    if (!id[0])
        return err_set(e, ERR_CONFIG, "run.json has no id of a job");
    if (model[0])
        snprintf(s->experiment, sizeof s->experiment, "%.*s%s%.100s", (int)strcspn(set, ":"), set,
                 set[0] ? " " : "", model);
    else
        strcpy(s->experiment, "executors");
    sha256_hex(hex, id, strlen(id));
    snprintf(s->run_id, sizeof s->run_id, "%.*s", RUN_DIGITS, hex);
    if (!find_experiment(s)) {
        make_experiment_id(s);
        if (file_join(path, sizeof path, s->dir, s->experiment_id, e) < 0 ||
            write_meta(s, path, put_experiment, e) < 0)
            return e->code;
    }
    if (snprintf(s->path, sizeof s->path, "%s/%s/%s", s->dir, s->experiment_id, s->run_id) >=
        (int)sizeof s->path)
        return err_set(e, ERR_CONFIG, "%s: the name is too long", s->dir);
    return write_meta(s, s->path, put_run, e);
}

static bool is_name(const char *text)
{
    return text[0] && strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789_-") == strlen(text);
}

static int write_params(const struct store *s, struct err *e)
{
    json_t *options = json_object_get(json_object_get(s->run, "facts"), "options"), *v;
    const char *name;
    char path[300];

    json_object_foreach(options, name, v)
    {
        const char *text = json_string_value(v);

        if (!text || !is_name(name) || snprintf(path, sizeof path, "params/%s", name) >= (int)sizeof path)
            continue;
        if (write_file(s->path, path, text, strlen(text), e) < 0)
            return e->code;
    }
    return 0;
}

static int write_tags(const struct store *s, struct err *e)
{
    const struct {
        const char *name, *text;
    } tags[] = {{"tags/mlflow.runName", json_text_at(s->run, "name")},
                {"tags/mlflow.source.name", "job_submit"},
                {"tags/mlflow.source.type", "LOCAL"},
                {"tags/psgd.job", json_text_at(s->run, "id")},
                {"tags/psgd.state", json_text_at(s->run, "state")},
                {"tags/psgd.folder", json_text_at(s->run, "folder")},
                {"tags/psgd.version", json_text_at(json_object_get(s->run, "versions"), "psgd")}};

    for (size_t i = 0; i < sizeof tags / sizeof *tags; i++)
        if (tags[i].text[0] && write_file(s->path, tags[i].name, tags[i].text, strlen(tags[i].text), e) < 0)
            return e->code;
    return 0;
}

static int put_curves(const struct scalars *row, void *with, struct err *e)
{
    struct store *s = with;
    char path[PATH_MAX], node[RUN_NODE_NAME];
    double at = run_node_began(s->run, row->node) + row->time_s;
    bool is_new;
    FILE *f;

    run_node_name(node, row->node);
    for (size_t i = 0; i < row->n; i++) {
        if (snprintf(path, sizeof path, "%s/metrics/%s/%s", s->path, row->at[i].tag, node) >=
            (int)sizeof path)
            return err_set(e, ERR_CONFIG, "%s: the name is too long", s->dir);
        if (appender_file(&s->curves, &f, &is_new, path, e) < 0)
            return e->code;
        fprintf(f, "%lld %.9g %llu\n", ms(at), row->at[i].value, (unsigned long long)row->step);
    }
    return 0;
}

/* The job's last values, which MLflow shows in the table of runs. */
static int write_last(const struct store *s, struct err *e)
{
    const json_t *means = json_object_get(s->run, "mean_over_workers"),
                 *comm = json_object_get(s->run, "comm");
    const struct {
        const char *name;
        const json_t *v;
    } last[] = {{"metrics/loss", json_object_get(means, "eval_loss")},
                {"metrics/accuracy", json_object_get(means, "eval_accuracy")},
                {"metrics/sent_bytes", json_object_get(comm, "sent_bytes")},
                {"metrics/recv_bytes", json_object_get(comm, "recv_bytes")}};
    double end = run_end(s->run);
    char line[80], number[NUMBER_TEXT_MAX];

    for (size_t i = 0; i < sizeof last / sizeof *last; i++) {
        if (!json_is_number(last[i].v))
            continue;
        snprintf(line, sizeof line, "%lld %s 0\n", ms(end > 0 ? end : run_node_began(s->run, 0)),
                 number_text(number, json_number_value(last[i].v)));
        if (write_file(s->path, last[i].name, line, strlen(line), e) < 0)
            return e->code;
    }
    return 0;
}

static int write_metrics(struct store *s, struct err *e)
{
    int rc = appender_end(&s->curves, run_scalars(s->folder, put_curves, s, e), e);

    return rc < 0 ? rc : write_last(s, e);
}

/* Copies a regular file, but no link: in another user's folder a link could lead to any file of this user. */
static int copy_artifact(const struct store *s, int dir, const char *name, struct err *e)
{
    char to[PATH_MAX], *bytes;
    uint64_t size;
    size_t len;
    int fd, rc;

    if (untrusted_file(&fd, &size, dir, name, e) < 0)
        return e->code == ERR_NOT_FOUND ? 0 : e->code;
    close(fd);
    if (size > ARTIFACT_MAX)
        return err_set(e, ERR_CONFIG, "%s/%s has more than %d bytes", s->folder, name, ARTIFACT_MAX);
    if (untrusted_text(&bytes, &len, dir, name, ARTIFACT_MAX, e) < 0)
        return err_at(e, "%s", s->folder);
    rc = file_join(to, sizeof to, "artifacts", name, e) < 0 ? e->code
                                                            : write_file(s->path, to, bytes, len, e);
    free(bytes);
    return rc;
}

static int copy_artifacts(const struct store *s, struct err *e)
{
    int dir, rc;

    if (untrusted_open(&dir, s->folder, e) < 0)
        return e->code;
    rc = copy_artifact(s, dir, "run.json", e);
    for (int i = 0; i < N_ARTIFACTS && rc == 0; i++)
        if (artifacts[i].kind == ARTIFACT_IS_RECORDS || artifacts[i].kind == ARTIFACT_IS_MODEL)
            rc = copy_artifact(s, dir, artifacts[i].path, e);
    close(dir);
    return rc;
}

int mlflow_write(char out[PATH_MAX], const char *folder, const json_t *run, const char *dir, struct err *e)
{
    struct store s = {.folder = folder, .run = run};

    if (file_absolute(s.dir, sizeof s.dir, dir, e) < 0 || open_run(&s, e) < 0 || write_params(&s, e) < 0 ||
        write_tags(&s, e) < 0 || write_metrics(&s, e) < 0 || copy_artifacts(&s, e) < 0)
        return e->code;
    memcpy(out, s.path, sizeof s.path);
    return 0;
}
