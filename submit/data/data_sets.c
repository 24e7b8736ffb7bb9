#include "submit/data/data_sets.h"

#include <stdio.h>
#include <string.h>

#include "shared/base/suggest.h"
#include "submit/data/preprocessing.h"

static const struct set {
    const char *name;
    int (*open)(struct dataset *d, const char *arg, const char *path, const struct data_use *use,
                struct err *e);
    bool is_drawn, has_groups;
} sets[] = {
#define SET(name, is_drawn, has_groups) {#name, name##_open, is_drawn, has_groups},
    DATA_SETS(SET)
#undef SET
};

enum { N_SETS = sizeof sets / sizeof sets[0] };

static int no_such_set(const char *name, struct err *e)
{
    const char *names[N_SETS + 1] = {0};

    for (size_t i = 0; i < N_SETS; i++)
        names[i] = sets[i].name;
    err_set(e, ERR_CONFIG, "no data set is called \"%s\"", name);
    return suggest_instead(name, names, e);
}

const char *dataset_name(size_t i)
{
    return i < N_SETS ? sets[i].name : NULL;
}

static const struct set *find_set(const char *name)
{
    size_t len = strcspn(name, ":");

    for (size_t i = 0; i < N_SETS; i++)
        if (strlen(sets[i].name) == len && memcmp(sets[i].name, name, len) == 0)
            return &sets[i];
    return NULL;
}

bool dataset_is_drawn(const char *name)
{
    const struct set *set = find_set(name);

    return set && set->is_drawn;
}

int dataset_group_by(char *name, size_t size, const char *column, struct err *e)
{
    const struct set *set = find_set(name);
    char option[DATASET_GROUP_LEN], more[DATASET_GROUP_LEN + 1];
    const char *given;

    if (!set || !set->has_groups)
        return err_set(e, ERR_CONFIG, "partition column:%s: data set %s has no columns to group samples by",
                       column, name);
    if (snprintf(option, sizeof option, "group=%s", column) >= (int)sizeof option || strpbrk(column, ",+"))
        return err_set(e, ERR_CONFIG,
                       "partition column:%s: a name has at most %zu characters, and no ',' or '+'", column,
                       sizeof option - sizeof "group=");
    given = strstr(name, "group=");
    if (given && (given[-1] == ':' || given[-1] == ',')) {
        size_t n = strcspn(given, ",");

        return n == strlen(option) && memcmp(given, option, n) == 0
                   ? 0
                   : err_set(e, ERR_CONFIG,
                             "partition column:%s and data set %s: two columns to group samples by", column,
                             name);
    }
    snprintf(more, sizeof more, "%c%s", strchr(name, ':') ? ',' : ':', option);
    if (strlen(name) + strlen(more) >= size)
        return err_set(e, ERR_CONFIG, "data set %s: more than %zu characters with %s", name, size - 1,
                       option);
    strcat(name, more);
    return 0;
}

void dataset_take_alias(char *name, size_t size)
{
    static const char alias[] = "cifar", meant[] = "cifar10";
    size_t len = strcspn(name, ":"), n = strlen(name);

    if (len != strlen(alias) || memcmp(name, alias, len) != 0 || n + sizeof meant - sizeof alias >= size)
        return;
    memmove(name + strlen(meant), name + len, n - len + 1);
    memcpy(name, meant, strlen(meant));
}

int dataset_check_name(const char *name, struct err *e)
{
    return find_set(name) ? 0 : no_such_set(name, e);
}

static int apply_preprocessing(const struct preprocessing *p, struct dataset *d, struct err *e)
{
    if (d->may_be_labels && p->n_classes > 0 && dataset_take_labels(d, e) < 0)
        return e->code;
    return preprocessing_apply(p, d, e);
}

int dataset_open_as(struct dataset *d, const char *name, const char *path, const struct data_use *use,
                    struct err *e)
{
    const struct set *set = find_set(name);
    const char *colon = strchr(name, ':');

    if (dataset_check_name(name, e) < 0)
        return e->code;
    if (set->open(d, colon ? colon + 1 : NULL, path, use, e) < 0)
        return err_at(e, "%s", name);
    if (!use->known || apply_preprocessing(use->known, d, e) == 0)
        return 0;
    dataset_clear(d);
    return err_at(e, "%s", name);
}

int dataset_open(struct dataset *d, const char *name, const char *path, struct err *e)
{
    return dataset_open_as(d, name, path, &(struct data_use){0}, e);
}
