/* IDX, the format of MNIST (LeCun, Cortes, Burges), and data sets of four IDX files: MNIST, and any set in
 * its form (Fashion-MNIST, EMNIST, the user's own). A file is a magic number whose last byte counts the
 * dimensions, the dimensions, then bytes row by row; numbers are 32 bits, most significant byte first. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "submit/data/data_file.h"
#include "submit/data/data_formats.h"
#include "submit/data/data_sets.h"

enum { MAGIC_LABELS = 0x801, MAGIC_IMAGES = 0x803, SIDE_MAX = 4096 };

static uint32_t be32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* The name of a type of IDX; NULL: there is none. */
static const char *type_name(uint8_t type)
{
    static const struct {
        uint8_t type;
        const char *name;
    } types[] = {{0x08, "unsigned bytes"},      {0x09, "signed bytes"}, {0x0b, "integers of 2 bytes"},
                 {0x0c, "integers of 4 bytes"}, {0x0d, "floats"},       {0x0e, "doubles"}};

    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].type == type)
            return types[i].name;
    return NULL;
}

/* The error of another magic number: IDX of other values, or another format. */
static int refuse_magic(const uint8_t *bytes, size_t len, uint32_t magic, struct err *e)
{
    const char *what = magic == MAGIC_IMAGES ? "images" : "labels", *type = type_name(bytes[2]);

    if (bytes[0] == 0 && bytes[1] == 0 && type)
        return err_set(e, ERR_CONFIG, "it has %u dimension%s of %s, expected %u of unsigned bytes for %s",
                       bytes[3], bytes[3] == 1 ? "" : "s", type, magic & 0xff, what);
    if (data_refuse_kind(bytes, len, e) < 0)
        return err_at(e, "not an IDX file");
    return err_set(e, ERR_CONFIG, "not an IDX file of %s: it begins with 0x%08x, expected 0x%08x", what,
                   be32(bytes), magic);
}

/* Returns the header's length; *whole is that of the file. */
static int check_head(uint64_t *whole, const uint8_t *bytes, size_t len, uint32_t magic, uint32_t dims[3],
                      struct err *e)
{
    size_t n_dims = magic & 0xff;
    size_t header = 4 + 4 * n_dims;
    uint64_t want = 1;

    if (len < header)
        return err_set(e, ERR_CONFIG, "not an IDX file: a header of %zu bytes expected, %zu bytes found",
                       header, len);
    if (be32(bytes) != magic)
        return refuse_magic(bytes, len, magic, e);
    for (size_t i = 0; i < n_dims; i++) {
        dims[i] = be32(bytes + 4 + 4 * i);
        if (i == 0 && dims[i] == 0)
            return err_set(e, ERR_CONFIG, "it has no samples");
        if (dims[i] == 0 || (i > 0 && dims[i] > SIDE_MAX))
            return err_set(e, ERR_CONFIG, "dimension %zu of its header is %u", i, dims[i]);
        want *= dims[i]; /* at most 2^32 x 2^12 x 2^12 */
    }
    *whole = want + header;
    return (int)header;
}

int idx_check_header(const uint8_t *bytes, size_t len, uint32_t magic, uint32_t dims[3], struct err *e)
{
    uint64_t whole;
    int header = check_head(&whole, bytes, len, magic, dims, e);

    if (header >= 0 && len != whole)
        return err_set(e, ERR_CONFIG, "%llu bytes expected (%d of header, %u items), %zu bytes found",
                       (unsigned long long)whole, header, dims[0], len);
    return header;
}

static int images_promise(uint64_t *whole, const uint8_t *bytes, size_t len, struct err *e)
{
    uint32_t dims[3];

    return check_head(whole, bytes, len, MAGIC_IMAGES, dims, e);
}

static int labels_promise(uint64_t *whole, const uint8_t *bytes, size_t len, struct err *e)
{
    uint32_t dims[3];

    return check_head(whole, bytes, len, MAGIC_LABELS, dims, e);
}

static int read_idx(uint8_t **out, uint32_t dims[3], uint32_t magic, const char *path, struct err *e)
{
    uint8_t *bytes = NULL;
    size_t len = 0;
    int header;

    if (data_read_promised(&bytes, &len, magic == MAGIC_IMAGES ? images_promise : labels_promise, path, e) <
        0)
        return e->code;
    header = idx_check_header(bytes, len, magic, dims, e);
    if (header < 0) {
        free(bytes);
        return err_at(e, "%s", path);
    }
    memmove(bytes, bytes + header, len - (size_t)header);
    *out = bytes;
    return 0;
}

int idx_read_images(uint8_t **pixels, size_t *n, int *rows, int *cols, const char *path, struct err *e)
{
    uint32_t dims[3];

    if (read_idx(pixels, dims, MAGIC_IMAGES, path, e) < 0)
        return e->code;
    *n = dims[0];
    *rows = (int)dims[1];
    *cols = (int)dims[2];
    return 0;
}

int idx_read_labels(int32_t **labels, size_t *n, const char *path, struct err *e)
{
    uint8_t *bytes;
    uint32_t dims[3];

    if (read_idx(&bytes, dims, MAGIC_LABELS, path, e) < 0)
        return e->code;
    *labels = malloc(dims[0] * sizeof **labels);
    for (uint32_t i = 0; *labels && i < dims[0]; i++)
        (*labels)[i] = bytes[i];
    free(bytes);
    *n = dims[0];
    return *labels ? 0 : err_set(e, ERR_NOMEM, "no memory for %u labels", dims[0]);
}

struct idx_options {
    char prefix[64]; /* of the file names: "emnist-letters-" */
    int classes;     /* 0: the largest label plus one */
};

static const struct json_field fields[] = {
    {"prefix", JSON_FIELD_TEXT, JSON_AT(struct idx_options, prefix), .may_change = true},
    {"classes", JSON_FIELD_INT, JSON_AT(struct idx_options, classes), .min = 2, .max = 256},
    {0},
};

/* The names of the halves; the files of a half are "images-idx3" or, as unpacked by some programs,
 * "images.idx3". */
static const char *const train_names[] = {"train", NULL};
static const char *const test_names[] = {"t10k", "test", NULL};

/* `kind`: "images-idx3" or "labels-idx1". The error message has the first name. */
static int find_file(char path[PATH_MAX], const char *dir, const char *prefix, const char *const *names,
                     const char *kind, struct err *e)
{
    char name[128];
    struct err other;

    e->code = 0;
    for (int i = 0; names[i]; i++)
        for (const char *dot = "-."; *dot; dot++) {
            snprintf(name, sizeof name, "%s%s-%.6s%c%s-ubyte", prefix, names[i], kind, *dot, kind + 7);
            if (data_find(path, dir, name, e->code == 0 ? e : &other) == 0)
                return 0;
        }
    return err_hint(
        e, "put the four files {train,t10k}-{images-idx3,labels-idx1}-ubyte.gz there, for example from "
           "https://ossci-datasets.s3.amazonaws.com/mnist/; the data set \"digits\" needs no file");
}

static int read_images(void **x, size_t *n, struct shape *shape, const char *path, struct err *e)
{
    uint8_t *pixels;

    shape->n_dims = 3;
    shape->dim[2] = 1;
    if (idx_read_images(&pixels, n, &shape->dim[0], &shape->dim[1], path, e) < 0)
        return e->code;
    *x = pixels;
    return 0;
}

static int read_half(void **x, int32_t **y, size_t *n, struct shape *shape, const char *const *names,
                     const char *prefix, const char *dir, struct err *e)
{
    char path[PATH_MAX];
    size_t n_labels;

    if (find_file(path, dir, prefix, names, "images-idx3", e) < 0 || read_images(x, n, shape, path, e) < 0)
        return e->code;
    if (find_file(path, dir, prefix, names, "labels-idx1", e) < 0 ||
        idx_read_labels(y, &n_labels, path, e) < 0)
        return e->code;
    if (n_labels != *n)
        return err_set(e, ERR_CONFIG, "%s: %zu labels for %zu images", path, n_labels, *n);
    return 0;
}

static int largest(const int32_t *labels, size_t n)
{
    int32_t max = 1;

    for (size_t i = 0; i < n; i++)
        max = labels[i] > max ? labels[i] : max;
    return max;
}

static int check_labels(const int32_t *labels, size_t n, int n_classes, const char *half, struct err *e)
{
    for (size_t i = 0; i < n; i++)
        if (labels[i] >= n_classes)
            return err_set(e, ERR_CONFIG, "%s label %zu is %d, expected 0 to %d", half, i, labels[i],
                           n_classes - 1);
    return 0;
}

static int open_set(struct dataset *d, const struct idx_options *o, const char *dir, struct err *e)
{
    struct shape test;

    *d = (struct dataset){.x_type = TENSOR_U8};
    if (read_half(&d->train_x, &d->train_y, &d->n_train, &d->shape, train_names, o->prefix, dir, e) < 0 ||
        read_half(&d->test_x, &d->test_y, &d->n_test, &test, test_names, o->prefix, dir, e) < 0)
        goto fail;
    if (d->shape.dim[0] != test.dim[0] || d->shape.dim[1] != test.dim[1]) {
        err_set(e, ERR_CONFIG, "%s: test images are %d x %d, training images %d x %d", dir, test.dim[0],
                test.dim[1], d->shape.dim[0], d->shape.dim[1]);
        goto fail;
    }
    d->n_classes = o->classes ? o->classes : largest(d->train_y, d->n_train) + 1;
    if (check_labels(d->train_y, d->n_train, d->n_classes, "training", e) < 0 ||
        check_labels(d->test_y, d->n_test, d->n_classes, "test", e) < 0)
        goto fail;
    return 0;
fail:
    dataset_clear(d);
    return e->code;
}

/* One file of images, or the test half of a folder, whose labels may be missing. */
static int open_whole(struct dataset *d, const struct idx_options *o, const char *path, struct err *e)
{
    bool is_folder = data_is_folder(path);
    int rc;

    *d = (struct dataset){.x_type = TENSOR_U8};
    rc = is_folder ? read_half(&d->test_x, &d->test_y, &d->n_test, &d->shape, test_names, o->prefix, path, e)
                   : read_images(&d->test_x, &d->n_test, &d->shape, path, e);
    if (rc == ERR_NOT_FOUND && is_folder && d->test_x)
        rc = 0; /* images without labels */
    if (rc == 0 && d->test_y)
        d->n_classes = largest(d->test_y, d->n_test) + 1;
    if (rc < 0)
        dataset_clear(d);
    return rc;
}

int idx_open(struct dataset *d, const char *arg, const char *path, const struct data_use *use, struct err *e)
{
    struct idx_options o = {0};

    if (data_options_as(&o, fields, NULL, "idx", arg, use, e) < 0)
        return e->code;
    return use->is_whole ? open_whole(d, &o, path, e) : open_set(d, &o, path, e);
}

int mnist_open(struct dataset *d, const char *arg, const char *path, const struct data_use *use,
               struct err *e)
{
    static const struct json_field none[] = {{0}};
    struct idx_options o = {.classes = 10};

    if (data_options(&o, none, NULL, arg, e) < 0)
        return e->code;
    return use->is_whole ? open_whole(d, &o, path, e) : open_set(d, &o, path, e);
}
