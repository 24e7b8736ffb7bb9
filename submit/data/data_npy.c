/* NumPy arrays as a data set: x_train, y_train, x_test, y_test as in Keras, or x and y, of which a fraction
 * becomes the test half. In one .npz file, or as .npy files in a folder. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "submit/data/data_file.h"
#include "submit/data/data_formats.h"
#include "submit/data/data_sets.h"

struct npy_options {
    double test;
    uint64_t seed;
    int vocab;      /* > 0: the integers of x are tokens */
    int classes;    /* 0: the largest label plus one */
    char group[24]; /* the array with the training samples' groups; "": none */
};

static const struct json_field fields[] = {
    {"test", JSON_FIELD_DOUBLE, JSON_AT(struct npy_options, test), .min = 1e-6, .max = 0.999999,
     .may_change = true},
    {"seed", JSON_FIELD_U64, JSON_AT(struct npy_options, seed), .may_change = true},
    {"vocab", JSON_FIELD_INT, JSON_AT(struct npy_options, vocab), .min = 2, .max = LAYER_VALUES_MAX},
    {"classes", JSON_FIELD_INT, JSON_AT(struct npy_options, classes), .min = 2, .max = CLASSES_MAX},
    {"group", JSON_FIELD_TEXT, JSON_AT(struct npy_options, group), .required = false, .may_change = true},
    {0},
};

/* A source of arrays: get() returns the bytes of an .npy file, which the caller frees. */
struct npy_source {
    int (*get)(const struct npy_source *s, const char *name, uint8_t **bytes, size_t *len, struct err *e);
    const uint8_t *zip;
    size_t zip_len;
    const char *folder;
};

static int get_member(const struct npy_source *s, const char *name, uint8_t **bytes, size_t *len,
                      struct err *e)
{
    char member[32];

    snprintf(member, sizeof member, "%s.npy", name);
    return zip_member(bytes, len, s->zip, s->zip_len, member, e);
}

static int get_file(const struct npy_source *s, const char *name, uint8_t **bytes, size_t *len, struct err *e)
{
    char file[32], path[PATH_MAX];

    snprintf(file, sizeof file, "%s.npy", name);
    return data_find(path, s->folder, file, e) < 0 ? e->code
                                                   : data_read_promised(bytes, len, npy_promise, path, e);
}

static int not_finite(const struct npy_array *a, size_t i, struct err *e)
{
    double v = npy_value(a, i);
    size_t sample = i / (a->n / a->shape[0]) + 1;

    return isfinite(v) ? err_set(e, ERR_CONFIG, "sample %zu: %g is beyond what a float can hold", sample, v)
                       : err_set(e, ERR_CONFIG, "sample %zu: %g is not a finite number", sample, v);
}

static int floats_of(float *out, const struct npy_array *a, struct err *e)
{
    bool is_same = a->type == NPY_F4 && !a->is_big_endian;

    if (is_same)
        memcpy(out, a->data, a->n * sizeof *out);
    for (size_t i = 0; i < a->n; i++) {
        if (!is_same)
            out[i] = (float)npy_value(a, i);
        if (!isfinite(out[i]))
            return not_finite(a, i, e);
    }
    return 0;
}

/* 0 is padding: it may only follow the tokens, and a sample must have a token. */
static int tokens_of(int32_t *out, const struct npy_array *a, int vocab, struct err *e)
{
    size_t width = a->n / a->shape[0];

    for (size_t i = 0; i < a->n; i++) {
        int64_t t = npy_integer(a, i);

        if (t < 0 || t >= vocab)
            return err_set(e, ERR_CONFIG, "token %lld of sample %zu, expected 0 to %d", (long long)t,
                           i / width + 1, vocab - 1);
        if (i % width == 0 ? t == 0 : t != 0 && out[i - 1] == 0)
            return err_set(e, ERR_CONFIG,
                           "sample %zu has padding (0) before its tokens; padding must follow them",
                           i / width + 1);
        out[i] = (int32_t)t;
    }
    return 0;
}

/* Accepts (n, d), (n, time, d) and (n, rows, columns, channels); bytes of three dimensions are images of
 * one channel. */
static int shape_of(struct shape *s, const struct npy_array *a, struct err *e)
{
    size_t count = 1;

    *s = (struct shape){.n_dims = a->n_dims - 1};
    if (s->n_dims < 1)
        return err_set(e, ERR_CONFIG, "one dimension, expected (samples, values ...)");
    for (int i = 0; i < s->n_dims; i++) {
        count *= a->shape[i + 1] <= LAYER_VALUES_MAX ? a->shape[i + 1] : LAYER_VALUES_MAX + 1;
        if (count > LAYER_VALUES_MAX)
            return err_set(e, ERR_CONFIG, "more than %d values a sample", LAYER_VALUES_MAX);
        s->dim[i] = (int)a->shape[i + 1];
    }
    if (s->n_dims == 2 && a->type == NPY_U1)
        s->dim[s->n_dims++] = 1;
    return 0;
}

struct npy_half {
    size_t n, n_truth;
    struct shape shape;
    enum tensor_type type;
    void *x;
    int32_t *y;
    float *t;
    int n_targets;
    int n_columns;   /* of rows with a single 1, which are labels; 0: y are the labels themselves */
    int64_t *groups; /* (n_groups); NULL: none */
    size_t n_groups;
};

static int read_x(struct npy_half *h, const struct npy_array *a, const struct npy_options *o, struct err *e)
{
    if (shape_of(&h->shape, a, e) < 0)
        return e->code;
    h->n = a->shape[0];
    h->type = o->vocab ? TENSOR_I32 : a->type == NPY_U1 ? TENSOR_U8 : TENSOR_F32;
    if (o->vocab && (npy_is_float(a) || a->n_dims != 2))
        return err_set(e, ERR_CONFIG, "vocab=%d: tokens are integers (samples, time)", o->vocab);
    h->x = malloc(a->n * tensor_type_size(h->type));
    if (!h->x)
        return err_set(e, ERR_NOMEM, "no memory for %zu values", a->n);
    if (h->type == TENSOR_I32)
        return tokens_of(h->x, a, o->vocab, e);
    if (h->type == TENSOR_F32)
        return floats_of(h->x, a, e);
    memcpy(h->x, a->data, a->n);
    return 0;
}

/* The place of the only 1 in a row of zeros; -1: it is another row. */
static int one_hot(const struct npy_array *a, size_t row, size_t width)
{
    int place = -1;

    for (size_t k = 0; k < width; k++) {
        int64_t v = npy_integer(a, row * width + k);

        if (v != 0 && (v != 1 || place >= 0))
            return -1;
        place = v == 1 ? (int)k : place;
    }
    return place;
}

static int label_of(int32_t *out, const struct npy_array *a, size_t i, size_t width, int classes,
                    struct err *e)
{
    int64_t v = width > 1 ? one_hot(a, i, width) : npy_integer(a, i);
    int max = (classes ? classes : CLASSES_MAX) - 1;

    if (width > 1 && v < 0)
        return err_set(
            e, ERR_CONFIG,
            "%zu integers a sample, and those of sample %zu are not a single 1 among zeros: expected one "
            "label (y.argmax(1)), or floats as targets (y.astype(\"f4\"))",
            width, i + 1);
    if (v < 0 || v > max) {
        err_set(e, ERR_CONFIG, "label %lld of sample %zu, expected 0 to %d", (long long)v, i + 1, max);
        return err_hint(
            e, "numpy.unique(y, return_inverse=True)[1] numbers classes from 0; y.astype(\"f4\") makes "
               "numbers to regress of them.");
    }
    *out = (int32_t)v;
    return 0;
}

static int read_y(struct npy_half *h, const struct npy_array *a, const struct npy_options *o, struct err *e)
{
    size_t width = a->n / a->shape[0];

    h->n_truth = a->shape[0];
    if (npy_is_float(a)) {
        if (a->n_dims > 2 || width > LAYER_VALUES_MAX)
            return err_set(e, ERR_CONFIG, "%d dimensions, expected (samples) or (samples, targets)",
                           a->n_dims);
        h->n_targets = (int)width;
        h->t = malloc(a->n * sizeof *h->t);
        return h->t ? floats_of(h->t, a, e) : err_set(e, ERR_NOMEM, "no memory for %zu targets", a->n);
    }
    if (width > CLASSES_MAX)
        return err_set(e, ERR_CONFIG, "%zu integers a sample, expected one label", width);
    h->n_columns = width > 1 ? (int)width : 0;
    h->y = malloc(h->n_truth * sizeof *h->y);
    if (!h->y)
        return err_set(e, ERR_NOMEM, "no memory for %zu labels", h->n_truth);
    for (size_t i = 0; i < h->n_truth; i++)
        if (label_of(&h->y[i], a, i, width, o->classes, e) < 0)
            return e->code;
    return 0;
}

static int read_groups(struct npy_half *h, const struct npy_array *a, const struct npy_options *o,
                       struct err *e)
{
    (void)o;
    if (npy_is_float(a) || a->n != a->shape[0])
        return err_set(e, ERR_CONFIG, "expected an integer for each sample, its group");
    h->n_groups = a->n;
    h->groups = malloc(a->n * sizeof *h->groups);
    if (!h->groups)
        return err_set(e, ERR_NOMEM, "no memory for the groups of %zu samples", a->n);
    for (size_t i = 0; i < a->n; i++)
        h->groups[i] = npy_integer(a, i);
    return 0;
}

static int compare_groups(const void *a, const void *b, void *arg)
{
    const int64_t *groups = arg;
    int64_t x = groups[*(const uint32_t *)a], y = groups[*(const uint32_t *)b];

    return (x > y) - (x < y);
}

static int read_array(struct npy_half *h, const struct npy_source *s, const char *name,
                      int (*read)(struct npy_half *, const struct npy_array *, const struct npy_options *,
                                  struct err *),
                      const struct npy_options *o, struct err *e)
{
    uint8_t *bytes;
    struct npy_array a;
    size_t len;
    int rc;

    if (s->get(s, name, &bytes, &len, e) < 0)
        return e->code;
    rc = npy_parse(&a, bytes, len, e);
    if (rc == 0)
        rc = read(h, &a, o, e);
    free(bytes);
    return rc < 0 ? err_at(e, "%s", name) : 0;
}

static int check_numbers(const struct npy_half *h, const char *x, const char *y, struct err *e)
{
    return h->n == h->n_truth ? 0
                              : err_set(e, ERR_CONFIG, "%s has %zu sample%s, %s has %zu", x, h->n,
                                        h->n == 1 ? "" : "s", y, h->n_truth);
}

static int read_half(struct npy_half *h, const struct npy_source *s, const char *x, const char *y,
                     const struct npy_options *o, struct err *e)
{
    if (read_array(h, s, x, read_x, o, e) < 0 || read_array(h, s, y, read_y, o, e) < 0)
        return e->code;
    return check_numbers(h, x, y, e);
}

/* Samples whose labels or targets may be missing. */
static int read_whole(struct npy_half *h, const struct npy_source *s, const char *x, const char *y,
                      const struct npy_options *o, struct err *e)
{
    if (read_array(h, s, x, read_x, o, e) < 0)
        return e->code;
    if (read_array(h, s, y, read_y, o, e) < 0)
        return e->code == ERR_NOT_FOUND ? 0 : e->code;
    return check_numbers(h, x, y, e);
}

static int check_alike(const struct npy_half *a, const struct npy_half *b, struct err *e)
{
    static const char *const types[] = {
        [TENSOR_U8] = "bytes", [TENSOR_F32] = "floats", [TENSOR_I32] = "tokens"};
    char one[48], other[48];

    if (a->type == b->type && a->n_targets == b->n_targets && a->shape.n_dims == b->shape.n_dims &&
        memcmp(a->shape.dim, b->shape.dim, sizeof a->shape.dim) == 0)
        return 0;
    if (a->type != b->type)
        return err_set(e, ERR_CONFIG,
                       "training samples are %s, and test samples %s: both need one type, and one scale",
                       types[a->type], types[b->type]);
    if ((a->t == NULL) != (b->t == NULL))
        return err_set(e, ERR_CONFIG,
                       "y of the training half are %s, and of the test half %s; "
                       "y_test.astype(y_train.dtype) makes them alike",
                       a->t ? "floats" : "labels", b->t ? "floats" : "labels");
    if (a->n_targets != b->n_targets)
        return err_set(e, ERR_CONFIG, "a training sample has %d target%s, and a test sample %d", a->n_targets,
                       a->n_targets == 1 ? "" : "s", b->n_targets);
    return err_set(e, ERR_CONFIG, "training samples are of %s values, and test samples of %s",
                   shape_text(one, &a->shape), shape_text(other, &b->shape));
}

static int count_classes(const struct npy_half *h)
{
    int32_t max = h->n_columns > 2 ? h->n_columns - 1 : 1;

    for (size_t i = 0; h->y && i < h->n; i++)
        max = h->y[i] > max ? h->y[i] : max;
    return h->y ? max + 1 : 0;
}

/* x, or the test half of arrays that come in halves. */
static int open_whole(struct dataset *d, const struct npy_source *s, const struct npy_options *o,
                      struct err *e)
{
    struct npy_half h = {0};
    int rc = read_whole(&h, s, "x", "y", o, e);

    if (rc == ERR_NOT_FOUND && !h.x)
        rc = read_whole(&h, s, "x_test", "y_test", o, e);
    if (rc == ERR_NOT_FOUND)
        err_hint(e, "Arrays to predict are called x, with or without y, or x_test and y_test.");
    *d = (struct dataset){.n_test = h.n,
                          .shape = h.shape,
                          .x_type = h.type,
                          .test_x = h.x,
                          .test_y = h.y,
                          .n_classes = count_classes(&h),
                          .n_targets = h.n_targets,
                          .test_t = h.t,
                          .may_be_labels = h.t != NULL,
                          .vocab = o->vocab};
    if (rc < 0)
        dataset_clear(d);
    return rc;
}

static int take_groups(struct dataset *d, struct npy_half *h, const struct npy_source *s,
                       const struct npy_options *o, struct err *e)
{
    if (read_array(h, s, o->group, read_groups, o, e) < 0)
        return e->code;
    if (h->n_groups != h->n)
        return err_set(e, ERR_CONFIG, "%s has %zu groups, of %zu training samples", o->group, h->n_groups,
                       h->n);
    return dataset_number_groups(d, compare_groups, h->groups, e);
}

static int open_halves(struct dataset *d, const struct npy_source *s, const struct npy_options *o,
                       struct err *e)
{
    struct npy_half halves[2] = {0};
    bool is_one = false;
    int test_classes;
    int rc = read_half(&halves[0], s, "x_train", "y_train", o, e);

    if (rc == ERR_NOT_FOUND && !halves[0].x) {
        is_one = true;
        rc = read_half(&halves[0], s, "x", "y", o, e);
        if (rc == ERR_NOT_FOUND)
            err_hint(e, "Arrays are called x_train, y_train, x_test and y_test, or x and y.");
    }
    if (rc == 0 && !is_one) {
        rc = read_half(&halves[1], s, "x_test", "y_test", o, e);
        if (rc == 0)
            rc = check_alike(&halves[0], &halves[1], e);
    }
    *d = (struct dataset){.n_train = halves[0].n,
                          .n_test = halves[1].n,
                          .shape = halves[0].shape,
                          .x_type = halves[0].type,
                          .train_x = halves[0].x,
                          .test_x = halves[1].x,
                          .train_y = halves[0].y,
                          .test_y = halves[1].y,
                          .n_targets = halves[0].n_targets,
                          .train_t = halves[0].t,
                          .test_t = halves[1].t,
                          .may_be_labels = halves[0].t != NULL,
                          .vocab = o->vocab};
    if (rc == 0 && halves[0].y)
        d->n_classes = o->classes ? o->classes : count_classes(&halves[0]);
    test_classes = rc == 0 ? count_classes(&halves[1]) : 0;
    if (test_classes > d->n_classes && halves[1].y)
        rc = err_set(e, ERR_CONFIG, "y_test: label %d, the training labels end at %d", test_classes - 1,
                     d->n_classes - 1);
    if (rc == 0 && o->group[0])
        rc = take_groups(d, &halves[0], s, o, e);
    free(halves[0].groups);
    if (rc == 0 && is_one)
        rc = dataset_split(d, o->test, o->seed, e);
    if (rc < 0)
        dataset_clear(d);
    return rc;
}

static int open_source(struct dataset *d, const struct npy_source *s, const struct npy_options *o,
                       const struct data_use *use, struct err *e)
{
    return use->is_whole ? open_whole(d, s, o, e) : open_halves(d, s, o, e);
}

int npz_open(struct dataset *d, const char *arg, const char *path, const struct data_use *use, struct err *e)
{
    struct npy_options o = {.test = 0.2, .seed = 1};
    uint8_t *bytes;
    size_t len;
    int rc;

    if (data_options_as(&o, fields, NULL, "npz", arg, use, e) < 0)
        return e->code;
    if (data_read(&bytes, &len, path, e) < 0)
        return err_hint(e, "--data FILE names the .npz file.");
    rc = open_source(d, &(struct npy_source){.get = get_member, .zip = bytes, .zip_len = len}, &o, use, e);
    free(bytes);
    return rc < 0 ? err_at(e, "%s", path) : 0;
}

int npy_open(struct dataset *d, const char *arg, const char *path, const struct data_use *use, struct err *e)
{
    struct npy_options o = {.test = 0.2, .seed = 1};

    if (data_options_as(&o, fields, NULL, "npy", arg, use, e) < 0)
        return e->code;
    return open_source(d, &(struct npy_source){.get = get_file, .folder = path}, &o, use, e) < 0
               ? err_at(e, "%s", path)
               : 0;
}
