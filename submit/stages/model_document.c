#include "submit/stages/model_document.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/file.h"
#include "shared/base/json.h"
#include "shared/job/model_spec.h"
#include "submit/codecs/codec_find.h"
#include "submit/data/data_sets.h"

struct model_options {
    int vocab, context; /* 0: those of the document */
};

static const struct json_field fields[] = {
    {"vocab", JSON_FIELD_INT, JSON_AT(struct model_options, vocab), .min = 2, .max = 1 << 24},
    {"context", JSON_FIELD_INT, JSON_AT(struct model_options, context), .min = 1, .max = 1 << 20},
    {0},
};

static bool is_kind(const json_t *layer, const char *kind)
{
    return strcmp(json_text_at(layer, "kind"), kind) == 0;
}

/* The head of a model is tied to its embedding, or a dense layer with an output for each token. */
static void set_vocab(json_t *layers, int vocab)
{
    json_t *first = json_array_get(layers, 0), *last = json_array_get(layers, json_array_size(layers) - 1);

    if (is_kind(last, "dense") && json_equal(json_object_get(last, "units"), json_object_get(first, "vocab")))
        json_object_set_new(last, "units", json_integer(vocab));
    json_object_set_new(first, "vocab", json_integer(vocab));
}

static int set_options_of(json_t *doc, const char *model, const char *options, struct err *e)
{
    json_t *layers = json_object_get(doc, "layers");
    struct model_options o = {0};

    if (!is_kind(json_array_get(layers, 0), "embedding") ||
        strcmp(json_text_at(doc, "loss"), loss_kind_name(LOSS_TOKEN_CROSS_ENTROPY)) != 0)
        return err_set(e, ERR_CONFIG, "--model %s: only models of language have options", model);
    if (data_options(&o, fields, NULL, options, e) < 0)
        return err_at(e, "--model %s", model);
    if (strlen(model) >= sizeof((struct model_spec *)0)->name)
        return err_set(e, ERR_CONFIG, "--model %s: longer than %zu characters", model,
                       sizeof((struct model_spec *)0)->name - 1);
    if (o.vocab > 0)
        set_vocab(layers, o.vocab);
    if (o.context > 0)
        json_object_set_new(doc, "input", json_pack("[i]", o.context));
    json_object_set_new(doc, "name", json_string(model));
    return 0;
}

/* Replaces the text by that of a document with these options. */
static int apply_options(char **text, size_t *len, const char *path, const char *model, const char *options,
                         struct err *e)
{
    json_t *doc;
    char *changed;
    int rc;

    if (json_parse(&doc, *text, *len, path, e) < 0)
        return e->code;
    rc = set_options_of(doc, model, options, e);
    changed = rc == 0 ? json_dump(doc, JSON_COMPACT) : NULL;
    json_decref(doc);
    if (rc < 0)
        return rc;
    if (!changed)
        return err_set(e, ERR_NOMEM, "no memory for the document of model %s", model);
    free(*text);
    *text = changed;
    *len = strlen(changed);
    return 0;
}

int model_document_read(char **text, size_t *len, char path[PATH_MAX], const char *model, struct err *e)
{
    size_t n = find_is_path(model) ? strlen(model) : strcspn(model, ":");
    char exe_dir[PATH_MAX], name[PATH_MAX];

    snprintf(name, sizeof name, "%.*s", (int)n, model);
    if (file_exe_dir(exe_dir, sizeof exe_dir, e) < 0 || find_model(path, name, exe_dir, e) < 0 ||
        file_read(text, len, path, MODEL_DOCUMENT_MAX, e) < 0)
        return e->code;
    if (!model[n] || apply_options(text, len, path, model, model + n + 1, e) == 0)
        return 0;
    free(*text);
    return e->code;
}
