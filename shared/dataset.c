#include "shared/dataset.h"

#include <stdlib.h>
#include <string.h>

#include "shared/data_sets.h"
#include "shared/suggest.h"

static const struct {
    const char *name;
    int (*open)(struct dataset *d, const char *arg, const char *path, struct err *e);
} sets[] = {
    {"digits", digits_open},     {"mnist", mnist_open},   {"idx", idx_open}, {"cifar10", cifar10_open},
    {"cifar100", cifar100_open}, {"csv", csv_open},       {"npz", npz_open}, {"npy", npy_open},
    {"text", text_open},         {"simlin", simlin_open},
};

enum { N_SETS = sizeof sets / sizeof sets[0], NAME_LEN = 64 };

static int no_such_set(const char *name, struct err *e)
{
    const char *names[N_SETS + 1] = {0};
    char list[N_SETS * NAME_LEN] = "";
    const char *near;

    for (size_t i = 0; i < N_SETS; i++) {
        names[i] = sets[i].name;
        strcat(strcat(list, i ? ", " : ""), names[i]);
    }
    near = suggest(name, names);
    err_set(e, ERR_CONFIG, "no data set is called \"%s\"; there are: %s", name, list);
    return near ? err_hint(e, "did you mean \"%s\"?", near) : e->code;
}

int dataset_open(struct dataset *d, const char *name, const char *path, struct err *e)
{
    const char *colon = strchr(name, ':');
    size_t len = colon ? (size_t)(colon - name) : strlen(name);

    for (size_t i = 0; i < N_SETS; i++) {
        if (strlen(sets[i].name) != len || memcmp(sets[i].name, name, len) != 0)
            continue;
        if (sets[i].open(d, colon ? colon + 1 : NULL, path, e) < 0)
            return err_at(e, "%s", name);
        return 0;
    }
    return no_such_set(name, e);
}

void dataset_clear(struct dataset *d)
{
    free(d->train_x);
    free(d->train_y);
    free(d->test_x);
    free(d->test_y);
    free(d->train_t);
    free(d->test_t);
    free(d->class_names);
    *d = (struct dataset){0};
}
