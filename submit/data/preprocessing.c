#include "submit/data/preprocessing.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/json.h"
#include "submit/data/layout.h"

enum { VERSION = 1, NAMES_SHOWN = 400, FIRST_WORD = 2 };

static const char *const types[] = {
    [TENSOR_F32] = "floats", [TENSOR_U8] = "bytes", [TENSOR_I32] = "tokens", NULL};

void preprocessing_clear(struct preprocessing *p)
{
    names_clear(&p->columns);
    names_clear(&p->classes);
    names_clear(&p->words);
    transform_moments_clear(&p->moments);
    free(p->merges);
    *p = (struct preprocessing){0};
}

static json_t *shape_json(const struct shape *s)
{
    json_t *a = json_array();

    for (int i = 0; i < s->n_dims; i++)
        json_array_append_new(a, json_integer(s->dim[i]));
    return a;
}

static json_t *dimensions_json(const struct preprocessing *p)
{
    json_t *a = json_array();

    for (int i = 0; i < p->shape.n_dims; i++)
        json_array_append_new(a, json_string(layout_dimension(&p->shape, p->type == TENSOR_I32, i)));
    return a;
}

static json_t *names_or_null(const struct names *s)
{
    return s->n ? names_json(s) : json_null();
}

static json_t *numbers_or_null(const double *v, size_t n)
{
    json_t *a = n ? json_array() : json_null();

    for (size_t i = 0; i < n; i++)
        json_array_append_new(a, json_real(v[i]));
    return a;
}

static json_t *merges_json(const struct preprocessing *p)
{
    json_t *a = json_array();

    for (size_t i = 0; i < p->n_merges; i++) {
        json_array_append_new(a, json_integer(p->merges[i].left));
        json_array_append_new(a, json_integer(p->merges[i].right));
    }
    return a;
}

json_t *preprocessing_json(const struct preprocessing *p)
{
    const struct transform_moments *m = &p->moments;
    json_t *o;

    o = json_pack("{s:i, s:o, s:s, s:o, s:o, s:o, s:i, s:i, s:o, s:i, s:i, s:o, s:s, s:o, s:o}", "version",
                  VERSION, "dataset", json_text(p->dataset, SIZE_MAX), "type", types[p->type], "shape",
                  shape_json(&p->shape), "dimensions", dimensions_json(p), "columns",
                  names_or_null(&p->columns), "learned_at", p->learned_at, "n_classes", p->n_classes,
                  "class_names", names_or_null(&p->classes), "n_targets", p->n_targets, "vocab", p->vocab,
                  "words", p->words.n ? names_words_json(&p->words) : json_null(), "transform", p->transform,
                  "mean", numbers_or_null(m->mean, m->n), "deviation", numbers_or_null(m->deviation, m->n));
    if (o && p->n_merges > 0)
        json_object_set_new(o, "merges", merges_json(p));
    return o;
}

/* *to: NULL if there are none. */
static int copy_merges(struct token_merge **to, size_t *n_to, const struct token_merge *from, size_t n,
                       struct err *e)
{
    *n_to = n;
    *to = n > 0 ? malloc(n * sizeof **to) : NULL;
    if (n > 0 && !*to)
        return err_set(e, ERR_NOMEM, "no memory for %zu merges", n);
    if (n > 0)
        memcpy(*to, from, n * sizeof **to);
    return 0;
}

int preprocessing_copy_merges(const struct preprocessing *p, struct token_merge **merges, size_t *n,
                              struct err *e)
{
    return copy_merges(merges, n, p->merges, p->n_merges, e);
}

int preprocessing_check_merges(const struct preprocessing *p, const struct token_merge *merges, size_t n,
                               struct err *e)
{
    if (n == p->n_merges && (n == 0 || memcmp(merges, p->merges, n * sizeof *merges) == 0))
        return 0;
    err_set(e, ERR_CONFIG, "the text was tokenized with other merges than that of the model");
    return err_hint(e, "Give the text itself: it is tokenized with the merges of the model.");
}

/* The document must fit the metadata of a model's file. */
static int check_length(const struct preprocessing *p, struct err *e)
{
    json_t *doc = preprocessing_json(p);
    char *line = doc ? json_dump(doc, JSON_COMPACT) : NULL;
    size_t len = line ? strlen(line) : 0;

    json_decref(doc);
    free(line);
    if (!line)
        return err_set(e, ERR_NOMEM, "no memory for the preprocessing record");
    if (len <= PREPROCESSING_MAX)
        return 0;
    err_set(e, ERR_CONFIG,
            "the words, classes and columns that the model's file keeps would be %zu bytes, at most %d", len,
            PREPROCESSING_MAX);
    return p->words.n ? err_hint(e, "--dataset text:vocab=N keeps the N most frequent words.") : e->code;
}

static int copy_names(struct preprocessing *p, const struct dataset *d, struct err *e)
{
    if (d->class_names && names_copy(&p->classes, d->class_names, (size_t)d->n_classes, e) < 0)
        return e->code;
    if (copy_merges(&p->merges, &p->n_merges, d->stream.merges, d->stream.n_merges, e) < 0)
        return e->code;
    if (d->words && names_copy(&p->words, d->words, (size_t)(d->vocab - FIRST_WORD), e) < 0)
        return e->code;
    return d->columns ? names_copy(&p->columns, d->columns, (size_t)d->shape.dim[0] + 1, e) : 0;
}

bool preprocessing_has_meaning(const struct preprocessing *p)
{
    return p->words.n || p->classes.n || p->columns.n || p->moments.n || p->n_merges;
}

/* Removes "test_file=..." from the options of a set: a model's file is copied to other machines, where the
 * path means nothing. */
static void remove_test_file(char *dataset)
{
    static const char key[] = "test_file=";
    char *at = strchr(dataset, ':');

    while (at && strncmp(at + 1, key, strlen(key)) != 0)
        at = strchr(at + 1, ',');
    if (!at)
        return;
    if (at[strcspn(at + 1, ",") + 1] == ',')
        memmove(at + 1, strchr(at + 1, ',') + 1, strlen(strchr(at + 1, ',') + 1) + 1);
    else
        *at = '\0';
}

/* Tokens of a stream have a narrower type than the record's. */
static enum tensor_type type_of(const struct dataset *d)
{
    return dataset_has_tokens(d) ? TENSOR_I32 : d->x_type;
}

int preprocessing_learn(struct preprocessing *out, const struct dataset *d, const char *dataset,
                        const char *transform, struct err *e)
{
    struct preprocessing p = {.type = type_of(d),
                              .shape = d->shape,
                              .n_classes = d->n_classes,
                              .n_targets = d->n_targets,
                              .vocab = d->vocab,
                              .learned_at = d->learned_at};
    struct transform t;

    snprintf(p.dataset, sizeof p.dataset, "%s", dataset);
    remove_test_file(p.dataset);
    snprintf(p.transform, sizeof p.transform, "%s", transform);
    if (transform_parse(&t, transform, e) < 0)
        return err_at(e, "transform");
    if (transform_learn(&p.moments, &t, d, e) == 0 && copy_names(&p, d, e) == 0 && check_length(&p, e) == 0) {
        *out = p;
        return 0;
    }
    preprocessing_clear(&p);
    return e->code;
}

typedef int names_parser(struct names *out, const json_t *v, const char *at, struct err *e);

static int parse_names(struct names *out, names_parser *parse, const json_t *doc, const char *key, size_t n,
                       bool are_unique, struct err *e)
{
    const json_t *v = json_object_get(doc, key);
    char at[32];

    snprintf(at, sizeof at, "/%s", key);
    if (!v || json_is_null(v))
        return 0;
    if (parse(out, v, at, e) < 0)
        return e->code;
    if (out->n != n || n == 0)
        return err_set(e, ERR_CONFIG, "%s: %zu texts, and by the rest of the record %zu", at, out->n, n);
    return are_unique && !names_are_unique(out) ? err_set(e, ERR_CONFIG, "%s: a text occurs twice", at) : 0;
}

static int parse_numbers(double *out, const json_t *doc, const char *key, size_t n, double least,
                         struct err *e)
{
    const json_t *list = json_object_get(doc, key), *v;
    size_t i;

    if (json_array_size(list) != n)
        return err_set(e, ERR_CONFIG, "/%s: expected %zu numbers, one for each of the last dimension", key,
                       n);
    json_array_foreach(list, i, v)
    {
        out[i] = json_number_value(v);
        if (!json_is_number(v) || !isfinite(out[i]) || out[i] < least)
            return err_set(e, ERR_CONFIG, "/%s/%zu: not a number that it can be", key, i);
    }
    return 0;
}

static int parse_moments(struct preprocessing *p, const json_t *doc, struct err *e)
{
    struct transform_moments *m = &p->moments;
    struct transform t;

    if (transform_parse(&t, p->transform, e) < 0)
        return err_at(e, "/transform");
    if (t.kind != TRANSFORM_STANDARD)
        return 0;
    if (p->type == TENSOR_I32)
        return err_set(e, ERR_CONFIG, "/transform: standard is for numbers, and the samples are tokens");
    m->n = (size_t)p->shape.dim[p->shape.n_dims - 1];
    m->mean = calloc(2 * m->n, sizeof *m->mean);
    if (!m->mean)
        return err_set(e, ERR_NOMEM, "no memory for the means of %zu columns", m->n);
    m->deviation = m->mean + m->n;
    return parse_numbers(m->mean, doc, "mean", m->n, -HUGE_VAL, e) < 0 ||
                   parse_numbers(m->deviation, doc, "deviation", m->n, 1e-300, e) < 0
               ? e->code
               : 0;
}

static int parse_merges(struct preprocessing *p, const json_t *list, struct err *e)
{
    size_t n = json_array_size(list);
    struct tokenizer checked;
    const json_t *v;
    size_t i;

    if (!list)
        return 0;
    if (n == 0 || n % 2 != 0 || n / 2 != (size_t)p->vocab - TOKENIZER_BYTES ||
        p->vocab > TOKENIZER_TOKENS_MAX)
        return err_set(e, ERR_CONFIG,
                       "/merges: %zu numbers, and by the rest of the record the vocabulary is %d", n,
                       p->vocab);
    p->n_merges = n / 2;
    p->merges = malloc(p->n_merges * sizeof *p->merges);
    if (!p->merges)
        return err_set(e, ERR_NOMEM, "no memory for %zu merges", p->n_merges);
    json_array_foreach(list, i, v)
    {
        json_int_t token = json_integer_value(v);

        if (!json_is_integer(v) || token < 0 || token >= TOKENIZER_TOKENS_MAX)
            return err_set(e, ERR_CONFIG, "/merges/%zu: not a token", i);
        *(i % 2 ? &p->merges[i / 2].right : &p->merges[i / 2].left) = (uint16_t)token;
    }
    if (tokenizer_init(&checked, p->merges, p->n_merges, e) < 0)
        return err_at(e, "/merges");
    tokenizer_clear(&checked);
    return 0;
}

/* Checks that all parts can be of one data set. */
static int check_parts(const struct preprocessing *p, struct err *e)
{
    if ((p->n_classes > 0) == (p->n_targets > 0))
        return err_set(e, ERR_CONFIG, "/n_classes: %d, with %d targets; expected one of the two",
                       p->n_classes, p->n_targets);
    if ((p->type == TENSOR_I32) != (p->vocab > 0) || (p->vocab > 0 && p->shape.n_dims != 1))
        return err_set(e, ERR_CONFIG, "/vocab: %d, with samples of %s", p->vocab, types[p->type]);
    if (p->learned_at > 0 && (p->shape.n_dims != 1 || p->learned_at > p->shape.dim[0] + 1))
        return err_set(e, ERR_CONFIG, "/learned_at: %d, and the samples are no rows of as many columns",
                       p->learned_at);
    return 0;
}

static int parse(struct preprocessing *p, const json_t *doc, struct err *e)
{
    static const char *const keys[] = {"version", "dataset",    "type",      "shape",       "dimensions",
                                       "columns", "learned_at", "n_classes", "class_names", "n_targets",
                                       "vocab",   "words",      "transform", "mean",        "deviation",
                                       "merges",  NULL};
    size_t width;
    int version, type;

    if (json_get_int(&version, doc, "version", 1, INT_MAX, "", e) < 0)
        return e->code;
    if (version != VERSION)
        return err_set(e, ERR_CONFIG, "/version: %d, and this version of psgd reads %d", version, VERSION);
    if (json_only_keys(doc, keys, "", e) < 0 ||
        json_get_text(p->dataset, sizeof p->dataset, doc, "dataset", "", e) < 0 ||
        json_get_text(p->transform, sizeof p->transform, doc, "transform", "", e) < 0 ||
        json_get_choice(&type, doc, "type", types, "", e) < 0 ||
        shape_parse(&p->shape, json_object_get(doc, "shape"), "/shape", e) < 0 ||
        json_get_int(&p->learned_at, doc, "learned_at", 0, LAYER_VALUES_MAX + 1, "", e) < 0 ||
        json_get_int(&p->n_classes, doc, "n_classes", 0, CLASSES_MAX, "", e) < 0 ||
        json_get_int(&p->n_targets, doc, "n_targets", 0, LAYER_VALUES_MAX, "", e) < 0 ||
        json_get_int(&p->vocab, doc, "vocab", 0, LAYER_VALUES_MAX, "", e) < 0)
        return e->code;
    p->type = (enum tensor_type)type;
    if (check_parts(p, e) < 0)
        return e->code;
    width = p->learned_at ? (size_t)p->shape.dim[0] + 1 : 0;
    if (parse_names(&p->columns, names_parse, doc, "columns", width, false, e) < 0 ||
        parse_names(&p->classes, names_parse, doc, "class_names", (size_t)p->n_classes, true, e) < 0 ||
        parse_names(&p->words, names_words_parse, doc, "words",
                    p->vocab > FIRST_WORD ? (size_t)p->vocab - FIRST_WORD : 0, true, e) < 0 ||
        parse_merges(p, json_object_get(doc, "merges"), e) < 0)
        return e->code;
    return parse_moments(p, doc, e);
}

int preprocessing_parse(struct preprocessing *out, const json_t *doc, struct err *e)
{
    *out = (struct preprocessing){0};
    if (!json_is_object(doc))
        return err_set(e, ERR_CONFIG, "not an object");
    if (parse(out, doc, e) == 0)
        return 0;
    preprocessing_clear(out);
    return e->code;
}

int preprocessing_of_file(struct preprocessing *out, const struct tensor_file *f, struct err *e)
{
    const char *text = tensor_file_meta(f, PREPROCESSING_META);
    json_t *doc;
    int rc;

    *out = (struct preprocessing){0};
    if (!text)
        return 0;
    if (json_parse(&doc, text, strlen(text), PREPROCESSING_META, e) < 0)
        return e->code;
    rc = preprocessing_parse(out, doc, e);
    json_decref(doc);
    return rc < 0 ? err_at(e, "its preprocessing record") : 1;
}

/* A key may be absent. */
static bool is_equal(const json_t *a, const json_t *b)
{
    return a && b ? json_equal(a, b) : a == b;
}

int preprocessing_check_same(const struct preprocessing *p, const struct preprocessing *q, const char *whose,
                             const char *other, struct err *e)
{
    static const struct {
        const char *key, *what;
    } parts[] = {{"type", "values of another type"},
                 {"shape", "samples of another shape"},
                 {"columns", "other columns"},
                 {"learned_at", "another column to learn"},
                 {"class_names", "other class names"},
                 {"n_classes", "another number of classes"},
                 {"n_targets", "another number of targets"},
                 {"words", "other words"},
                 {"vocab", "another vocabulary"},
                 {"merges", "other tokens"},
                 {"transform", "another transform"},
                 {"mean", "other means of its columns"},
                 {"deviation", "other deviations of its columns"}};
    json_t *a = preprocessing_json(p), *b = preprocessing_json(q);

    e->code = a && b ? 0 : err_set(e, ERR_NOMEM, "no memory to compare preprocessing records");
    for (size_t i = 0; e->code == 0 && i < sizeof parts / sizeof *parts; i++)
        if (!is_equal(json_object_get(a, parts[i].key), json_object_get(b, parts[i].key)))
            err_set(e, ERR_CONFIG, "%s has %s than %s", whose, parts[i].what, other);
    json_decref(a);
    json_decref(b);
    return e->code;
}

/* The number that a text is in decimal digits; -1: it is no number. */
static long number_of(const char *text, size_t len)
{
    char copy[8];

    if (len == 0 || len >= sizeof copy || (text[0] == '0' && len > 1))
        return -1;
    memcpy(copy, text, len);
    copy[len] = '\0';
    return strspn(copy, "0123456789") == len ? strtol(copy, NULL, 10) : -1;
}

static bool are_numbers(const struct names *s)
{
    for (size_t i = 0; i < s->n; i++)
        if (number_of(s->at[i], strlen(s->at[i])) < 0)
            return false;
    return s->n > 0;
}

long preprocessing_class(const struct preprocessing *p, const char *text, size_t len)
{
    long k;

    if (p->classes.n)
        return names_find(&p->classes, text, len);
    k = number_of(text, len);
    return k < p->n_classes ? k : -1;
}

int preprocessing_no_class(const struct preprocessing *p, const char *text, size_t len, struct err *e)
{
    char known[NAMES_SHOWN] = "";

    if (p->classes.n)
        names_text(known, sizeof known, &p->classes);
    else
        snprintf(known, sizeof known, "0 to %d", p->n_classes - 1);
    return err_set(e, ERR_CONFIG, "the label \"%.*s\" is none of the model's %d classes (%s)",
                   (int)(len < 60 ? len : 60), text, p->n_classes, known);
}

/* The record's number of class k of the data set, which is called `name`, or NULL; -1: none. */
static long class_of(const struct preprocessing *p, bool are_numbers_named, int k, const char *name)
{
    char text[16];

    snprintf(text, sizeof text, "%d", k);
    if (!name && p->classes.n && !are_numbers_named)
        return k < p->n_classes ? k : -1;
    return preprocessing_class(p, name ? name : text, strlen(name ? name : text));
}

static int unknown_label(const struct preprocessing *p, size_t i, int k, const char *name, struct err *e)
{
    char text[16];

    snprintf(text, sizeof text, "%d", k);
    preprocessing_no_class(p, name ? name : text, strlen(name ? name : text), e);
    return err_at(e, "sample %zu", i + 1);
}

/* Gives the n labels their numbers; `names`: (d->n_classes) of the data set, or n 0. */
static int relabel(int32_t *labels, size_t n, const struct preprocessing *p, const long *of,
                   const struct names *names, struct err *e)
{
    for (size_t i = 0; labels && i < n; i++) {
        int32_t k = labels[i];

        if (of[k] < 0)
            return unknown_label(p, i, k, names->n ? names->at[k] : NULL, e);
        labels[i] = (int32_t)of[k];
    }
    return 0;
}

static int apply_labels(const struct preprocessing *p, struct dataset *d, struct err *e)
{
    bool are_numbers_named = are_numbers(&p->classes);
    long *of = malloc((size_t)d->n_classes * sizeof *of);
    struct names names = {0};
    int rc = 0;

    if (!of)
        return err_set(e, ERR_NOMEM, "no memory for %d classes", d->n_classes);
    if (d->class_names)
        rc = names_copy(&names, d->class_names, (size_t)d->n_classes, e);
    for (int k = 0; rc == 0 && k < d->n_classes; k++)
        of[k] = class_of(p, are_numbers_named, k, names.n ? names.at[k] : NULL);
    if (rc == 0 && (relabel(d->train_y, d->n_train, p, of, &names, e) < 0 ||
                    relabel(d->test_y, d->n_test, p, of, &names, e) < 0))
        rc = e->code;
    names_clear(&names);
    free(of);
    return rc;
}

/* Replaces the classes of the data set by those of the record. */
static int take_classes(const struct preprocessing *p, struct dataset *d, struct err *e)
{
    char *names = p->classes.n ? names_packed(&p->classes) : NULL;

    if (p->classes.n && !names)
        return err_set(e, ERR_NOMEM, "no memory for the names of %d classes", p->n_classes);
    free(d->class_names);
    d->class_names = names;
    d->n_classes = p->n_classes;
    d->n_targets = p->n_targets;
    d->vocab = p->vocab;
    return 0;
}

static int check_form(const struct preprocessing *p, const struct dataset *d, struct err *e)
{
    int n = shape_count(&p->shape), found = shape_count(&d->shape);

    if (n != found)
        return err_set(e, ERR_CONFIG, "the model takes %d values per sample, the data set has %d", n, found);
    if (layout_check("the model", &p->shape, &d->shape, dataset_has_tokens(d), e) < 0)
        return e->code;
    if (p->type != type_of(d)) {
        err_set(e, ERR_CONFIG, "the model was trained on %s, and the data set has %s", types[p->type],
                types[type_of(d)]);
        return p->type == TENSOR_U8 && d->x_type == TENSOR_F32
                   ? err_hint(e, "x.astype('uint8') makes bytes of numbers from 0 to 255, (255 * "
                                 "x).round().astype('uint8') of those from 0 to 1.")
               : p->type == TENSOR_F32 && d->x_type == TENSOR_U8
                   ? err_hint(e,
                              "If the training data had numbers from 0 to 255: x.astype('float32'); from 0 "
                              "to 1: (x / 255).astype('float32').")
                   : e->code;
    }
    return d->vocab > p->vocab
               ? err_set(e, ERR_CONFIG, "the model knows %d tokens, the data set has %d", p->vocab, d->vocab)
               : 0;
}

static int check_truth(const struct preprocessing *p, const struct dataset *d, struct err *e)
{
    bool has_labels = d->train_y || d->test_y, has_targets = d->train_t || d->test_t;

    if (has_labels && p->n_targets > 0)
        return err_set(e, ERR_CONFIG, "the model predicts %d value%s, and the data set has labels",
                       p->n_targets, p->n_targets == 1 ? "" : "s");
    if (has_targets && p->n_classes > 0)
        return err_set(e, ERR_CONFIG, "the model predicts one of %d classes, and the data set has targets",
                       p->n_classes);
    return has_targets && d->n_targets != p->n_targets
               ? err_set(e, ERR_CONFIG, "the model predicts %d values, the data set has %d targets",
                         p->n_targets, d->n_targets)
               : 0;
}

int preprocessing_apply(const struct preprocessing *p, struct dataset *d, struct err *e)
{
    if (check_form(p, d, e) < 0 || check_truth(p, d, e) < 0)
        return e->code;
    if ((d->train_y || d->test_y) && apply_labels(p, d, e) < 0)
        return e->code;
    return take_classes(p, d, e);
}

int preprocessing_scale(struct transform_scale *s, const struct preprocessing *p, struct err *e)
{
    struct transform t;

    return transform_parse(&t, p->transform, e) < 0 ? err_at(e, "transform")
                                                    : transform_scale_of(s, &t, &p->moments, p->type, e);
}
