#include "submit/results/run.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shared/base/clock.h"
#include "shared/base/file.h"
#include "shared/base/json.h"
#include "shared/base/utf8.h"
#include "submit/files/run_file.h"
#include "submit/files/untrusted_folder.h"
#include "submit/results/job_index.h"

/* Finds a job of the index; a later job may have replaced the results in its folder. */
static int find_job(struct run *r, const char *id, struct err *e)
{
    json_t *record;
    int rc;

    if (job_index_read(&record, id, e) < 0)
        return e->code == ERR_NOT_FOUND && id ? err_at(e, "%s is no folder", id) : e->code;
    rc = file_absolute(r->folder, sizeof r->folder, json_text_at(record, "folder"), e);
    if (rc == 0)
        rc = run_file_read(&r->doc, r->folder, e);
    if (rc == 0 && strcmp(json_text_at(r->doc, "id"), json_text_at(record, "id")) != 0)
        rc = err_set(e, ERR_NOT_FOUND, "%s has the results of another job than %s", r->folder,
                     json_text_at(record, "id"));
    if (rc < 0 && e->code == ERR_NOT_FOUND)
        err_hint(e, "job_submit fetch %s gets what its agents still have.", json_text_at(record, "id"));
    json_decref(record);
    return rc;
}

int run_find(struct run *r, const char *name, struct err *e)
{
    int rc;

    *r = (struct run){0};
    if (!name || access(name, F_OK) < 0)
        rc = find_job(r, name, e);
    else if (file_absolute(r->folder, sizeof r->folder, name, e) < 0 ||
             run_file_read(&r->doc, r->folder, e) < 0)
        rc = e->code == ERR_NOT_FOUND ? err_hint(e, "A run is the folder of a job's results, or a job's id.")
                                      : e->code;
    else
        rc = 0;
    if (rc == 0 && !json_text_at(r->doc, "id")[0])
        rc = err_set(e, ERR_CONFIG, "%s/run.json: no id: it is not that of a job", r->folder);
    if (rc < 0)
        run_clear(r);
    return rc;
}

static bool is_among(const struct run *runs, size_t n, const struct run *r)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(json_text_at(runs[i].doc, "id"), json_text_at(r->doc, "id")) == 0)
            return true;
    return false;
}

int runs_find(struct run **out, size_t *n_out, const char *const *names, size_t n, struct err *e)
{
    struct run *runs = calloc(n ? n : 1, sizeof *runs);
    size_t found = 0;

    if (!runs)
        return err_set(e, ERR_NOMEM, "no memory for %zu runs", n);
    for (size_t i = 0; i < n; i++) {
        if (run_find(&runs[found], names[i], e) < 0) {
            runs_free(runs, found);
            return e->code;
        }
        if (is_among(runs, found, &runs[found]))
            run_clear(&runs[found]);
        else
            found++;
    }
    *out = runs;
    *n_out = found;
    return 0;
}

void run_clear(struct run *r)
{
    json_decref(r->doc);
    *r = (struct run){0};
}

void runs_free(struct run *runs, size_t n)
{
    for (size_t i = 0; runs && i < n; i++)
        run_clear(&runs[i]);
    free(runs);
}

/* Appends as many characters as fit to a text of *n. */
static void append_label(char *out, size_t size, size_t *n, const char *before, const char *text)
{
    int len = *n < size ? snprintf(out + *n, size - *n, "%s%s", before, text) : 0;

    *n += len > 0 ? (size_t)len : 0;
}

const char *run_labels(char *out, size_t size, const json_t *facts)
{
    const char *note = json_text_at(facts, "note");
    const json_t *tag;
    size_t i, n = 0;

    out[0] = '\0';
    json_array_foreach(json_object_get(facts, "tags"), i, tag) if (json_is_string(tag))
        append_label(out, size, &n, n ? " #" : "#", json_string_value(tag));
    if (note[0])
        append_label(out, size, &n, n ? "  " : "", note);
    utf8_clean(out, strlen(out), false);
    return out;
}

/* Opens a file of the folder. If the file is missing: *fd is -1, `e` says so, and the result is 0. */
static int open_records(int *fd, const char *folder, const char *path, struct err *e)
{
    uint64_t bytes;
    int dir, rc;

    if (untrusted_open(&dir, folder, e) < 0)
        return e->code;
    rc = untrusted_file(fd, &bytes, dir, path, e);
    close(dir);
    if (rc >= 0)
        return 0;
    *fd = -1;
    err_at(e, "%s", folder);
    return rc == ERR_NOT_FOUND ? 0 : rc;
}

int run_rows(const char *folder, const struct artifact *a,
             int (*row)(void *ctx, const struct record_text *cells, struct err *e), void *ctx, struct err *e)
{
    const char *columns[RECORD_COLUMNS_MAX];
    const size_t n = artifact_columns(columns, a);
    char path[PATH_MAX];
    int fd, rc;

    if (file_join(path, sizeof path, folder, a->path, e) < 0 || open_records(&fd, folder, a->path, e) < 0)
        return e->code;
    if (fd < 0)
        return 0;
    rc = record_scan_file(&(struct record_scan){.what = path,
                                                .columns = columns,
                                                .n = n,
                                                .needed = (uint32_t)1 << artifact_column(a, "node"),
                                                .is_strict = true,
                                                .row = row,
                                                .ctx = ctx},
                          fd, e);
    close(fd);
    return rc;
}

double run_number(const struct record_text *cell)
{
    double v = record_number(cell);

    return v == RECORD_MISSING ? NAN : v;
}

int run_series_write(FILE *out, const char *folder, const struct series_request *r, struct err *e)
{
    const char *path = artifacts[r->file].path;
    struct series *s = NULL;
    int fd, rc;

    if (open_records(&fd, folder, path, e) < 0 || fd < 0)
        return e->code;
    rc = series_new(&s, r, e) < 0 || series_read(s, fd, path, e) < 0 || series_write(out, s, e) < 0
             ? err_at(e, "%s", folder)
             : 0;
    series_free(s);
    close(fd);
    return rc;
}

int run_series(json_t **out, const char *folder, const struct series_request *r, struct err *e)
{
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    int rc;

    if (!f)
        return err_set(e, ERR_NOMEM, "no memory for the series");
    rc = run_series_write(f, folder, r, e);
    if (fclose(f) != 0 && rc == 0)
        rc = err_set(e, ERR_NOMEM, "no memory for the series");
    if (rc == 0)
        rc = json_parse(out, text, size, "series", e);
    free(text);
    return rc;
}

void run_series_each(const json_t *node, const char *name, void (*point)(void *ctx, double x, double y),
                     void *ctx)
{
    const json_t *x = json_object_get(node, "x"), *y = json_object_get(node, name);

    for (size_t i = 0; i < json_array_size(x) && i < json_array_size(y); i++)
        if (json_is_number(json_array_get(x, i)) && json_is_number(json_array_get(y, i)))
            point(ctx, json_number_value(json_array_get(x, i)), json_number_value(json_array_get(y, i)));
}

/* A CSV file and its columns with values. A value is named after its column, or, if the file has a column of
 * names, by that column. */
struct scalar_source {
    enum artifact_id from;
    const char *tag;                      /* put before the value's name */
    const char *columns[SCALARS_MAX + 1]; /* end with NULL */
    const char *name;                     /* the column of names; NULL: none */
};

static const struct scalar_source sources[] = {
    {ARTIFACT_TRAIN,
     "train",
     {"loss", "accuracy", "lr", "grad_norm", "compute_s", "wait_s", "sent_bytes", "recv_bytes"},
     NULL},
    {ARTIFACT_EVAL,
     "eval",
     {"loss", "accuracy", "sent_bytes_total", "recv_bytes_total", "perplexity", "bits_per_byte"},
     NULL},
    {ARTIFACT_METRICS, "eval", {"value"}, "metric"},
    {ARTIFACT_CODEC_RECORDS, "codec", {"value"}, "name"},
};

struct scalar_reading {
    const struct scalar_source *source;
    const struct artifact *a;
    run_scalars_use *use;
    void *with;
};

static const struct record_text *cell_of(const struct scalar_reading *r, const struct record_text *cells,
                                         const char *name)
{
    return &cells[artifact_column(r->a, name)];
}

/* Tags become parts of file names, and a codec may choose a value's name: characters with a meaning in paths,
 * and a leading dot, are replaced. */
static void put_tag(char out[SCALAR_TAG], const char *before, const char *name, size_t len)
{
    size_t n = (size_t)snprintf(out, SCALAR_TAG, "%s/", before);

    for (size_t i = 0; i < len && n < SCALAR_TAG - 1; i++) {
        bool is_plain = isalnum((unsigned char)name[i]) || strchr("-_ ", name[i]) ||
                        (name[i] == '.' && i > 0);

        out[n++] = (char)(is_plain ? name[i] : '_');
    }
    out[n] = '\0';
}

static int take_row(void *with, const struct record_text *cells, struct err *e)
{
    const struct scalar_reading *r = with;
    const struct record_text *name = r->source->name ? cell_of(r, cells, r->source->name) : NULL;
    struct scalars s = {.node = (int)strtol(cell_of(r, cells, "node")->text, NULL, 10),
                        .step = strtoull(cell_of(r, cells, "step")->text, NULL, 10),
                        .time_s = run_number(cell_of(r, cells, "time_s"))};

    for (const char *const *column = r->source->columns; *column; column++) {
        const struct record_text *c = cell_of(r, cells, *column);

        if (c->len == 0)
            continue;
        put_tag(s.at[s.n].tag, r->source->tag, name ? name->text : *column,
                name ? name->len : strlen(*column));
        s.at[s.n++].value = run_number(c);
    }
    return s.n > 0 && isfinite(s.time_s) ? r->use(&s, r->with, e) : 0;
}

int run_scalars(const char *folder, run_scalars_use *use, void *with, struct err *e)
{
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
        struct scalar_reading r = {&sources[i], &artifacts[sources[i].from], use, with};

        if (run_rows(folder, r.a, take_row, &r, e) < 0)
            return e->code;
    }
    return 0;
}

const char *run_node_name(char out[RUN_NODE_NAME], int node)
{
    snprintf(out, RUN_NODE_NAME, node < 0 ? "ps-%d" : "worker-%d", node < 0 ? -2 - node : node);
    return out;
}

static bool read_time(double *out, const json_t *o, const char *key)
{
    const char *text = json_string_value(json_object_get(o, key));

    return text && clock_parse(out, text);
}

double run_node_began(const json_t *run, int node)
{
    const json_t *n;
    double at;
    size_t i;

    json_array_foreach(json_object_get(run, "nodes"), i, n)
    {
        const json_t *number = json_object_get(n, "node");

        if (json_is_integer(number) && json_integer_value(number) == node && read_time(&at, n, "started_at"))
            return at;
    }
    return read_time(&at, run, "submitted_at") ? at : 0;
}
