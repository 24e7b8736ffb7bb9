/* The JSON Schema of --config, from the table of options. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/choice.h"
#include "submit/options/options_table.h"

#define CONFIG_VERBS (FOR_SUBMIT | FOR_SIMULATE)

static json_t *choices(const char *list)
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
        json_object_set_new(o, "enum", choices(t->value));
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

/* Under the option's name, and that of its setting in run.json. */
static json_t *properties(const struct options *defaults)
{
    json_t *all = json_pack("{s:{s:s}}", "$schema", "type", "string");

    for (int i = 0; i < options_table.n; i++) {
        const struct args_option *t = &options_table.options[i];
        const char *setting = options_setting_key(t);
        char key[ARGS_NAME];

        if (!options_in_config(t, CONFIG_VERBS))
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
