#include "submit/compat/classic/classic.h"

#include <ctype.h>
#include <libgen.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "shared/base/clock.h"
#include "shared/base/file.h"
#include "shared/records/artifacts.h"
#include "shared/records/record.h"
#include "submit/codecs/codec_find.h"
#include "submit/files/appender.h"
#include "submit/options/options_table.h"
#include "submit/results/run.h"
#include "submit/terminal/console.h"
#include "submit/terminal/text.h"

enum { CLASSIC_COLUMNS = 8, CLASSIC_NAME = 256, CLASSIC_CELL = 32, COPY_MAX = INT_MAX };

/* Names of files and parts of lines. In them stand for values: {n} the number of workers, {r} the redundancy,
 * {id} the node, {epoch}, {name} of the job, {codec} a letter for each dense layer, {time} and {date} of the
 * start, local as in Parallel-SGD. */
struct style {
    const char *name;
    struct csv {
        enum artifact_id from;
        const char *file, *header, *columns[CLASSIC_COLUMNS]; /* of `from`; end with NULL */
    } csv[2];
    const char *model;                            /* NULL: none */
    const char *log, *title, *epoch, *submit_log; /* a line begins with the title, and the epoch within one */
    const char *colon;                            /* between the time and the text of a line */
};

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

/* NULL: psgd's own style, tidy. */
static const struct style *find_style(const char *name)
{
    for (size_t i = 0; i < sizeof styles / sizeof *styles; i++)
        if (strcmp(styles[i].name, name) == 0)
            return &styles[i];
    return NULL;
}

/* What Parallel-SGD prints. */

/* The options that Parallel-SGD prints at the start of a job, in its words and order. */
static const struct {
    size_t offset;
    const char *words;
} echoed[] = {
    {offsetof(struct options, settings.node_count), "node count"},
    {offsetof(struct options, settings.batch_size), "batch size"},
    {offsetof(struct options, settings.redundancy), "r"},
    {offsetof(struct options, codec), "communication codec and protocol"},
    {offsetof(struct options, optimizer), "optimizer for model training"},
    {offsetof(struct options, settings.sync), "parallel stochastic gradient descent synchronization type"},
    {offsetof(struct options, settings.learn_rate), "learn rate for GD algorithm"},
    {offsetof(struct options, settings.epochs), "training epochs"},
    {offsetof(struct options, block_assignment), "block assignment strategy"},
    {offsetof(struct options, server_codec), "parameter server codec"},
};

static const struct args_option *find_option(size_t offset)
{
    for (int i = 0; i < options_table.n; i++)
        if (options_table.options[i].offset == offset)
            return &options_table.options[i];
    return NULL;
}

void classic_echo(const struct options *o)
{
    if (strcmp(o->csv_style, "tidy") == 0)
        return;
    for (size_t i = 0; i < sizeof echoed / sizeof *echoed; i++) {
        const struct args_option *t = find_option(echoed[i].offset);
        char name[ARGS_NAME], value[PATH_MAX];

        args_name(name, t);
        args_text(value, sizeof value, t, o);
        console_info("\t --%s <%s %s>", name, echoed[i].words, value[0] ? value : "null");
    }
}

/* Names of files, and the values in them. */

/* A job's files while they are written. The rows of a CSV file of the results are grouped by node; a job of
 * several attempts has several groups of a node, of which the later ones are appended. All files get their
 * names when all are written, so each is complete or as it was before. */
struct classic {
    const struct submission *s;
    const json_t *run; /* run.json */
    const struct style *style;
    const char *letters; /* for {codec} */
    bool *is_begun;      /* (node_count): the node has a file of the kind being written */
    struct appender files;
    FILE *f; /* of `files`: the file of `node`; NULL: none was chosen */
    int node;
};

/* The first letter of the class, as in Parallel-SGD (--codec MODULE.CLASS), or of the file's name in a
 * path. */
static char letter_of(const char *codec, const char *name)
{
    const char *dot = codec && !find_is_path(codec) ? strchr(codec, '.') : NULL;
    const char *colon = codec ? strchr(codec, ':') : NULL, *slash = strrchr(name, '/');

    if (dot && (!colon || dot < colon) && isalnum((unsigned char)dot[1]))
        return dot[1];
    return slash ? slash[1] : name[0];
}

/* A letter for each layer: of the codecs of a list, in the order of the model, or of the one codec. */
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

static const char *format_time(char *out, size_t size, const char *format, double wall)
{
    time_t t = (time_t)wall;
    struct tm tm;

    localtime_r(&t, &tm);
    if (strftime(out, size, format, &tm) == 0)
        out[0] = '\0';
    return out;
}

/* The node's object in run.json. */
static const json_t *node_of(const struct classic *c, int node)
{
    return json_array_get(json_object_get(c->run, "nodes"), (size_t)node);
}

/* The start of the node in seconds since 1970. */
static double start_of(const struct classic *c, int node)
{
    const char *text = json_string_value(json_object_get(node_of(c, node), "started_at"));
    double t;

    return text && clock_parse(&t, text) ? t : c->s->submitted_at;
}

/* The value of a name in braces. */
static void put_value(char *out, size_t size, const struct classic *c, const char *name, int node,
                      double wall, const char *epoch)
{
    const struct settings *set = &c->s->settings;
    const struct {
        const char *name;
        int number;
    } numbers[] = {{"{n}", set->node_count}, {"{r}", set->redundancy}, {"{id}", node}};

    out[0] = '\0';
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (strcmp(name, numbers[i].name) == 0)
            snprintf(out, size, "%d", numbers[i].number);
    if (strcmp(name, "{epoch}") == 0)
        snprintf(out, size, "%s", epoch);
    if (strcmp(name, "{name}") == 0)
        snprintf(out, size, "%s", set->name);
    if (strcmp(name, "{time}") == 0)
        format_time(out, size, "%H-%M-%S", wall);
    if (strcmp(name, "{date}") == 0)
        format_time(out, size, "%Y-%m-%d %H%M", wall);
    if (strcmp(name, "{codec}") == 0)
        snprintf(out, size, "%s", c->letters);
}

/* out: the form with values instead of the names in braces. */
static void fill_form(char out[CLASSIC_NAME], const char *form, const struct classic *c, int node,
                      double wall, const char *epoch)
{
    char name[16], text[80];
    size_t n = 0;

    while (*form && n < CLASSIC_NAME - 1) {
        size_t len = *form == '{' ? strcspn(form, "}") + 1 : 0;

        if (len == 0) {
            out[n++] = *form++;
            continue;
        }
        snprintf(name, sizeof name, "%.*s", (int)len, form);
        put_value(text, sizeof text, c, name, node, wall, epoch);
        n += (size_t)snprintf(out + n, CLASSIC_NAME - n, "%s", text);
        form += len;
    }
    out[n < CLASSIC_NAME ? n : CLASSIC_NAME - 1] = '\0';
}

/* CSV files. */

/* Makes c->f the node's file of this form. *is_new: it is empty. ERR_IO. */
static int choose_file(struct classic *c, bool *is_new, const char *form, int node, struct err *e)
{
    char name[CLASSIC_NAME];

    *is_new = false;
    if (c->f && c->node == node)
        return 0;
    fill_form(name, form, c, node, start_of(c, node), "");
    if (appender_file(&c->files, &c->f, is_new, name, e) < 0)
        return e->code;
    if (*is_new)
        console_info("Restoring data (%s) from %d.", name, node);
    c->is_begun[node] = true;
    c->node = node;
    return 0;
}

typedef int row_use(struct classic *c, int node, const struct record_text *cells, void *with, struct err *e);

struct row_reading {
    struct classic *c;
    row_use *use;
    void *with;
    size_t node; /* its column */
};

static int use_row(void *with, const struct record_text *cells, struct err *e)
{
    const struct row_reading *w = with;
    long node = strtol(cells[w->node].text, NULL, 10);

    if (!isdigit((unsigned char)cells[w->node].text[0]) || node >= w->c->s->settings.node_count)
        return 0;
    return w->use(w->c, (int)node, cells, w->with, e);
}

/* Calls `use` with each row of a worker in a CSV file of the results. A missing file has no rows. */
static int each_row(struct classic *c, enum artifact_id id, row_use *use, void *with, struct err *e)
{
    struct row_reading w = {c, use, with, artifact_column(&artifacts[id], "node")};

    return run_rows(c->s->folder, &artifacts[id], use_row, &w, e);
}

static int put_row(struct classic *c, int node, const struct record_text *cells, void *with, struct err *e)
{
    const struct csv *csv = with;
    bool is_new;

    if (choose_file(c, &is_new, csv->file, node, e) < 0)
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
    if (each_row(c, csv->from, put_row, (void *)(uintptr_t)csv, e) < 0)
        return e->code;
    c->f = NULL;
    return 0;
}

/* Copies: models, and the log of job_submit. */

/* Copies a file of the results, if it is there. */
static int copy_file(const struct classic *c, const char *from, const char *form, int node, double wall,
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
    fill_form(name, form, c, node, wall, "");
    memcpy(folder, name, sizeof folder);
    rc = file_mkdirs(dirname(folder), 0777, e);
    if (rc == 0)
        rc = file_write_parts(name, &(struct iovec){bytes, len}, 1, 0666, false, e);
    free(bytes);
    if (rc == 0 && node >= 0)
        console_info("Restoring data (%s) from %d.", name, node);
    return rc;
}

/* The final model for each worker that ended with it. psgd keeps one worker's. */
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
        const char *own = json_string_value(json_object_get(node_of(c, node), "model_sha256"));

        if (own && strcmp(own, kept) == 0 &&
            copy_file(c, path, c->style->model, node, start_of(c, node), e) < 0)
            return e->code;
    }
    return 0;
}

/* Training logs. */

/* Parallel-SGD's check list of a node before training: the name of each item, and its place in run.json. */
static const struct {
    const char *name, *at[2];
} check_list[] = {
    {"Optimizer", {"settings", "gradient_descent"}},
    {"Model", {"facts", "model"}},
    {"Dataset", {"facts", "data"}},
    {"Others", {"settings", "epochs"}},
    {"Transfer", {"facts", "codec"}},
    {"Batch Iterator", {"settings", "batch_size"}},
    {"Settings", {"settings", "node_count"}},
    {"Extra Parameters", {"settings", "codec_options"}},
};

/* One row of eval.csv. */
struct evaluation {
    int node;
    uint64_t step;
    double time_s;
    char epoch[CLASSIC_CELL], loss[CLASSIC_CELL], accuracy[CLASSIC_CELL];
};

struct evaluations {
    struct evaluation *rows; /* by node and step */
    size_t n, size;
    size_t *next; /* (node_count): the first row that is not in the log yet */
};

static void put_line(struct classic *c, double time_s, const char *epoch, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
static void put_line(struct classic *c, double time_s, const char *epoch, const char *fmt, ...)
{
    double wall = start_of(c, c->node) + time_s;
    char title[CLASSIC_NAME], of_epoch[CLASSIC_NAME] = "", hour[TEXT_AMOUNT];
    va_list ap;

    fill_form(title, c->style->title, c, c->node, wall, "");
    if (epoch[0])
        fill_form(of_epoch, c->style->epoch, c, c->node, wall, epoch);
    fprintf(c->f, "INFO %s%s@%s%s", title, of_epoch, text_hour(hour, wall), c->style->colon);
    va_start(ap, fmt);
    vfprintf(c->f, fmt, ap);
    va_end(ap);
    fputc('\n', c->f);
}

static bool has_check(const struct classic *c, size_t i)
{
    const json_t *v = json_object_get(json_object_get(c->run, check_list[i].at[0]), check_list[i].at[1]);

    return v && !json_is_null(v);
}

static void put_check_list(struct classic *c)
{
    bool is_ready = true;

    for (size_t i = 0; i < sizeof check_list / sizeof *check_list; i++)
        is_ready &= has_check(c, i);
    put_line(c, 0, "", "Ready:%s \n\t Check List:", is_ready ? "True" : "False");
    for (size_t i = 0; i < sizeof check_list / sizeof *check_list; i++)
        fprintf(c->f, "\t\t--> %s:%s\n", check_list[i].name, has_check(c, i) ? "OK" : "ABSENT");
}

static void copy_cell(char out[CLASSIC_CELL], const struct record_text *cell)
{
    snprintf(out, CLASSIC_CELL, "%.*s", (int)cell->len, cell->text);
}

static int take_evaluation(struct classic *c, int node, const struct record_text *cells, void *with,
                           struct err *e)
{
    const struct artifact *a = &artifacts[ARTIFACT_EVAL];
    struct evaluations *all = with;
    struct evaluation *row;

    (void)c;
    if (all->n == all->size) {
        size_t size = all->size ? 2 * all->size : 64;

        row = realloc(all->rows, size * sizeof *row);
        if (!row)
            return err_set(e, ERR_NOMEM, "no memory for %zu evaluations", size);
        all->rows = row;
        all->size = size;
    }
    row = &all->rows[all->n++];
    *row = (struct evaluation){.node = node,
                               .step = strtoull(cells[artifact_column(a, "step")].text, NULL, 10),
                               .time_s = strtod(cells[artifact_column(a, "time_s")].text, NULL)};
    copy_cell(row->epoch, &cells[artifact_column(a, "epoch")]);
    copy_cell(row->loss, &cells[artifact_column(a, "loss")]);
    copy_cell(row->accuracy, &cells[artifact_column(a, "accuracy")]);
    return 0;
}

static int compare_evaluations(const void *a, const void *b)
{
    const struct evaluation *x = a, *y = b;

    if (x->node != y->node)
        return x->node < y->node ? -1 : 1;
    return (x->step > y->step) - (x->step < y->step);
}

/* The evaluations of c->node before `step`. */
static void put_evaluations(struct classic *c, struct evaluations *all, uint64_t step)
{
    size_t *next = &all->next[c->node];

    for (; *next < all->n && all->rows[*next].node == c->node && all->rows[*next].step < step; ++*next) {
        const struct evaluation *row = &all->rows[*next];

        put_line(c, row->time_s, row->epoch, "Evaluate result: {'Loss': %s%s%s}", row->loss,
                 row->accuracy[0] ? ", 'accuracy': " : "", row->accuracy);
    }
}

static int log_row(struct classic *c, int node, const struct record_text *cells, void *with, struct err *e)
{
    static const struct {
        const char *name, *column;
        bool is_float;
    } parts[] = {{"Epochs", "epoch", false}, {"Batches", "batch", false}, {"in", "batches", false},
                 {"Total", "step", false},   {"Loss", "loss", true},      {"accuracy", "accuracy", true}};
    const struct artifact *a = &artifacts[ARTIFACT_TRAIN];
    char text[160], epoch[CLASSIC_CELL];
    size_t n = 0;
    bool is_new;

    if (choose_file(c, &is_new, c->style->log, node, e) < 0)
        return e->code;
    if (is_new)
        put_check_list(c);
    copy_cell(epoch, &cells[artifact_column(a, "epoch")]);
    put_evaluations(c, with, strtoull(cells[artifact_column(a, "step")].text, NULL, 10));
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const struct record_text *cell = &cells[artifact_column(a, parts[i].column)];
        char number[CLASSIC_CELL];

        if (cell->len == 0)
            continue;
        if (parts[i].is_float)
            snprintf(number, sizeof number, fabs(strtod(cell->text, NULL)) < 1e15 ? "%.4f" : "%.4g",
                     strtod(cell->text, NULL));
        else
            copy_cell(number, cell);
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%s:%s", n > 0 ? ", " : "", parts[i].name, number);
    }
    put_line(c, strtod(cells[artifact_column(a, "time_s")].text, NULL), epoch, "%s", text);
    return 0;
}

/* The evaluations after the last row of each node, and the totals. */
static int end_logs(struct classic *c, struct evaluations *all, struct err *e)
{
    bool is_new;

    for (int node = 0; node < c->s->settings.node_count; node++) {
        const json_t *o = node_of(c, node);
        double time_s = json_number_value(json_object_get(o, "elapsed_s"));

        if (!c->is_begun[node])
            continue;
        if (choose_file(c, &is_new, c->style->log, node, e) < 0)
            return e->code;
        put_evaluations(c, all, UINT64_MAX);
        put_line(c, time_s, "", "Execution complete, time: %.3f.", time_s);
        put_line(c, time_s, "", "Execution complete, Total bytes sent: %" JSON_INTEGER_FORMAT ".",
                 json_integer_value(json_object_get(o, "sent_bytes")));
        put_line(c, time_s, "", "Execution complete, Total bytes read: %" JSON_INTEGER_FORMAT ".",
                 json_integer_value(json_object_get(o, "recv_bytes")));
    }
    c->f = NULL;
    return 0;
}

/* The training log of each worker: its check list, a line for each recorded step and evaluation, its
 * totals. */
static int write_logs(struct classic *c, struct err *e)
{
    size_t n_nodes = (size_t)c->s->settings.node_count;
    struct evaluations all = {.next = calloc(n_nodes, sizeof *all.next)};
    int rc = all.next ? 0 : err_set(e, ERR_NOMEM, "no memory for %zu nodes", n_nodes);

    memset(c->is_begun, 0, n_nodes * sizeof *c->is_begun);
    if (rc == 0)
        rc = each_row(c, ARTIFACT_EVAL, take_evaluation, &all, e);
    if (rc == 0 && all.n > 0)
        qsort(all.rows, all.n, sizeof *all.rows, compare_evaluations);
    for (size_t i = all.n; rc == 0 && i-- > 0;)
        all.next[all.rows[i].node] = i;
    for (size_t k = 0; rc == 0 && k < n_nodes; k++)
        if (all.n > 0 && all.rows[all.next[k]].node != (int)k)
            all.next[k] = all.n; /* the node has no evaluations */
    if (rc == 0)
        rc = each_row(c, ARTIFACT_TRAIN, log_row, &all, e);
    if (rc == 0)
        rc = end_logs(c, &all, e);
    free(all.rows);
    free(all.next);
    return rc;
}

/* All files of a job. */

int classic_prepare(const struct submission *s, struct err *e)
{
    if (!find_style(s->csv_style) || access(".", W_OK | X_OK) == 0)
        return 0;
    err_errno(e, ERR_IO, "--csv-style %s: the current folder", s->csv_style);
    return err_hint(e, "Parallel-SGD's files are written there; run job_submit in another folder.");
}

static int write_all(struct classic *c, struct err *e)
{
    for (size_t i = 0; i < sizeof c->style->csv / sizeof *c->style->csv; i++)
        if (write_csv(c, &c->style->csv[i], e) < 0)
            return e->code;
    if (write_logs(c, e) < 0 || write_models(c, e) < 0)
        return e->code;
    return copy_file(c, "logs/submit.log", c->style->submit_log, -1, c->s->submitted_at, e);
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
