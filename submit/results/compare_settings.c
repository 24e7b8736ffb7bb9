#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "submit/results/compare.h"

/* Settings that say nothing about a run, or follow from others. */
static const char *const left_out[] = {"version", "name", "steps_per_epoch", "shares_evaluations"};

/* Contents that the settings only name: their key in a part of run.json's facts, and the setting that names
 * them. A content is shown only if it differs between runs that are equal in that setting. */
static const struct {
    const char *name, *part, *key, *of;
} contents[] = {
    {"codec_sha256", "codec", "sha256", "codec"},
    {"server_codec_sha256", "server_codec", "sha256", "server_codec"},
    {"model_sha256", "model", "sha256", "model"},
    {"test_sha256", "data", "test_sha256", "dataset"},
};
enum { N_CONTENTS = sizeof contents / sizeof *contents };

/* Returns the setting that `name` is the content of; NULL: it is a setting itself. */
static const char *content_of(const char *name)
{
    for (int i = 0; i < N_CONTENTS; i++)
        if (strcmp(contents[i].name, name) == 0)
            return contents[i].of;
    return NULL;
}

/* A codec's source, where it is known: a build with another compiler has other objects of it. */
static void put_contents(json_t *out, const json_t *facts)
{
    for (int i = 0; i < N_CONTENTS; i++) {
        const json_t *part = json_object_get(facts, contents[i].part);
        json_t *of_source = json_object_get(part, "source_sha256");
        json_t *v = of_source ? of_source : json_object_get(part, contents[i].key);

        if (v)
            json_object_set(out, contents[i].name, v);
    }
}

/* A codec with its options as one setting, as on the command line. */
static void join_options(json_t *out, const char *codec, const char *options)
{
    const char *name = json_string_value(json_object_get(out, codec));
    const char *text = json_string_value(json_object_get(out, options));

    if (name && text && text[0])
        json_object_set_new(out, codec, json_sprintf("%s:%s", name, text));
    json_object_del(out, options);
}

/* The links and machines that a simulation was given. */
static void put_simulation(json_t *out, const json_t *simulation)
{
    const char *key;
    json_t *v;

    json_object_set_new(out, "simulated", json_boolean(simulation));
    json_object_foreach(json_object_get(simulation, "options"), key, v) json_object_set(out, key, v);
}

json_t *compare_settings(const struct run *r)
{
    const json_t *facts = json_object_get(r->doc, "facts");
    json_t *settings = json_object_get(r->doc, "settings");
    json_t *out = json_is_object(settings) ? json_copy(settings) : json_object();

    if (!out)
        return NULL;
    put_simulation(out, json_object_get(facts, "simulation"));
    put_contents(out, facts);
    json_object_set(out, "psgd", json_object_get(json_object_get(r->doc, "versions"), "psgd"));
    join_options(out, "codec", "codec_options");
    join_options(out, "server_codec", "server_codec_options");
    if (json_equal(json_object_get(out, "server_codec"), json_object_get(out, "codec")))
        json_object_del(out, "server_codec");
    for (size_t i = 0; i < sizeof left_out / sizeof *left_out; i++)
        json_object_del(out, left_out[i]);
    return out;
}

static bool is_equal(const json_t *a, const json_t *b)
{
    return a == b || json_equal(a, b) ||
           (json_is_number(a) && json_is_number(b) && !(json_number_value(a) < json_number_value(b)) &&
            !(json_number_value(a) > json_number_value(b)));
}

static bool differs(json_t *const *settings, size_t n, const char *name)
{
    const char *of = content_of(name);

    for (size_t i = 1; i < n; i++)
        for (size_t j = 0; j < (of ? i : 1); j++)
            if (!is_equal(json_object_get(settings[i], name), json_object_get(settings[j], name)) &&
                (!of || is_equal(json_object_get(settings[i], of), json_object_get(settings[j], of))))
                return true;
    return false;
}

static json_t *values(json_t *const *settings, size_t n, const char *name)
{
    json_t *list = json_array();

    for (size_t i = 0; i < n; i++) {
        json_t *v = json_object_get(settings[i], name);

        json_array_append_new(list, v ? json_incref(v) : json_null());
    }
    return list;
}

json_t *compare_differences(json_t *const *settings, size_t n)
{
    json_t *seen = json_object(), *out = json_array();
    const char *name;
    json_t *v;

    for (size_t i = 0; i < n; i++)
        json_object_foreach(settings[i], name, v)
        {
            if (json_object_get(seen, name))
                continue;
            json_object_set_new(seen, name, json_true());
            if (differs(settings, n, name))
                json_array_append_new(
                    out, json_pack("{s:s, s:o}", "name", name, "values", values(settings, n, name)));
        }
    json_decref(seen);
    return out;
}

const char *compare_setting_text(char *out, size_t size, const json_t *v)
{
    if (json_is_string(v))
        snprintf(out, size, "%s", json_string_value(v)[0] ? json_string_value(v) : "-");
    else if (json_is_number(v))
        snprintf(out, size, "%.6g", json_number_value(v));
    else
        snprintf(out, size, "%s", json_is_true(v) ? "yes" : json_is_false(v) ? "no" : "-");
    return out;
}
