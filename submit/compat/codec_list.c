#include "submit/compat/codec_list.h"

#include <stdio.h>
#include <string.h>

#include "shared/base/file.h"
#include "shared/base/json.h"
#include "submit/codecs/chain_layers.h"
#include "submit/codecs/codec_find.h"
#include "submit/compat/presets.h"

static const char no_compression[] = "none"; /* the chain that changes nothing */
static const char mean_of_gradients[] = "doublesqueeze";

/* The length of the first entry: up to a comma, except between two of its parameters. */
static size_t entry_length(const char *text)
{
    size_t n = strcspn(text, ",");

    while (text[n]) {
        const char *next = text + n + 1;

        if (next[strcspn(next, "=:|,")] != '=')
            break;
        n += 1 + strcspn(next, ",");
    }
    return n;
}

bool codec_list_is_one(const char *text)
{
    return text[0] == '{' || (!find_is_path(text) && text[entry_length(text)] == ',');
}

/* One entry, resolved. */
struct list_entry {
    char rule[256]; /* "": any */
    const char *up, *down;
};

/* The same rule for other jobs: the mean of the gradients of each step. */
static bool is_mean_of_gradients(const char *rule)
{
    return strcmp(rule, "plain") == 0 || strcmp(rule, "allreduce") == 0 ||
           strcmp(rule, mean_of_gradients) == 0;
}

/* The value of a preset's option "KEY=VALUE". NULL: it is another option. */
static const char *option_value(const char *option, const char *key)
{
    size_t n = strlen(key);

    return strncmp(option, key, n) == 0 && option[n] == '=' ? option + n + 1 : NULL;
}

static int take_preset(struct list_entry *to, const struct preset *p, struct err *e)
{
    for (const char *const *option = p->options; *option; option++) {
        const char *rule = option_value(*option, "codec"), *up = option_value(*option, "compress"),
                   *down = option_value(*option, "compress-down");

        if (rule && strcmp(rule, "ps") == 0)
            continue; /* the compressors also go with the mean of gradients without servers */
        if (rule)
            snprintf(to->rule, sizeof to->rule, "%s", rule);
        else if (up)
            to->up = up;
        else if (down)
            to->down = down;
        else
            return err_set(e, ERR_CONFIG,
                           "%s sets --%s for the whole job, so it cannot be an entry for a layer", p->name,
                           *option);
    }
    return 0;
}

static bool begins_with_compressor(const char *text)
{
    char name[32];

    return snprintf(name, sizeof name, "%.*s", (int)strcspn(text, ":|"), text) < (int)sizeof name &&
           compressor_find(name);
}

/* `text` must outlive the entry. */
static int resolve(struct list_entry *to, const char *text, struct err *e)
{
    bool is_name = text[strcspn(text, ":|")] == '\0', is_chain = begins_with_compressor(text);
    const struct preset *p = is_name ? preset_find(text) : NULL;
    char exe_dir[PATH_MAX], name[256];
    struct codec_file found;

    *to = (struct list_entry){.up = no_compression, .down = no_compression};
    if (p)
        return take_preset(to, p, e);
    snprintf(name, sizeof name, "%.*s", (int)strcspn(text, ":"), text);
    if (!is_chain && preset_find(name))
        return err_set(e, ERR_CONFIG, "%s: %s is a name for a rule with compressors, which has no parameters",
                       text, name);
    if (file_exe_dir(exe_dir, sizeof exe_dir, e) < 0)
        return e->code;
    if (find_codec(&found, name, exe_dir, preset_names(), e) == 0) {
        if (snprintf(to->rule, sizeof to->rule, "%s", text) >= (int)sizeof to->rule)
            return err_set(e, ERR_CONFIG, "%s: more than %zu characters", text, sizeof to->rule - 1);
        return 0;
    }
    if (!is_chain)
        return err_hint(e, "An entry for a layer is a codec, or a compressor; `codecs list` shows both.");
    *e = (struct err){0};
    to->up = text;
    return 0;
}

struct list_reading {
    struct codec_list *l;
    const struct model_spec *m;
    json_t *given; /* {"layer0": "sgq", "*": ...} */
    bool compresses_up, compresses_down;
};

/* Adds the rule of one more entry to the list, which has one rule. */
static int share_rule(struct codec_list *l, const char *rule, struct err *e)
{
    if (!rule[0] || strcmp(l->codec, rule) == 0)
        return 0;
    if (l->codec[0] && is_mean_of_gradients(l->codec) && is_mean_of_gradients(rule)) {
        snprintf(l->codec, sizeof l->codec, "%s", mean_of_gradients);
        return 0;
    }
    if (l->codec[0]) {
        err_set(e, ERR_CONFIG, "%s and %s are two rules, but the layers of a job share one", l->codec, rule);
        return err_hint(e, "Only compression may differ from layer to layer: plain,tern,sgq.");
    }
    snprintf(l->codec, sizeof l->codec, "%s", rule);
    return 0;
}

static int append_chain(char to[CHAIN_LIST_TEXT_MAX + 1], const char *name, const char *chain, struct err *e)
{
    size_t n = strlen(to), room = CHAIN_LIST_TEXT_MAX + 1 - n;

    if ((size_t)snprintf(to + n, room, "%s%s=%s", n > 0 ? ";" : "", name, chain) >= room)
        return err_set(e, ERR_CONFIG, "more than %d characters of compressors", CHAIN_LIST_TEXT_MAX);
    return 0;
}

/* The codec `text` for the layer, or tensor, of that name. */
static int add_entry(struct list_reading *r, const char *name, const char *text, struct err *e)
{
    struct list_entry one;

    if (resolve(&one, text, e) < 0 || share_rule(r->l, one.rule, e) < 0)
        return e->code;
    r->compresses_up |= strcmp(one.up, no_compression) != 0;
    r->compresses_down |= strcmp(one.down, no_compression) != 0;
    json_object_set_new(r->given, name, json_string(text));
    return append_chain(r->l->compress, name, one.up, e) < 0
               ? e->code
               : append_chain(r->l->compress_down, name, one.down, e);
}

static bool has_parameters(const struct model_spec *m, int layer)
{
    return m->layers[layer].n_tensors > 0;
}

static int count_layers(const struct model_spec *m)
{
    int n = 0;

    for (int i = 0; i < m->n_layers; i++)
        n += has_parameters(m, i);
    return n;
}

static int count_entries(const char *text)
{
    int n = 1;

    for (size_t length; text[length = entry_length(text)]; text += length + 1)
        n++;
    return n;
}

static int check_count(const char *text, const struct model_spec *m, struct err *e)
{
    int n = count_entries(text), n_layers = count_layers(m);

    if (m->has_trainer) {
        err_set(e, ERR_CONFIG, "%s has tensors and no layers, so a list must have names", m->name);
        return err_hint(e, "By name: '{\"%.60s\": \"sgq\", \"*\": \"plain\"}'.", m->tensors[0].name);
    }
    if (n == n_layers)
        return 0;
    err_set(e, ERR_CONFIG, "%d entries, and model \"%s\" has %d layer%s with parameters", n, m->name,
            n_layers, n_layers == 1 ? "" : "s");
    return err_hint(
        e, "The first entry is the last layer's. By name: '{\"layer0\": \"sgq\", \"*\": \"plain\"}'.");
}

static int read_commas(struct list_reading *r, const char *text, struct err *e)
{
    char one[CHAIN_TEXT_MAX + 1], name[CHAIN_NAME_MAX + 1], place[24];

    if (check_count(text, r->m, e) < 0)
        return e->code;
    for (int i = r->m->n_layers - 1; i >= 0; i--) {
        size_t length = entry_length(text);

        if (!has_parameters(r->m, i))
            continue;
        snprintf(name, sizeof name, "layer%s", layer_spec_place(place, &r->m->layers[i]));
        if (snprintf(one, sizeof one, "%.*s", (int)length, text) >= (int)sizeof one)
            return err_set(e, ERR_CONFIG, "%s: more than %d characters", name, CHAIN_TEXT_MAX);
        if (add_entry(r, name, one, e) < 0)
            return err_at(e, "%s", name);
        text += length + 1;
    }
    return 0;
}

static int add_member(struct list_reading *r, const char *key, const json_t *v, struct err *e)
{
    if (!key[0] || strlen(key) > CHAIN_NAME_MAX || key[strcspn(key, "=:|;")])
        return err_set(e, ERR_CONFIG, "\"%.60s\" is not the name of a layer", key);
    if (!json_is_string(v))
        return err_set(e, ERR_CONFIG, "%s: not the name of a codec, in quotes", key);
    return add_entry(r, key, json_string_value(v), e) < 0 ? err_at(e, "%s", key) : 0;
}

static int read_object(struct list_reading *r, const char *text, struct err *e)
{
    json_t *doc, *v;
    const char *key;
    int rc = 0;

    if (json_parse(&doc, text, strlen(text), "the list", e) < 0)
        return e->code;
    if (json_object_size(doc) == 0)
        rc = err_set(e, ERR_CONFIG, "no layer is in the list");
    json_object_foreach(doc, key, v) if (rc == 0) rc = add_member(r, key, v, e);
    json_decref(doc);
    return rc;
}

/* Lists the entry of each layer with parameters, in the order of the model: the entry of its first tensor.
 * A training program's model has no layers: all entries of the list. */
static int list_entries(struct list_reading *r, const struct chain_list *chains, struct err *e)
{
    char name[CHAIN_NAME_MAX + 1], place[24];
    const char *tensor;
    size_t n;

    r->l->entries = r->m->has_trainer ? json_copy(r->given) : json_object();
    for (int i = 0; i < r->m->n_layers; i++) {
        if (!has_parameters(r->m, i))
            continue;
        snprintf(name, sizeof name, "layer%s", layer_spec_place(place, &r->m->layers[i]));
        tensor = model_spec_tensor(r->m, i, 0)->name;
        json_object_set(r->l->entries, name,
                        json_object_get(r->given, chains->of[chain_list_find(chains, tensor)].name));
    }
    n = r->m->has_trainer ? json_object_size(r->given) : (size_t)count_layers(r->m);
    return json_object_size(r->l->entries) == n ? 0 : err_set(e, ERR_NOMEM, "no memory for a list of codecs");
}

static int finish_reading(struct list_reading *r, struct err *e)
{
    struct chain_list chains;
    struct codec_list *l = r->l;

    if (chain_list_parse(&chains, l->compress_down, e) < 0 || chain_list_parse(&chains, l->compress, e) < 0 ||
        chain_layers_check(&chains, r->m, e) < 0 || list_entries(r, &chains, e) < 0)
        return e->code;
    if (!l->codec[0] || (r->compresses_down && is_mean_of_gradients(l->codec)))
        snprintf(l->codec, sizeof l->codec, "%s", mean_of_gradients);
    if (!r->compresses_up)
        l->compress[0] = '\0';
    if (!r->compresses_down)
        l->compress_down[0] = '\0';
    return 0;
}

int codec_list_read(struct codec_list *l, const char *text, const struct model_spec *m, struct err *e)
{
    struct list_reading r = {.l = l, .m = m, .given = json_object()};
    int rc;

    *l = (struct codec_list){0};
    rc = (text[0] == '{' ? read_object : read_commas)(&r, text, e);
    if (rc == 0)
        rc = finish_reading(&r, e);
    json_decref(r.given);
    if (rc == 0)
        return 0;
    codec_list_clear(l);
    return err_at(e, "--codec");
}

void codec_list_clear(struct codec_list *l)
{
    json_decref(l->entries);
    *l = (struct codec_list){0};
}
