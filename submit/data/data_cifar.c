/* CIFAR-10 and CIFAR-100 in their binary form (Krizhevsky 2009,
 * https://www.cs.toronto.edu/~kriz/cifar.html): a record is a label (CIFAR-100: a coarse and a fine one),
 * then 32 x 32 bytes each of red, green and blue. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/file.h"
#include "submit/data/data_file.h"
#include "submit/data/data_formats.h"
#include "submit/data/data_sets.h"

enum { SIDE = 32, PLANE = SIDE * SIDE, CHANNELS = 3, PIXELS = PLANE * CHANNELS };

int cifar_count(size_t *n, size_t len, const struct cifar_form *form, struct err *e)
{
    size_t record = (size_t)form->label_bytes + PIXELS;

    if (len == 0 || len % record != 0)
        return err_set(e, ERR_CONFIG, "%zu bytes are not a whole number of records of %zu bytes", len,
                       record);
    *n = len / record;
    return 0;
}

int cifar_unpack(uint8_t *x, int32_t *y, const uint8_t *bytes, size_t n, const struct cifar_form *form,
                 struct err *e)
{
    for (size_t i = 0; i < n; i++) {
        y[i] = bytes[form->label_at];
        if (y[i] >= form->n_classes)
            return err_set(e, ERR_CONFIG, "record %zu: label %d, expected 0 to %d", i, y[i],
                           form->n_classes - 1);
        bytes += form->label_bytes;
        for (size_t k = 0; k < PLANE; k++)
            for (size_t c = 0; c < CHANNELS; c++)
                *x++ = bytes[c * PLANE + k];
        bytes += PIXELS;
    }
    return 0;
}

struct cifar_half {
    uint8_t *x;
    int32_t *y;
    size_t n;
};

/* Appends the records of one file. */
static int append_batch(struct cifar_half *h, const char *path, const struct cifar_form *form, struct err *e)
{
    uint8_t *bytes, *x;
    int32_t *y;
    size_t len;
    size_t n = 0;

    if (data_read(&bytes, &len, path, e) < 0)
        return e->code;
    if (cifar_count(&n, len, form, e) < 0)
        goto done;
    x = realloc(h->x, (h->n + n) * PIXELS);
    h->x = x ? x : h->x;
    y = realloc(h->y, (h->n + n) * sizeof *y);
    h->y = y ? y : h->y;
    e->code = x && y ? cifar_unpack(h->x + h->n * PIXELS, h->y + h->n, bytes, n, form, e)
                     : err_set(e, ERR_NOMEM, "no memory for %zu images", h->n + n);
    if (e->code == 0)
        h->n += n;
done:
    free(bytes);
    return e->code < 0 ? err_at(e, "%s", path) : 0;
}

/* "PREFIX*.bin" or "PREFIX*.bin.gz"? */
static bool is_batch(const char *name, const char *prefix)
{
    size_t len = strlen(name);

    if (len > 3 && strcmp(name + len - 3, ".gz") == 0)
        len -= 3;
    return strncmp(name, prefix, strlen(prefix)) == 0 && len >= strlen(prefix) + 4 &&
           memcmp(name + len - 4, ".bin", 4) == 0;
}

static bool is_packed_copy(const char *name, const char *before)
{
    size_t len = strlen(before);

    return strncmp(name, before, len) == 0 && strcmp(name + len, ".gz") == 0;
}

/* Reads all files of a half in order of their names; if a file exists plain and packed, the plain one. */
static int read_half(struct cifar_half *h, const char *dir, const char *prefix, const struct cifar_form *form,
                     struct err *e)
{
    struct dirent **names = NULL;
    int n = scandir(dir, &names, NULL, alphasort);
    const char *before = "";
    char path[PATH_MAX];
    int rc = 0;

    for (int i = 0; i < n && rc == 0; i++) {
        const char *name = names[i]->d_name;

        if (!is_batch(name, prefix) || is_packed_copy(name, before))
            continue;
        before = name;
        rc = file_join(path, sizeof path, dir, name, e);
        if (rc == 0)
            rc = append_batch(h, path, form, e);
    }
    for (int i = 0; i < n; i++)
        free(names[i]);
    free(names);
    if (rc == 0 && h->n == 0) {
        rc = err_set(e, ERR_NOT_FOUND, "%s: no file %s*.bin or %s*.bin.gz", dir, prefix, prefix);
        err_hint(e, "--data DIR names the folder with the files of the binary version from "
                    "https://www.cs.toronto.edu/~kriz/cifar.html, plain or packed by gzip.");
    }
    return rc;
}

/* As a whole: one file, or the test half of the folder. */
static int open_set(struct dataset *d, const char *path, const char *train, const char *test,
                    const struct cifar_form *form, const struct data_use *use, struct err *e)
{
    struct cifar_half halves[2] = {0};

    e->code = 0;
    if (use->is_whole && !data_is_folder(path))
        append_batch(&halves[1], path, form, e);
    else if (use->is_whole || read_half(&halves[0], path, train, form, e) == 0)
        read_half(&halves[1], path, test, form, e);
    *d = (struct dataset){.n_train = halves[0].n,
                          .n_test = halves[1].n,
                          .shape = {.n_dims = 3, .dim = {SIDE, SIDE, CHANNELS}},
                          .x_type = TENSOR_U8,
                          .n_classes = form->n_classes,
                          .train_x = halves[0].x,
                          .train_y = halves[0].y,
                          .test_x = halves[1].x,
                          .test_y = halves[1].y};
    if (e->code < 0)
        dataset_clear(d);
    return e->code;
}

int cifar10_open(struct dataset *d, const char *arg, const char *path, const struct data_use *use,
                 struct err *e)
{
    static const struct json_field none[] = {{0}};
    static const struct cifar_form form = {.label_bytes = 1, .label_at = 0, .n_classes = 10};

    if (data_options(NULL, none, NULL, arg, e) < 0)
        return e->code;
    return open_set(d, path, "data_batch", "test_batch", &form, use, e);
}

int cifar100_open(struct dataset *d, const char *arg, const char *path, const struct data_use *use,
                  struct err *e)
{
    struct {
        char labels[8];
    } o = {"fine"};
    const struct json_field fields[] = {
        {"labels", JSON_FIELD_TEXT, .offset = 0, .size = sizeof o.labels, .choices = "fine|coarse"}, {0}};
    struct cifar_form form = {.label_bytes = 2, .label_at = 1, .n_classes = 100};

    if (data_options_as(&o, fields, NULL, "cifar100", arg, use, e) < 0)
        return e->code;
    if (strcmp(o.labels, "coarse") == 0) {
        form.label_at = 0;
        form.n_classes = 20;
    }
    return open_set(d, path, "train", "test", &form, use, e);
}
