/* Data sets of four IDX files: MNIST, and any set in its form (Fashion-MNIST, EMNIST, the user's own). */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "submit/data/data_sets.h"

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
