#include "shared/records/series.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/choice.h"
#include "shared/job/settings.h"
#include "shared/records/record.h"
#include "shared/records/series_points.h"

static const char *const x_names[] = {"step", "epoch", "time", "bytes", "tokens", NULL};

/* A CSV file that has curves: it has a column for each value, or a row for each, with the value's name in a
 * cell. */
struct series_file {
    const char *name, *name_column, *value_column; /* the columns are NULL without such rows */
    enum artifact_id id;
    bool has_x[N_SERIES_X];
};

static const struct series_file series_files[] = {
    {"train", NULL, NULL, ARTIFACT_TRAIN, {true, true, true, true, true}},
    {"eval", NULL, NULL, ARTIFACT_EVAL, {true, true, true, true, true}},
    {"codec", "name", "value", ARTIFACT_CODEC_RECORDS, {[SERIES_STEP] = true, [SERIES_TIME] = true}},
    {"metrics", "metric", "value", ARTIFACT_METRICS, {true, true, true}},
};

enum { N_FILES = sizeof series_files / sizeof *series_files };

static const struct series_file *find_file(int artifact)
{
    for (size_t i = 0; i < N_FILES; i++)
        if ((int)series_files[i].id == artifact)
            return &series_files[i];
    return NULL;
}

static int find_choice(const char *text, const char *const *choices, const char *what, struct err *e)
{
    for (int i = 0; choices[i]; i++)
        if (strcmp(text, choices[i]) == 0)
            return i;
    err_set(e, ERR_USAGE, "%s=%.64s is not known", what, text);
    return choice_suggest(text, choices, e);
}

/* A value's name is printable ASCII without characters that JSON or HTML would have to escape, and is no
 * other key of the document. */
static bool is_value_name(const char *text, size_t len)
{
    static const char *const keys[] = {"node", "role", "rows", "x"};

    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strlen(keys[i]) == len && memcmp(keys[i], text, len) == 0)
            return false;
    for (size_t i = 0; i < len; i++)
        if (text[i] <= ' ' || text[i] > '~' || text[i] == '"' || text[i] == '\\' || text[i] == '<')
            return false;
    return len > 0 && len < SERIES_NAME;
}

/* Writes the names of the columns that are values, and NULL. */
static void columns_of(const char *out[RECORD_COLUMNS_MAX + 2], const struct series_file *f)
{
    size_t n = 0;

    for (const struct record_column *c = artifacts[f->id].columns; c->name; c++)
        if (c->type != RECORD_TEXT && c->type != RECORD_LINE && is_value_name(c->name, strlen(c->name)))
            out[n++] = c->name;
    out[n++] = RECORD_SIM_TIME;
    out[n] = NULL;
}

/* In a file with a column for each value, a value has the name of a column. */
static int check_column(const struct series_file *f, const char *name, const char *what, struct err *e)
{
    const char *columns[RECORD_COLUMNS_MAX + 2], *near;
    char list[512] = "";
    size_t n = 0;

    if (f->name_column)
        return 0;
    columns_of(columns, f);
    for (size_t i = 0; columns[i]; i++)
        if (strcmp(columns[i], name) == 0)
            return 0;
    for (size_t i = 0; columns[i] && n < sizeof list; i++)
        n += (size_t)snprintf(list + n, sizeof list - n, "%s%s", i ? ", " : "", columns[i]);
    err_set(e, ERR_USAGE, "%s %.64s: %s.csv has no such value; it has %s", what, name, f->name, list);
    near = choice_near(name, columns);
    return near ? err_hint(e, "Did you mean \"%s\"?", near) : e->code;
}

static int set_names(struct series_request *r, const struct series_file *f, const char *text, struct err *e)
{
    for (const char *at = text; *at;) {
        size_t len = strcspn(at, ",");

        if (!is_value_name(at, len))
            return err_set(e, ERR_USAGE, "names: \"%.64s\" is not a list of values with commas", text);
        if (r->n_names == SERIES_NAMES)
            return err_set(e, ERR_USAGE, "names: more than %d", SERIES_NAMES);
        memcpy(r->names[r->n_names], at, len);
        r->names[r->n_names][len] = '\0';
        if (check_column(f, r->names[r->n_names], "names", e) < 0)
            return e->code;
        for (size_t i = 0; i < r->n_names; i++)
            if (strcmp(r->names[i], r->names[r->n_names]) == 0)
                return err_set(e, ERR_USAGE, "names: %s is there twice", r->names[i]);
        r->n_names++;
        at += len + (at[len] == ',');
    }
    return 0;
}

/* Sets *out to a number of the query, unless it is absent or empty. */
static int set_number(double *out, const char *text, const char *what, struct err *e)
{
    char *end;

    if (!text || !*text)
        return 0;
    *out = strtod(text, &end);
    return *end || !isfinite(*out) ? err_set(e, ERR_USAGE, "%s=%.64s is not a number", what, text) : 0;
}

int series_request_set(struct series_request *r, const struct series_query *q, struct err *e)
{
    const char *names[N_FILES + 1] = {NULL};
    const struct series_file *f;
    double points = 1000;
    int file;
    int x;

    for (size_t i = 0; i < N_FILES; i++)
        names[i] = series_files[i].name;
    *r = (struct series_request){
        .from = -INFINITY, .to = INFINITY, .nodes_most = SIZE_MAX, .points_in_all = SERIES_POINTS_IN_ALL};
    if ((file = find_choice(q->file ? q->file : "train", names, "file", e)) < 0 ||
        (x = find_choice(q->x ? q->x : "step", x_names, "x", e)) < 0 ||
        set_number(&points, q->points, "points", e) < 0 || set_number(&r->from, q->from, "from", e) < 0 ||
        set_number(&r->to, q->to, "to", e) < 0)
        return e->code;
    f = &series_files[file];
    if (!f->has_x[x])
        return err_set(e, ERR_USAGE, "%s.csv has no %s: use another x", f->name, x_names[x]);
    if (!(points >= 2 && points <= SERIES_POINTS))
        return err_set(e, ERR_USAGE, "points: from 2 to %d", SERIES_POINTS);
    r->file = (int)f->id;
    r->x = (enum series_x)x;
    r->points = (size_t)points;
    return set_names(r, f, q->names ? q->names : f->name_column ? "" : "loss,accuracy", e);
}

int series_check_name(const char *file, const char *name, const char *what, struct err *e)
{
    for (size_t i = 0; i < N_FILES; i++)
        if (strcmp(series_files[i].name, file) == 0)
            return is_value_name(name, strlen(name)) && !strchr(name, ',')
                       ? check_column(&series_files[i], name, what, e)
                       : err_set(e, ERR_USAGE, "%s \"%.64s\": no value has such a name", what, name);
    return err_set(e, ERR_USAGE, "%.64s.csv has no curves", file);
}

enum { NODE_SPAN = 2 * SIMULATED_NODES_MAX, POINTS_LEAST = 8 };

/* The columns that are read; those of the values follow. */
enum series_column {
    NODE,
    STEP,
    TIME,
    SIM_TIME,
    EPOCH,
    BATCH,
    BATCHES,
    SENT,
    RECEIVED,
    TOKENS,
    NAME,
    SAMPLES,
    VALUES
};

/* Above it the sum of the x of a point's rows could overflow. */
static const double x_most = 1e200;

/* A value that starts again from 0 with each attempt of a job, summed over the attempts. */
struct running {
    double last, before;
};

struct series_node {
    int node;
    uint64_t rows;
    double x;                    /* of its last row */
    double bytes;                /* of train.csv, so far */
    struct running time, totals; /* totals: of eval.csv, in bytes */
    double samples;              /* of train.csv, so far */
    bool is_shown;
    struct series_points points;
    /* Of a file with a row for each value: the values of the last step, which are not added yet. */
    bool is_held;
    double step, held[SERIES_NAMES];
};

struct series {
    struct series_request r;
    const struct series_file *file;
    const char *wanted[VALUES + SERIES_NAMES]; /* columns, each once */
    size_t n_wanted, n_needed;
    int to[VALUES + SERIES_NAMES];  /* from enum series_column to the index in `wanted`; -1: none */
    bool is_of_batch[SERIES_NAMES]; /* of train.csv: a mean over a mini-batch */
    size_t n_slots;                 /* values of a row: as many as were requested, or as may occur */
    size_t most;                    /* points of a node, at most */
    struct series_node *nodes;
    size_t n_nodes, n_held, last;
    uint32_t index_of[NODE_SPAN]; /* [node + SIMULATED_NODES_MAX]: 1 + the node's index in `nodes`; 0: none */
    struct series_points mean;
    uint64_t rows;
};

static void want_column(struct series *s, int place, const char *column)
{
    size_t i = 0;

    while (i < s->n_wanted && strcmp(s->wanted[i], column) != 0)
        i++;
    s->wanted[i] = column;
    s->n_wanted += i == s->n_wanted;
    s->to[place] = (int)i;
}

static void choose_columns(struct series *s)
{
    bool is_train = s->r.file == ARTIFACT_TRAIN;

    for (int i = 0; i < VALUES + SERIES_NAMES; i++)
        s->to[i] = -1;
    want_column(s, NODE, "node");
    want_column(s, STEP, "step");
    if (s->r.x == SERIES_TIME)
        want_column(s, TIME, "time_s");
    if (s->r.x == SERIES_EPOCH)
        want_column(s, EPOCH, "epoch");
    if (s->r.x == SERIES_BYTES) {
        want_column(s, SENT, is_train ? "sent_bytes" : "sent_bytes_total");
        want_column(s, RECEIVED, is_train ? "recv_bytes" : "recv_bytes_total");
    }
    if (s->r.x == SERIES_TOKENS)
        want_column(s, TOKENS, "tokens");
    if (s->file->name_column) {
        want_column(s, NAME, s->file->name_column);
        want_column(s, VALUES, s->file->value_column);
    }
    s->n_needed = s->n_wanted;
    for (size_t i = 0; !s->file->name_column && i < s->r.n_names; i++)
        want_column(s, VALUES + (int)i, s->r.names[i]);
    if (s->r.x == SERIES_TIME)
        want_column(s, SIM_TIME, RECORD_SIM_TIME);
    for (size_t i = 0; is_train && i < s->r.n_names; i++)
        s->is_of_batch[i] = strcmp(s->r.names[i], "loss") == 0 || strcmp(s->r.names[i], "accuracy") == 0;
    if (is_train)
        want_column(s, SAMPLES, "samples");
    if (s->r.x == SERIES_EPOCH && is_train) {
        want_column(s, BATCH, "batch");
        want_column(s, BATCHES, "batches");
    }
}

int series_new(struct series **out, const struct series_request *r, struct err *e)
{
    struct series *s = calloc(1, sizeof *s);

    if (!s)
        return err_set(e, ERR_NOMEM, "no memory for the series");
    s->r = *r;
    s->file = find_file(r->file);
    s->most = r->points;
    s->n_slots = s->file->name_column && r->n_names == 0 ? SERIES_NAMES : r->n_names;
    s->mean.n_names = s->n_slots;
    choose_columns(s);
    *out = s;
    return 0;
}

void series_free(struct series *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->n_nodes; i++)
        series_points_clear(&s->nodes[i].points);
    series_points_clear(&s->mean);
    free(s->nodes);
    free(s);
}

static int no_memory_for_curves(struct err *e)
{
    return err_set(e, ERR_NOMEM, "no memory for the series of a node");
}

/* Each new node leaves fewer points for the others. */
static int add_node(struct series *s, int node, struct err *e)
{
    struct series_node *moved;

    if (s->n_nodes == s->n_held) {
        moved = realloc(s->nodes, (s->n_held * 2 + 8) * sizeof *moved);
        if (!moved)
            return no_memory_for_curves(e);
        s->nodes = moved;
        s->n_held = s->n_held * 2 + 8;
    }
    s->nodes[s->n_nodes++] = (struct series_node){.node = node,
                                                  .x = -INFINITY,
                                                  .is_shown = s->n_nodes <= s->r.nodes_most,
                                                  .points = {.n_names = s->n_slots}};
    s->index_of[node + SIMULATED_NODES_MAX] = (uint32_t)s->n_nodes;
    if (s->n_nodes * s->most <= s->r.points_in_all || s->most <= POINTS_LEAST || s->n_nodes > s->r.nodes_most)
        return 0;
    s->most = s->most / 2 < POINTS_LEAST ? POINTS_LEAST : s->most / 2;
    for (size_t i = 0; i < s->n_nodes; i++)
        series_points_reduce(&s->nodes[i].points, s->most);
    return 0;
}

static int find_node(struct series_node **out, struct series *s, double number, struct err *e)
{
    int node = (int)number;

    *out = NULL;
    if (s->index_of[node + SIMULATED_NODES_MAX] == 0 && add_node(s, node, e) < 0)
        return e->code;
    *out = &s->nodes[s->index_of[node + SIMULATED_NODES_MAX] - 1];
    return 0;
}

static double continued(struct running *r, double v)
{
    if (v < r->last)
        r->before += r->last;
    r->last = v;
    return r->before + v;
}

static double number_at(const struct series *s, const struct record_text *cells, int place)
{
    return s->to[place] < 0 ? RECORD_MISSING : record_number(&cells[s->to[place]]);
}

static bool is_real(double v)
{
    return v != RECORD_MISSING && isfinite(v);
}

/* Returns a row's x, RECORD_MISSING if it has none. */
static double x_of(const struct series *s, struct series_node *n, const struct record_text *cells,
                   double step)
{
    double v[VALUES];

    for (int i = TIME; i < NAME; i++)
        v[i] = number_at(s, cells, i);
    switch (s->r.x) {
    case SERIES_TIME:
        v[TIME] = is_real(v[SIM_TIME]) ? v[SIM_TIME] : v[TIME];
        return is_real(v[TIME]) ? continued(&n->time, v[TIME]) : RECORD_MISSING;
    case SERIES_EPOCH:
        return is_real(v[EPOCH]) && is_real(v[BATCH]) && v[BATCHES] > 0 ? v[EPOCH] - 1 + v[BATCH] / v[BATCHES]
                                                                        : v[EPOCH];
    case SERIES_BYTES:
        v[SENT] = (is_real(v[SENT]) ? v[SENT] : 0) + (is_real(v[RECEIVED]) ? v[RECEIVED] : 0);
        n->bytes += s->r.file == ARTIFACT_TRAIN ? v[SENT] : 0;
        return s->r.file == ARTIFACT_TRAIN ? n->bytes : continued(&n->totals, v[SENT]);
    case SERIES_TOKENS: /* 0: the samples are no text, or a record before the first step */
        return v[TOKENS] > 0 ? v[TOKENS] : RECORD_MISSING;
    default:
        return step;
    }
}

/* In the mean over workers a value of a mini-batch counts with its samples, any other value once per
 * worker. */
static void set_weights(const struct series *s, double batch, double *weights)
{
    bool is_known = s->r.file == ARTIFACT_TRAIN && isfinite(batch) && batch > 0;

    for (size_t i = 0; i < s->n_slots; i++)
        weights[i] = is_known && s->is_of_batch[i] ? batch : 1;
}

/* `batch`: samples since the node's previous row. */
static int add_values(struct series *s, struct series_node *n, double step, double batch,
                      const double *values, struct err *e)
{
    double weights[SERIES_NAMES];

    set_weights(s, batch, weights);
    if (n->x < s->r.from || n->x > s->r.to)
        return 0;
    n->rows++;
    s->rows++;
    if ((n->is_shown && series_points_put(&n->points, s->most, n->rows, n->x, values, NULL) < 0) ||
        (n->node >= 0 && series_points_put(&s->mean, s->r.points, (uint64_t)step, n->x, values, weights) < 0))
        return no_memory_for_curves(e);
    return 0;
}

static int add_held(struct series *s, struct series_node *n, struct err *e)
{
    bool is_held = n->is_held;

    n->is_held = false;
    return is_held ? add_values(s, n, n->step, 0, n->held, e) : 0;
}

/* Returns the slot of a value's name; -1: it was not requested, or all slots are taken. */
static int series_slot_of(struct series *s, const struct record_text *name)
{
    for (size_t i = 0; i < s->r.n_names; i++)
        if (strlen(s->r.names[i]) == name->len && memcmp(s->r.names[i], name->text, name->len) == 0)
            return (int)i;
    if (s->r.n_names == s->n_slots || !is_value_name(name->text, name->len))
        return -1;
    memcpy(s->r.names[s->r.n_names], name->text, name->len);
    return (int)s->r.n_names++;
}

/* Collects the values of one step, which are in consecutive rows, into one row. */
static int hold_value(struct series *s, struct series_node *n, double x, double step,
                      const struct record_text *cells, struct err *e)
{
    int slot = series_slot_of(s, &cells[s->to[NAME]]);

    if (slot < 0)
        return 0;
    if (n->is_held && (x > n->x || step != n->step || n->held[slot] != RECORD_MISSING) &&
        add_held(s, n, e) < 0)
        return e->code;
    for (size_t i = 0; !n->is_held && i < SERIES_NAMES; i++)
        n->held[i] = RECORD_MISSING;
    n->is_held = true;
    n->x = x;
    n->step = step;
    n->held[slot] = number_at(s, cells, VALUES);
    return 0;
}

static int add_series_row(void *ctx, const struct record_text *cells, struct err *e)
{
    struct series *s = ctx;
    double values[SERIES_NAMES];
    double node = number_at(s, cells, NODE);
    double step = number_at(s, cells, STEP), samples = number_at(s, cells, SAMPLES), batch = 0;
    struct series_node *n;
    double x;

    if (!(fabs(node) < SIMULATED_NODES_MAX) || !(step >= 0 && step <= 0x1p53))
        return 0;
    if (find_node(&n, s, node, e) < 0)
        return e->code;
    if (is_real(samples)) {
        batch = samples - n->samples;
        n->samples = samples;
    }
    x = x_of(s, n, cells, step);
    if (!is_real(x) || fabs(x) > x_most || x < n->x)
        return 0;
    if (s->file->name_column)
        return hold_value(s, n, x, step, cells, e);
    n->x = x;
    for (size_t i = 0; i < s->n_slots; i++)
        values[i] = number_at(s, cells, VALUES + (int)i);
    return add_values(s, n, step, batch, values, e);
}

static struct record_scan scan_of(struct series *s, const char *what)
{
    return (struct record_scan){.what = what,
                                .columns = s->wanted,
                                .n = s->n_wanted,
                                .needed = (uint32_t)(((uint64_t)1 << s->n_needed) - 1),
                                .row = add_series_row,
                                .ctx = s};
}

int series_read(struct series *s, int fd, const char *what, struct err *e)
{
    const struct record_scan scan = scan_of(s, what);

    return record_scan_file(&scan, fd, e);
}

int series_add(struct series *s, const char *text, size_t len, const char *what, struct err *e)
{
    const struct record_scan scan = scan_of(s, what);

    return record_scan_text(&scan, text, len, e);
}

static void put_value(FILE *out, double v)
{
    if (isnan(v))
        fputs("\"nan\"", out);
    else if (isinf(v))
        fputs(v > 0 ? "\"inf\"" : "\"-inf\"", out);
    else
        fprintf(out, "%.9g", v);
}

enum part { PART_X, PART_MEAN, PART_MIN, PART_MAX };

/* One number of each point. */
static void put_list(FILE *out, const struct series_points *p, size_t slot, enum part part)
{
    double x = -INFINITY;

    fputc('[', out);
    for (size_t i = 0; i < p->n; i++) {
        struct point *b = series_points_at(p, i);
        const struct point_value *v = point_values(b) + slot;

        if (i > 0)
            fputc(',', out);
        if (part == PART_X) {
            /* The mean x of workers of which one has ended early could decrease. */
            x = b->x / (double)b->n > x ? b->x / (double)b->n : x;
            fprintf(out, "%.13g", x);
        } else if (v->weight == 0) {
            fputs("null", out);
        } else {
            double of_key = v->has_nan ? NAN : v->sum / v->weight;

            put_value(out, part == PART_MEAN ? of_key : part == PART_MIN ? v->min : v->max);
        }
    }
    fputc(']', out);
}

static bool has_name(const struct series *s, const char *name, const char *suffix)
{
    size_t len = strlen(name);

    for (size_t i = 0; i < s->r.n_names; i++)
        if (strncmp(s->r.names[i], name, len) == 0 && strcmp(s->r.names[i] + len, suffix) == 0)
            return true;
    return false;
}

/* Leaves out extremes, and `every`, if a value has the same name: a codec may record norm and norm_max. */
static void put_curves(FILE *out, const struct series *s, const struct series_points *p, bool has_extremes)
{
    static const char *const suffix[] = {[PART_MEAN] = "", [PART_MIN] = "_min", [PART_MAX] = "_max"};
    bool is_thinned = p->shift > 0;

    if (is_thinned && !has_name(s, "every", ""))
        fprintf(out, "\"every\":%llu,", 1ULL << p->shift);
    fputs("\"x\":", out);
    put_list(out, p, 0, PART_X);
    for (size_t i = 0; i < s->r.n_names; i++) {
        for (int part = PART_MEAN; part <= (is_thinned && has_extremes ? PART_MAX : PART_MEAN); part++) {
            if (part != PART_MEAN && has_name(s, s->r.names[i], suffix[part]))
                continue;
            fprintf(out, ",\"%s%s\":", s->r.names[i], suffix[part]);
            put_list(out, p, i, (enum part)part);
        }
    }
}

int series_write(FILE *out, struct series *s, struct err *e)
{
    size_t n_shown = s->n_nodes < s->r.nodes_most ? s->n_nodes : s->r.nodes_most;

    for (size_t i = 0; i < s->n_nodes; i++)
        if (add_held(s, &s->nodes[i], e) < 0)
            return e->code;
    fprintf(out, "{\"file\":\"%s\",\"x\":\"%s\",\"names\":[", s->file->name, x_names[s->r.x]);
    for (size_t i = 0; i < s->r.n_names; i++)
        fprintf(out, "%s\"%s\"", i ? "," : "", s->r.names[i]);
    fprintf(out, "],\"rows\":%llu,", (unsigned long long)s->rows);
    if (n_shown < s->n_nodes)
        fprintf(out, "\"nodes_left_out\":%zu,", s->n_nodes - n_shown);
    fputs("\"nodes\":[", out);
    for (size_t i = 0; i < n_shown; i++) {
        const struct series_node *n = &s->nodes[i];

        fprintf(out, "%s{\"node\":%d,\"role\":\"%s\",\"rows\":%llu,", i ? "," : "", n->node,
                n->node < 0 ? "server" : "worker", (unsigned long long)n->rows);
        put_curves(out, s, &n->points, true);
        fputc('}', out);
    }
    fputs("],\"mean\":{", out);
    put_curves(out, s, &s->mean, false);
    fputs("}}", out);
    return ferror(out) ? err_set(e, ERR_NOMEM, "no memory for the series' document") : 0;
}
