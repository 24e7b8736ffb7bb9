#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include "shared/data_sets.h"
#include "shared/file.h"

enum { N_CLASSES = 10 };

/* The file as it is, or the packed one beside it. */
static int find(char path[PATH_MAX], const char *dir, const char *name, struct err *e)
{
    char packed[128];

    if (file_join(path, PATH_MAX, dir, name, e) < 0)
        return e->code;
    if (access(path, F_OK) == 0)
        return 0;
    snprintf(packed, sizeof packed, "%s.gz", name);
    if (file_join(path, PATH_MAX, dir, packed, e) < 0)
        return e->code;
    if (access(path, F_OK) == 0)
        return 0;
    err_set(e, ERR_NOT_FOUND, "%s/%s: not there, nor with .gz", dir, name);
    return err_hint(
        e, "put the four files {train,t10k}-{images-idx3,labels-idx1}-ubyte.gz there, for example from "
           "https://ossci-datasets.s3.amazonaws.com/mnist/; the data set \"digits\" needs no file");
}

static int check_labels(const int32_t *labels, size_t n_labels, size_t n_images, struct err *e)
{
    if (n_labels != n_images)
        return err_set(e, ERR_CONFIG, "%zu labels for %zu images", n_labels, n_images);
    for (size_t i = 0; i < n_labels; i++)
        if (labels[i] >= N_CLASSES)
            return err_set(e, ERR_CONFIG, "label %zu is %d, expected 0 to %d", i, labels[i], N_CLASSES - 1);
    return 0;
}

/* One half: "train" or "t10k". */
static int read_half(void **x, int32_t **y, size_t *n, int *rows, int *cols, const char *half,
                     const char *dir, struct err *e)
{
    uint8_t *pixels;
    char name[64], path[PATH_MAX];
    size_t n_labels;

    snprintf(name, sizeof name, "%s-images-idx3-ubyte", half);
    if (find(path, dir, name, e) < 0 || idx_read_images(&pixels, n, rows, cols, path, e) < 0)
        return e->code;
    *x = pixels;
    snprintf(name, sizeof name, "%s-labels-idx1-ubyte", half);
    if (find(path, dir, name, e) < 0 || idx_read_labels(y, &n_labels, path, e) < 0)
        return e->code;
    if (check_labels(*y, n_labels, *n, e) < 0)
        return err_at(e, "%s", path);
    return 0;
}

int mnist_open(struct dataset *d, const char *arg, const char *dir, struct err *e)
{
    int rows, cols, test_rows, test_cols;

    if (arg)
        return err_set(e, ERR_CONFIG, "nothing may stand behind \"mnist\", found \":%s\"", arg);
    *d = (struct dataset){.x_type = TENSOR_U8, .n_classes = N_CLASSES};
    if (read_half(&d->train_x, &d->train_y, &d->n_train, &rows, &cols, "train", dir, e) < 0 ||
        read_half(&d->test_x, &d->test_y, &d->n_test, &test_rows, &test_cols, "t10k", dir, e) < 0)
        goto fail;
    if (rows != test_rows || cols != test_cols) {
        err_set(e, ERR_CONFIG, "%s: test images are %d x %d, training images %d x %d", dir, test_rows,
                test_cols, rows, cols);
        goto fail;
    }
    d->shape = (struct shape){.n_dims = 3, .dim = {rows, cols, 1}};
    return 0;
fail:
    dataset_clear(d);
    return e->code;
}
