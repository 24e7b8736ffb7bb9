#include "submit/data/data_sets.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/choice.h"
#include "shared/base/number.h"
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

enum { N_SETS = sizeof sets / sizeof sets[0], ARG_MAX_LEN = 255 };

static int no_such_set(const char *name, struct err *e)
{
    const char *names[N_SETS + 1] = {0};

    for (size_t i = 0; i < N_SETS; i++)
        names[i] = sets[i].name;
    err_set(e, ERR_CONFIG, "no data set is called \"%s\"", name);
    return choice_suggest(name, names, e);
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

/* Converts text to the type in the table; the value of an unknown key stays text, and is refused later. */
static json_t *value_json(const struct json_field *fields, const char *key, const char *value)
{
    const struct json_field *f = fields;
    char *end;

    while (f->key && strcmp(f->key, key) != 0)
        f++;
    if (f->key && (f->kind == JSON_FIELD_INT || f->kind == JSON_FIELD_U64) && value[0] &&
        strlen(value) < 19 && strspn(value, "0123456789") == strlen(value))
        return json_integer(strtoll(value, NULL, 10));
    if (f->key && f->kind == JSON_FIELD_DOUBLE && value[0] &&
        strspn(value, "0123456789.eE-") == strlen(value)) {
        double v = strtod(value, &end);

        if (!*end)
            return json_real(v);
    }
    return json_string(value);
}

static int add_option(json_t *o, const struct json_field *fields, const char *key, const char *value,
                      struct err *e)
{
    json_t *v;

    if (json_object_get(o, key))
        return err_set(e, ERR_CONFIG, "\"%s\" is given twice", key);
    v = value_json(fields, key, value);
    return v && json_object_set_new(o, key, v) == 0
               ? 0
               : err_set(e, ERR_CONFIG, "an option that is not UTF-8 text");
}

/* Converts "KEY=VALUE,..." to a JSON object, so that one table has the keys, types and limits; the caller
 * frees it. */
static int parse_options(json_t **out, const struct json_field *fields, const char *bare, const char *arg,
                         struct err *e)
{
    char copy[ARG_MAX_LEN + 1];
    char *rest = copy;
    char *text;
    json_t *o;
    int rc = 0;

    if (!arg[0] || strlen(arg) > ARG_MAX_LEN)
        return err_set(e, ERR_CONFIG, arg[0] ? "more than %d characters of options" : "no options after ':'",
                       ARG_MAX_LEN);
    memcpy(copy, arg, strlen(arg) + 1);
    o = json_object();
    while (rc == 0 && (text = strsep(&rest, ",")) != NULL) {
        char *value = strchr(text, '=');

        if (value)
            *value++ = '\0';
        if (!value && !bare)
            rc = err_set(e, ERR_CONFIG, "\"%s\" is not KEY=VALUE", text);
        else
            rc = add_option(o, fields, value ? text : bare, value ? value : text, e);
    }
    if (rc < 0)
        json_decref(o);
    else
        *out = o;
    return rc;
}

/* is_record: sets only the options that samples of the record's set depend on. */
static int set_options(void *out, const struct json_field *fields, const char *bare, const char *arg,
                       bool is_record, struct err *e)
{
    json_t *o;
    int rc;

    if (!arg)
        return 0;
    if (parse_options(&o, fields, bare, arg, e) < 0)
        return e->code;
    for (const struct json_field *f = fields; is_record && f->key; f++)
        if (f->may_change)
            json_object_del(o, f->key);
    rc = json_to_struct(out, o, fields, "", e);
    json_decref(o);
    return rc;
}

int data_options(void *out, const struct json_field *fields, const char *bare, const char *arg, struct err *e)
{
    return set_options(out, fields, bare, arg, false, e);
}

/* The value of a field as an option has it. */
static void value_text(char out[NUMBER_TEXT_MAX], const json_t *options, const char *key)
{
    const json_t *v = json_object_get(options, key);

    if (json_is_string(v))
        snprintf(out, NUMBER_TEXT_MAX, "%.31s", json_string_value(v));
    else
        number_text(out, json_number_value(v));
}

static int check_unchanged(const json_t *then, const json_t *now, const struct json_field *fields,
                           struct err *e)
{
    for (const struct json_field *f = fields; f->key; f++) {
        char one[NUMBER_TEXT_MAX], other[NUMBER_TEXT_MAX];

        if (f->may_change || json_equal(json_object_get(then, f->key), json_object_get(now, f->key)))
            continue;
        value_text(one, now, f->key);
        value_text(other, then, f->key);
        err_set(e, ERR_CONFIG, "%s=%s: the model was trained with %s=%s", f->key, one, f->key, other);
        return err_hint(e, "Leave %s out: it is the model's.", f->key);
    }
    return 0;
}

int data_options_as(void *out, const struct json_field *fields, const char *bare, const char *name,
                    const char *arg, const struct data_use *use, struct err *e)
{
    const char *known = use->known ? use->known->dataset : "";
    size_t len = strcspn(known, ":");
    json_t *then, *now;

    if (strlen(name) != len || memcmp(name, known, len) != 0)
        return data_options(out, fields, bare, arg, e);
    if (set_options(out, fields, bare, known[len] ? known + len + 1 : NULL, true, e) < 0)
        return err_at(e, "the model's data set %s", known);
    then = json_from_struct(out, fields);
    if (data_options(out, fields, bare, arg, e) < 0) {
        json_decref(then);
        return e->code;
    }
    now = json_from_struct(out, fields);
    e->code = then && now ? 0 : err_set(e, ERR_NOMEM, "no memory for the options of data set %s", name);
    if (e->code == 0)
        check_unchanged(then, now, fields, e);
    json_decref(then);
    json_decref(now);
    return e->code;
}
