#include "submit/options/options_config.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/choice.h"
#include "shared/base/json.h"
#include "shared/base/number.h"
#include "submit/files/run_file.h"
#include "submit/options/options_table.h"

bool options_is_same_name(const char *a, const char *b)
{
    for (; *a && (*a == *b || (strchr("-_", *a) && strchr("-_", *b) && *b)); a++)
        b++;
    return !*a && !*b;
}

static bool is_named(const struct args_option *t, const char *key)
{
    const char *setting = options_setting_key(t);
    char name[ARGS_NAME];

    for (const char *p = t->names; p; p = strchr(p, '|')) {
        p += *p == '|';
        snprintf(name, sizeof name, "%.*s", (int)strcspn(p, "|"), p);
        if (options_is_same_name(name, key))
            return true;
    }
    return setting && options_is_same_name(setting, key);
}

static const struct args_option *find_option(uint64_t verb, const char *key)
{
    for (int i = 0; i < options_table.n; i++)
        if (options_in_config(&options_table.options[i], verb) && is_named(&options_table.options[i], key))
            return &options_table.options[i];
    return NULL;
}

static void with_underscores(char *key)
{
    for (; *key; key++)
        *key = *key == '-' ? '_' : *key;
}

/* The hint has the option's key, for another of its names, too. */
static int unknown(uint64_t verb, const char *key, struct err *e)
{
    char names[ARGS_MAX][ARGS_NAME], typed[ARGS_NAME];
    const char *choices[ARGS_MAX + 1];
    const char *near;
    int n = 0;

    snprintf(typed, sizeof typed, "%s", key);
    with_underscores(typed);
    for (int i = 0; i < options_table.n; i++)
        for (const char *p = options_table.options[i].names;
             p && n < ARGS_MAX && options_in_config(&options_table.options[i], verb); p = strchr(p, '|')) {
            p += *p == '|';
            snprintf(names[n], ARGS_NAME, "%.*s", (int)strcspn(p, "|"), p);
            with_underscores(names[n]);
            choices[n] = names[n];
            n++;
        }
    choices[n] = NULL;
    near = choice_near(typed, choices);
    err_set(e, ERR_CONFIG,
            find_option(~0U, key) ? "/%.100s is for other verbs" : "/%.100s is no option of a job", key);
    if (!near)
        return err_hint(e, "Its keys are the names of options: job_submit config schema lists them.");
    options_config_key(typed, find_option(verb, near));
    return err_hint(e, "Did you mean \"%s\"?", typed);
}

/* "" where the value has another type than the option. */
static void value_text(char *out, size_t size, const struct args_option *t, const json_t *v)
{
    bool is_whole = t->kind == ARGS_INT || t->kind == ARGS_U64 || t->kind == ARGS_COUNT;
    char number[NUMBER_TEXT_MAX];

    out[0] = '\0';
    if (json_is_integer(v) && (is_whole || t->kind == ARGS_NUMBER))
        snprintf(out, size, "%lld", (long long)json_integer_value(v));
    else if (json_is_real(v) && t->kind == ARGS_NUMBER)
        snprintf(out, size, "%s", number_text(number, json_real_value(v)));
    else if (json_is_string(v) && !is_whole && t->kind != ARGS_NUMBER && t->kind != ARGS_FLAG)
        snprintf(out, size, "%s", json_string_value(v));
}

static const char *type_name(const struct args_option *t)
{
    return t->kind == ARGS_FLAG                                                  ? "true or false"
           : t->kind == ARGS_INT || t->kind == ARGS_U64 || t->kind == ARGS_COUNT ? "an integer"
           : t->kind == ARGS_NUMBER                                              ? "a number"
           : t->kind == ARGS_LIST                                                ? "a list of strings"
                                                                                 : "a string";
}

static int set_list(struct options *o, const struct args_option *t, const json_t *list, struct err *e)
{
    const json_t *v;
    size_t i;

    json_array_foreach(list, i, v)
    {
        if (!json_is_string(v))
            return err_set(e, ERR_CONFIG, "item %zu is not a string", i);
        if (args_set(t, json_string_value(v), o, e) < 0)
            return e->code;
    }
    return 0;
}

/* An empty text is a value that the option has if it is not given. */
static int set_one(struct options *o, const struct args_option *t, const json_t *v, struct err *e)
{
    char text[2 * PATH_MAX];

    if (t->kind == ARGS_FLAG && json_is_boolean(v)) {
        *(bool *)((char *)o + t->offset) = json_is_true(v);
        return 0;
    }
    if (t->kind == ARGS_LIST && json_is_array(v))
        return set_list(o, t, v, e);
    if (json_is_string(v) && json_string_length(v) >= sizeof text)
        return err_set(e, ERR_CONFIG, "longer than %zu bytes", sizeof text - 1);
    value_text(text, sizeof text, t, v);
    if (!text[0] && !(json_is_string(v) && json_string_length(v) == 0))
        return err_set(e, ERR_CONFIG, "not %s", type_name(t));
    return args_set(t, text, o, e);
}

static int take_object(struct options *o, uint64_t verb, const json_t *doc, struct err *e)
{
    const char *key;
    json_t *v;

    json_object_foreach((json_t *)(uintptr_t)doc, key, v)
    {
        const struct args_option *t = find_option(verb, key);

        if (strcmp(key, "$schema") == 0)
            continue;
        if (!t)
            return unknown(verb, key, e);
        if (o->args.given[t - options_table.options])
            return err_set(e, ERR_CONFIG, "/%s: the option is given twice", key);
        o->args.given[t - options_table.options] = true;
        if (set_one(o, t, v, e) < 0) {
            e->code = ERR_CONFIG;
            return err_at(e, "/%s", key);
        }
    }
    return 0;
}

static void folder_of(char out[PATH_MAX], const char *path)
{
    const char *slash = strrchr(path, '/');

    snprintf(out, PATH_MAX, "%.*s", slash ? (int)(slash - path) + (slash == path) : 1, slash ? path : ".");
}

int options_take_document(struct options *o, uint64_t verb, const json_t *doc, const char *folder,
                          bool is_changed, struct err *e)
{
    if (!json_is_object(doc))
        return err_set(e, ERR_CONFIG, "not an object, {\"codec\": \"fedavg\", ...}");
    return json_is_object(json_object_get(doc, "facts"))
               ? options_take_run(o, verb, doc, folder, is_changed, e)
               : take_object(o, verb, doc, e);
}

int options_take_config(struct options *o, uint64_t verb, const char *path, bool is_changed, struct err *e)
{
    char folder[PATH_MAX];

    if (json_read(&o->document, path, RUN_JSON_MAX, e) < 0)
        return err_at(e, "--config");
    folder_of(folder, path);
    return options_take_document(o, verb, o->document, folder, is_changed, e) < 0
               ? err_at(e, "--config %s", path)
               : 0;
}

/* The list of the choices "A|B". */
static json_t *choices_json(const char *list)
{
    json_t *all = json_array();

    for (const char *p = list; p; p = strchr(p, '|')) {
        p += *p == '|';
        json_array_append_new(all, json_stringn(p, strcspn(p, "|")));
    }
    return all;
}

static json_t *limit(double v, bool is_whole)
{
    return is_whole ? json_integer((json_int_t)v) : json_real(v);
}

static void put_number(json_t *o, const struct args_option *t, bool is_whole, const char *standard)
{
    json_object_set_new(o, "type", json_string(is_whole ? "integer" : "number"));
    if (t->min != 0 || t->max != 0) {
        json_object_set_new(o, "minimum", limit(t->min, is_whole));
        json_object_set_new(o, "maximum", limit(t->max, is_whole));
    }
    if (standard)
        json_object_set_new(o, "default", limit(strtod(standard, NULL), is_whole));
}

static void put_text(json_t *o, const struct args_option *t, const char *standard)
{
    json_object_set_new(o, "type", json_string("string"));
    if (t->kind == ARGS_CHOICE || t->kind == ARGS_CHOICE_TEXT) {
        json_object_set_new(o, "enum", choices_json(t->value));
    } else {
        json_object_set_new(o, "minLength", json_integer(1));
        json_object_set_new(o, "maxLength", json_integer((json_int_t)t->size - 1));
    }
    if (standard)
        json_object_set_new(o, "default", json_string(standard));
}

static json_t *property(const struct args_option *t, const struct options *defaults)
{
    json_t *o = json_pack("{s:s}", "description", t->help);
    char text[PATH_MAX];
    const char *standard = args_default(text, sizeof text, t, defaults) ? text : NULL;

    switch (t->kind) {
    case ARGS_FLAG:
        json_object_set_new(o, "type", json_string("boolean"));
        json_object_set_new(o, "default", json_false());
        break;
    case ARGS_COUNT:
    case ARGS_INT:
    case ARGS_U64:
        put_number(o, t, true, standard);
        break;
    case ARGS_NUMBER:
        put_number(o, t, false, standard);
        break;
    case ARGS_LIST:
        json_object_set_new(o, "type", json_string("array"));
        json_object_set_new(o, "items", json_pack("{s:s}", "type", "string"));
        break;
    default:
        put_text(o, t, standard);
    }
    return o;
}

/* Each option has two keys: its name, and that of its setting in run.json. */
static json_t *properties(const struct options *defaults)
{
    json_t *all = json_pack("{s:{s:s}}", "$schema", "type", "string");

    for (int i = 0; i < options_table.n; i++) {
        const struct args_option *t = &options_table.options[i];
        const char *setting = options_setting_key(t);
        char key[ARGS_NAME];

        if (!options_in_config(t, FOR_JOB))
            continue;
        options_config_key(key, t);
        if (!json_object_get(all, key))
            json_object_set_new(all, key, property(t, defaults));
        if (setting && !json_object_get(all, setting))
            json_object_set_new(all, setting, property(t, defaults));
    }
    return all;
}

json_t *options_schema(void)
{
    struct options defaults;

    options_defaults(&defaults);
    return json_pack("{s:s, s:s, s:s, s:s, s:o, s:b}", "$schema",
                     "https://json-schema.org/draft/2020-12/schema", "title", "A job of psgd", "description",
                     "The file of job_submit --config: options by their names. In names '-' and '_' are the "
                     "same.",
                     "type", "object", "properties", properties(&defaults), "additionalProperties", 0);
}
