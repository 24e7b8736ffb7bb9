#include "submit/stages/shard.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/file.h"
#include "shared/base/json.h"
#include "shared/job/blocks.h"
#include "shared/job/partition.h"
#include "shared/job/test_part.h"
#include "shared/records/tensor_file.h"
#include "submit/data/transform.h"
#include "submit/files/spread.h"
#include "submit/files/temp.h"
#include "submit/stages/sample_prompt.h"
#include "submit/terminal/interrupt.h"

enum { CLASSES_NOTED = 1000 };

static const double EPOCH_SHARE = 0.9; /* an epoch with a smaller share of the samples causes a warning */

char *shard_columns(const int *blocks, int n, size_t samples)
{
    char *text = calloc((size_t)n + 1, 48);
    size_t len = 0;

    for (int i = 0; text && i < n;) {
        int first = blocks[i];
        int last = first;

        while (++i < n && blocks[i] == last + 1)
            last++;
        len += (size_t)sprintf(text + len, "%s%lld-%lld", len ? "," : "",
                               (long long)first * (long long)samples,
                               ((long long)last + 1) * (long long)samples - 1);
    }
    return text;
}

struct cut {
    const struct dataset *data;
    const struct partition *part;
    const struct transform *transform;
    const struct transform_scale *scale;
    size_t sample_bytes, stride; /* of a sample, and from its beginning to that of the next one in `data` */
    size_t batch;
    bool is_in_place; /* agents read the samples where they are (shared/job/data_place.h) */
    const int *blocks;
    size_t n_own, n_samples; /* columns, and the samples of all of them */
    uint32_t *rows;          /* of `room` samples, reused for each worker's shard: their places in `data` */
    void *y;                 /* of `room` samples, too */
    int32_t *lengths;        /* (n_own): samples of each column */
    size_t room;
    struct sample_prompt prompt; /* of worker 0's shard */
};

/* Bytes of a sample's label, or of its targets; of the topic of a piece of text. */
static size_t truth_bytes(const struct dataset *d)
{
    if (dataset_is_stream(d))
        return d->stream.topics ? sizeof *d->stream.topics : 0;
    return d->train_y ? sizeof *d->train_y : (size_t)d->n_targets * sizeof *d->train_t;
}

/* Samples of each item that a partition assigns: a piece of text has several windows. */
static size_t samples_each(const struct dataset *d)
{
    return dataset_is_stream(d) ? d->stream.per_piece : 1;
}

static size_t column_of(const struct cut *c, size_t k)
{
    return (size_t)c->blocks[k / c->batch] * c->batch + k % c->batch;
}

static int make_room(struct cut *c, struct err *e)
{
    c->n_samples = 0;
    free(c->lengths);
    c->lengths = malloc(c->n_own * sizeof *c->lengths);
    if (!c->lengths)
        return err_set(e, ERR_NOMEM, "no memory for %zu columns", c->n_own);
    for (size_t k = 0; k < c->n_own; k++) {
        size_t col = column_of(c, k);

        c->lengths[k] = (int32_t)(c->part->start[col + 1] - c->part->start[col]);
        c->n_samples += (size_t)c->lengths[k];
    }
    if (c->n_samples <= c->room)
        return 0;
    free(c->rows);
    free(c->y);
    c->rows = malloc(c->n_samples * sizeof *c->rows);
    c->y = malloc(c->n_samples * truth_bytes(c->data) + 1);
    c->room = c->rows && c->y ? c->n_samples : 0;
    return c->room ? 0 : err_set(e, ERR_NOMEM, "no memory for a shard of %zu samples", c->n_samples);
}

static const void *truth_of(const struct dataset *d)
{
    if (dataset_is_stream(d))
        return d->stream.topics;
    return d->train_y ? (const void *)d->train_y : (const void *)d->train_t;
}

/* Column after column: c->rows (n_samples), and c->y (n_samples) or (n_samples, targets); of text, y are the
 * topics, if there are any. */
static void list_samples(const struct cut *c)
{
    unsigned char *y = c->y;
    const unsigned char *from_y = truth_of(c->data);
    size_t y_bytes = truth_bytes(c->data), n = 0;

    for (size_t k = 0; k < c->n_own; k++) {
        size_t col = column_of(c, k);

        for (size_t i = c->part->start[col]; i < c->part->start[col + 1]; i++) {
            size_t sample = c->part->sample[i];

            c->rows[n++] = (uint32_t)sample;
            if (y_bytes > 0)
                memcpy(y, from_y + sample * y_bytes, y_bytes);
            y += y_bytes;
        }
    }
}

/* Describes n pieces of `windows` windows each. */
static struct tensor_view describe_tokens(const struct dataset *d, size_t n, size_t windows, const void *x)
{
    return (struct tensor_view){.name = "tokens",
                                .type = d->x_type,
                                .n_dims = 2,
                                .shape = {n, windows * d->stream.time + 1},
                                .data = x};
}

/* Describes n samples and their labels or targets, if these are known; returns the number of tensors. */
static size_t describe_columns(struct tensor_view out[2], const struct dataset *d, size_t n, const void *x,
                               const void *y)
{
    struct tensor_view sample = {.name = "x", .type = d->x_type, .n_dims = 1, .shape = {n}, .data = x};
    struct tensor_view truth = {
        .name = "y", .type = d->n_classes ? TENSOR_I32 : TENSOR_F32, .n_dims = 1, .shape = {n}, .data = y};

    sample.shape[sample.n_dims++] = (size_t)shape_count(&d->shape);
    if (!d->n_classes)
        truth.shape[truth.n_dims++] = (size_t)d->n_targets;
    out[0] = sample;
    out[1] = truth;
    return y ? 2 : 1;
}

static size_t describe_scale(struct tensor_view *out, const struct transform_scale *s)
{
    if (s->n == 0)
        return 0;
    out[0] = (struct tensor_view){.name = "scale", .n_dims = 1, .shape = {s->n}, .data = s->scale};
    out[1] = (struct tensor_view){.name = "shift", .n_dims = 1, .shape = {s->n}, .data = s->shift};
    return 2;
}

/* Describes the transform that the loader applies (runner/loader.h); returns the number of tensors. */
static size_t describe_transform(struct tensor_view *out, int32_t augment[5], const struct cut *c)
{
    const struct transform *t = c->transform;
    const struct shape *s = &c->data->shape;
    size_t n = describe_scale(out, c->scale);

    if (t->crop || t->flip) {
        int32_t v[] = {s->dim[0], s->dim[1], s->dim[2], t->crop, t->flip};

        memcpy(augment, v, sizeof v);
        out[n++] = (struct tensor_view){
            .name = "augment", .type = TENSOR_I32, .n_dims = 1, .shape = {5}, .data = augment};
    }
    return n;
}

/* The first tensor, of samples, is written from where they are in the data set: a copy of a node's part may
 * not fit the memory. */
static size_t describe_samples(struct tensor_view out[2], const struct cut *c)
{
    if (!dataset_is_stream(c->data))
        return describe_columns(out, c->data, c->n_samples, c->data->train_x, c->y);
    out[0] = c->is_in_place
                 ? (struct tensor_view){.name = "pieces",
                                        .type = TENSOR_I32,
                                        .n_dims = 1,
                                        .shape = {c->n_samples},
                                        .data = c->rows}
                 : describe_tokens(c->data, c->n_samples, c->data->stream.per_piece, c->data->train_x);
    out[1] = (struct tensor_view){
        .name = "topics", .type = TENSOR_I32, .n_dims = 1, .shape = {c->n_samples}, .data = c->y};
    return c->data->stream.topics ? 2 : 1;
}

static void release_stream(const void *stream)
{
    token_stream_release(stream);
}

/* Of samples. The pages of a text are released meanwhile: the memory does not depend on its length. */
static struct tensor_rows rows_of(const struct dataset *d, const uint32_t *number, size_t stride)
{
    return (struct tensor_rows){.number = number,
                                .stride = stride,
                                .release = dataset_is_stream(d) ? release_stream : NULL,
                                .owner = &d->stream};
}

static int write_shard(const char *path, const struct cut *c, const struct settings *s, int worker,
                       const char *columns, struct err *e)
{
    const struct tensor_rows parts[6 + SAMPLE_TENSORS] = {
        rows_of(c->data, c->is_in_place ? NULL : c->rows, c->stride)};
    struct tensor_view tensors[6 + SAMPLE_TENSORS];
    size_t n;
    int32_t augment[5];
    char seed[24], rows[24], cols[24], per_piece[24];
    const struct tensor_meta meta[] = {{"dataset", s->dataset},
                                       {"seed", seed},
                                       {"n_rows", rows},
                                       {"n_cols", cols},
                                       {"columns", columns},
                                       {"per_piece", per_piece},
                                       {0}};

    snprintf(seed, sizeof seed, "%llu", (unsigned long long)s->seed);
    snprintf(rows, sizeof rows, "%zu", c->part->n_rows * samples_each(c->data));
    snprintf(cols, sizeof cols, "%zu", c->part->n_cols);
    snprintf(per_piece, sizeof per_piece, "%zu", samples_each(c->data));
    list_samples(c);
    n = describe_samples(tensors, c);
    tensors[n++] = (struct tensor_view){
        .name = "lengths", .type = TENSOR_I32, .n_dims = 1, .shape = {c->n_own}, .data = c->lengths};
    n += describe_transform(tensors + n, augment, c);
    n += worker == 0 ? sample_prompt_tensors(tensors + n, &c->prompt) : 0;
    if (tensor_file_write_rows(path, tensors, parts, n, meta, e) < 0)
        return e->code;
    token_stream_release(&c->data->stream);
    return 0;
}

static int make_shard(struct submission *s, int worker, const struct blocks *b, struct cut *c,
                      const struct temp *t, struct err *e)
{
    int *own = malloc((size_t)b->n_blocks * sizeof *own);
    char *columns = NULL;
    char name[32], path[PATH_MAX];
    int n;

    snprintf(name, sizeof name, "train-%d.safetensors", worker);
    if (!own)
        return err_set(e, ERR_NOMEM, "no memory for %d blocks", b->n_blocks);
    n = blocks_of(b, worker, own);
    c->blocks = own;
    c->n_own = (size_t)n * c->batch;
    columns = shard_columns(own, n, c->batch);
    if (!columns)
        err_set(e, ERR_NOMEM, "no memory for %d blocks", n);
    else if (make_room(c, e) == 0 && file_join(path, sizeof path, t->path, name, e) == 0 &&
             write_shard(path, c, &s->settings, worker, columns, e) == 0)
        e->code = blob_take_file(&s->shards[worker], path, e);
    free(columns);
    free(own);
    return e->code;
}

/* Describes samples of a half in their order; returns the number of tensors. */
static size_t describe_half(struct tensor_view out[2], const struct dataset *d, bool is_test,
                            struct test_part part)
{
    size_t bytes = (dataset_is_stream(d) ? d->stream.time : (size_t)shape_count(&d->shape)) *
                   tensor_type_size(d->x_type);
    const char *x = (const char *)(is_test ? d->test_x : d->train_x) + part.first * bytes;
    const int32_t *labels = is_test ? d->test_y : d->train_y;
    const float *targets = is_test ? d->test_t : d->train_t;

    if (dataset_is_stream(d)) {
        out[0] = describe_tokens(d, 1, part.n, x);
        return 1;
    }
    if (labels)
        return describe_columns(out, d, part.n, x, labels + part.first);
    return describe_columns(out, d, part.n, x, targets ? targets + part.first * (size_t)d->n_targets : NULL);
}

static int make_test(struct blob *out, const struct dataset *d, struct test_part part,
                     const struct settings *set, const struct temp *t, struct err *e)
{
    const struct tensor_rows parts[2] = {rows_of(d, NULL, 0)};
    struct tensor_view tensors[2];
    char path[PATH_MAX], bytes[40];
    const struct tensor_meta meta[] = {
        {"dataset", set->dataset}, {dataset_is_stream(d) ? "bytes_per_token" : NULL, bytes}, {0}};
    size_t n = describe_half(tensors, d, true, part);

    snprintf(bytes, sizeof bytes, "%.17g", d->stream.bytes_per_token);
    if (file_join(path, sizeof path, t->path, "test.safetensors", e) < 0 ||
        tensor_file_write_rows(path, tensors, parts, n, meta, e) < 0)
        return e->code;
    return blob_take_file(out, path, e);
}

static int make_tests(struct submission *s, const struct dataset *d, const struct temp *t, struct err *e)
{
    const struct settings *set = &s->settings;
    int rc = make_test(&s->test, d, (struct test_part){0, d->n_test}, set, t, e);

    if (rc < 0 || !set->divides_test)
        return rc;
    s->tests = calloc((size_t)set->node_count, sizeof *s->tests);
    if (!s->tests)
        return err_set(e, ERR_NOMEM, "no memory for %d parts of the test set", set->node_count);
    for (int w = 0; w < set->node_count && rc == 0; w++)
        rc = make_test(&s->tests[w], d, test_part_of(d->n_test, set->node_count, w), set, t, e);
    return rc;
}

/* The test set and the workers' shards, of which all processors make some. */
struct cutting {
    struct submission *s;
    const struct blocks *blocks;
    const struct cut *cut; /* without memory of its own */
    const struct temp *temp;
    struct err failures[SPREAD_MAX];
};

static void cut_some(void *arg, size_t k, size_t n)
{
    struct cutting *a = arg;
    struct cut own = *a->cut;
    struct err *e = &a->failures[k];

    if (k == 0)
        make_tests(a->s, own.data, a->temp, e);
    for (size_t w = n - 1 - k; w < (size_t)a->s->settings.node_count && e->code == 0; w += n)
        if (interrupt_check(e) == 0)
            make_shard(a->s, (int)w, a->blocks, &own, a->temp, e);
    free(own.rows);
    free(own.y);
    free(own.lengths);
}

static int make_all(struct submission *s, const struct blocks *b, const struct cut *c, struct err *e)
{
    struct cutting a = {.s = s, .blocks = b, .cut = c};
    struct temp t;

    s->shards = calloc((size_t)s->settings.node_count, sizeof *s->shards);
    if (!s->shards)
        return err_set(e, ERR_NOMEM, "no memory for %d shards", s->settings.node_count);
    if (temp_open(&t, e) < 0)
        return e->code;
    a.temp = &t;
    spread((size_t)s->settings.node_count + 1, cut_some, &a);
    temp_close(&t);
    for (size_t k = 0; k < SPREAD_MAX; k++)
        if (a.failures[k].code) {
            *e = a.failures[k];
            return e->code;
        }
    return 0;
}

/* Facts about the data, and the division of the set. */

static json_t *shape_json(const struct shape *s)
{
    json_t *a = json_array();

    for (int i = 0; i < s->n_dims; i++)
        json_array_append_new(a, json_integer(s->dim[i]));
    return a;
}

/* ["Column 1 ...", ...] */
static void append_warnings(json_t *all, const struct dataset_warnings *w)
{
    for (const char *one = NULL; (one = dataset_warning(w, one)) != NULL;)
        json_array_append_new(all, json_sprintf("Data: %s.", one));
}

/* Warns of samples that the job, or each epoch, leaves out. */
static void warn_of_remainder(struct dataset_warnings *w, const struct partition *p,
                              const struct settings *set, const struct dataset *d)
{
    size_t n_step = p->n_rows * p->n_cols * samples_each(d), n_used = p->start[p->n_cols] * samples_each(d);
    size_t n_train = d->n_train;

    if (n_used < n_train)
        dataset_warn(
            w, "partition %s leaves %zu of %zu training samples out of the job: no block has their labels",
            set->partition, n_train - n_used, n_train);
    if ((double)n_step < EPOCH_SHARE * (double)n_used)
        dataset_warn(
            w,
            "an epoch trains on %zu of %zu training samples, %d step%s of %zu; which ones are left out "
            "changes with each epoch",
            n_step, n_used, set->steps_per_epoch, set->steps_per_epoch == 1 ? "" : "s", p->n_cols);
}

/* The number of groups in each block; null: there are none. */
static json_t *block_groups_json(const struct dataset *d, const struct partition *p, size_t n_blocks)
{
    bool *has = d->train_groups ? calloc(d->n_groups, sizeof *has) : NULL;
    json_t *all = has ? json_array() : json_null();

    for (size_t b = 0; has && b < n_blocks; b++) {
        size_t batch = p->n_cols / n_blocks, n = 0;

        memset(has, 0, d->n_groups * sizeof *has);
        for (size_t i = p->start[b * batch]; i < p->start[(b + 1) * batch]; i++) {
            uint32_t group = d->train_groups[p->sample[i]];

            n += !has[group];
            has[group] = true;
        }
        json_array_append_new(all, json_integer((json_int_t)n));
    }
    free(has);
    return all;
}

/* Null: there are no names, or too many. */
static json_t *names_list(const char *name, int n)
{
    json_t *names = name && n <= CLASSES_NOTED ? json_array() : json_null();

    for (int k = 0; json_is_array(names) && k < n; k++, name += strlen(name) + 1)
        if (json_array_append_new(names, json_string(name)) < 0)
            json_array_append_new(names, json_integer(k)); /* not UTF-8 */
    return names;
}

/* A number that is known, or null. */
static json_t *known_json(double v)
{
    return v > 0 ? json_real(v) : json_null();
}

/* Of a set of text. */
static void note_stream(json_t *data, const struct token_stream *t)
{
    json_object_update_new(data, json_pack("{s:I, s:I, s:I, s:f, s:o, s:o, s:i, s:o}", "window",
                                           (json_int_t)t->time, "train_tokens", (json_int_t)t->n_train,
                                           "test_tokens", (json_int_t)t->n_test, "bytes_per_token",
                                           t->bytes_per_token, "entropy", known_json(t->entropy), "floor",
                                           known_json(t->floor), "n_topics", t->n_topics, "topic_names",
                                           names_list(t->topic_names, t->n_topics)));
}

void shard_note_data(struct submission *s, const struct dataset *d)
{
    json_t *names = names_list(d->class_names, d->n_classes);

    json_object_set_new(s->facts, "data",
                        json_pack("{s:s, s:I, s:I, s:o, s:s, s:i, s:o, s:i, s:i}", "name",
                                  s->settings.dataset, "n_train", (json_int_t)d->n_train, "n_test",
                                  (json_int_t)d->n_test, "shape", shape_json(&d->shape), "type",
                                  dataset_has_tokens(d)    ? "tokens"
                                  : d->x_type == TENSOR_U8 ? "bytes"
                                                           : "floats",
                                  "n_classes", d->n_classes, "class_names", names, "n_targets", d->n_targets,
                                  "vocab", d->vocab));
    if (dataset_is_stream(d))
        note_stream(json_object_get(s->facts, "data"), &d->stream);
}

/* Adds to facts "data" how the data set is divided. */
static void note_division(struct submission *s, const struct dataset *d, const struct partition *p,
                          int n_blocks)
{
    json_t *all = json_array();
    struct dataset_warnings left_out = {0};
    const struct settings *set = &s->settings;
    size_t each = samples_each(d);

    warn_of_remainder(&left_out, p, set, d);
    dataset_warnings_print(&left_out);
    append_warnings(all, &d->warnings);
    append_warnings(all, &left_out);
    dataset_warnings_clear(&left_out);
    json_object_update_new(json_object_get(s->facts, "data"),
                           json_pack("{s:I, s:I, s:i, s:I, s:I, s:s, s:o, s:o}", "steps_per_epoch",
                                     (json_int_t)(p->n_rows * each), "global_batch", (json_int_t)p->n_cols,
                                     "n_blocks", n_blocks, "n_used", (json_int_t)(p->start[p->n_cols] * each),
                                     "n_epoch", (json_int_t)(p->n_rows * p->n_cols * each), "test_sha256",
                                     s->test.hex, "block_groups", block_groups_json(d, p, (size_t)n_blocks),
                                     "warnings", all));
}

static int divide_set(struct partition *p, const struct blocks *b, const struct dataset *d,
                      const struct settings *set, struct err *e)
{
    const struct token_stream *t = &d->stream;
    bool is_stream = dataset_is_stream(d);
    const struct partition_set all = {.n = is_stream ? t->n_pieces : d->n_train,
                                      .labels = is_stream ? t->topics : d->train_y,
                                      .n_classes = is_stream ? t->n_topics : d->n_classes,
                                      .targets = d->train_t,
                                      .n_targets = d->n_targets,
                                      .groups = d->train_groups,
                                      .n_groups = d->n_groups};
    struct partition_rule rule;

    if (partition_rule_parse(&rule, set->partition, e) < 0)
        return e->code;
    if (is_stream && !t->topics && rule.kind != PARTITION_IID) {
        err_set(e, ERR_CONFIG, "partition %s divides by topics, and the text has none", set->partition);
        return err_hint(e, "The folders in the folder of --dataset tokens are topics, and --dataset "
                           "grammar:topics=N has N.");
    }
    return partition_init(p, &all, &rule, (size_t)blocks_in_row(b), settings_block_samples(set), set->seed,
                          e);
}

/* The record as a file of the model package, and as facts. */
static int note_preprocessing(struct submission *s, const struct preprocessing *p, struct err *e)
{
    json_t *doc = preprocessing_json(p);
    char *line = doc ? json_dump(doc, JSON_COMPACT) : NULL;

    if (!line) {
        json_decref(doc);
        return err_set(e, ERR_NOMEM, "no memory for the preprocessing record");
    }
    blob_set(&s->preprocessing, line, strlen(line));
    if (s->model_bytes > 0)
        s->model_bytes += 2 * strlen(line); /* escaped, in the metadata */
    json_object_set_new(s->facts, "preprocessing", doc);
    return 0;
}

/* Do workers of a rule that exchanges parameters evaluate at the end of rounds only? The job's last
 * evaluation follows its last round. */
static bool evaluates_after_rounds(const struct settings *set)
{
    int every = set->local_steps > 0 ? set->local_steps : set->steps_per_epoch;
    bool is_one_epoch = settings_steps(set) <= (uint64_t)set->steps_per_epoch;

    return set->eval_every % every == 0 && (set->steps_per_epoch % every == 0 || is_one_epoch);
}

static bool divides_test(const struct submission *s, const struct dataset *d)
{
    return s->settings.divides_test && d->n_test >= (size_t)s->settings.node_count &&
           test_sums_of(&s->model_spec) > 0 && (!s->sends_params || evaluates_after_rounds(&s->settings));
}

static int count_steps(struct settings *set, size_t n, struct err *e)
{
    if (n > INT_MAX)
        return err_set(e, ERR_CONFIG, "an epoch has %zu steps, at most %d: choose larger batches", n,
                       INT_MAX);
    set->steps_per_epoch = (int)n;
    return 0;
}

int shard_make(struct submission *s, const struct dataset *d, const struct preprocessing *p, struct err *e)
{
    struct settings *set = &s->settings;
    struct transform_scale scale = {0};
    struct transform transform;
    struct partition part = {0};
    struct blocks b = {0};
    struct cut c = {.data = d,
                    .part = &part,
                    .transform = &transform,
                    .scale = &scale,
                    .sample_bytes = (size_t)shape_count(&d->shape) * tensor_type_size(d->x_type),
                    .batch = settings_block_samples(set),
                    .is_in_place = set->data_on_agent[0] != '\0'};
    int rc;

    c.stride = c.sample_bytes;
    if (dataset_is_stream(d)) {
        c.stride = token_stream_stride(&d->stream) * tensor_type_size(d->x_type);
        c.sample_bytes = c.stride + tensor_type_size(d->x_type);
    }

    if (transform_parse(&transform, set->transform, e) < 0)
        return err_at(e, "transform");
    if (transform_suits(&transform, d, e) < 0 || preprocessing_scale(&scale, p, e) < 0)
        return e->code;
    rc = settings_blocks(&b, set, e);
    if (rc == 0)
        rc = sample_prompt_make(&c.prompt, s, d, e);
    if (rc == 0)
        rc = divide_set(&part, &b, d, set, e);
    if (rc == 0)
        rc = count_steps(set, part.n_rows * samples_each(d), e);
    set->divides_test = rc == 0 && divides_test(s, d);
    if (rc == 0)
        rc = make_all(s, &b, &c, e);
    if (rc == 0)
        rc = note_preprocessing(s, p, e);
    if (rc == 0)
        note_division(s, d, &part, blocks_in_row(&b));
    sample_prompt_clear(&c.prompt);
    transform_scale_clear(&scale);
    partition_clear(&part);
    blocks_clear(&b);
    return rc;
}

int shard_write_half(const char *path, const struct dataset *d, const struct preprocessing *p,
                     const char *half, struct err *e)
{
    const struct tensor_meta meta[] = {
        {"dataset", p->dataset}, {"predicts", d->n_classes ? "classes" : "values"}, {0}};
    struct transform_scale scale = {0};
    bool is_test = strcmp(half, "test") == 0;
    struct tensor_view tensors[4];
    size_t n_tensors;
    int rc;

    if (preprocessing_scale(&scale, p, e) < 0)
        return e->code;
    n_tensors = describe_half(tensors, d, is_test, (struct test_part){0, is_test ? d->n_test : d->n_train});
    n_tensors += describe_scale(tensors + n_tensors, &scale);
    rc = tensor_file_write_unsynced(path, tensors, n_tensors, meta, e);
    transform_scale_clear(&scale);
    return rc;
}
