#include "shared/plugin/codec_options.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/choice.h"

enum { VALUE_MAX = 64, SETS_MAX = 2 };

const struct codec_option codec_common_options[] = {
    CODEC_OPTION(struct codec_common, every, 0, 0, 1e9,
                 "steps between exchanges, as --local-steps; 0: once per epoch"),
    {0},
};

const struct codec_option *codec_common_of(const struct codec_plugin *p)
{
    bool has_local_steps = p->combine ? p->combine->when == CODEC_EACH_ROUND
                                      : codec_more(p)->round && !codec_more(p)->round->before_update;

    return has_local_steps ? codec_common_options : NULL;
}

/* Returns the ':' of the last `ending` after which there is no '/', or NULL. */
static const char *after_ending(const char *text, const char *ending)
{
    const char *last = NULL;

    for (const char *p = text; (p = strstr(p, ending)) != NULL; p++)
        last = p + strlen(ending) - 1;
    return last && !strchr(last, '/') ? last : NULL;
}

size_t codec_options_at(const char *text)
{
    const char *c = after_ending(text, ".c:");
    const char *so = after_ending(text, ".so:");
    const char *colon = c > so ? c : so;

    if (!colon && !strchr(text, '/'))
        colon = strchr(text, ':');
    return colon ? (size_t)(colon - text) : strlen(text);
}

static const struct codec_option *end_of(const struct codec_option *table)
{
    while (table && table->name)
        table++;
    return table;
}

static void store(const struct codec_option *o, void *at, double v)
{
    void *field = (char *)at + o->offset;

    switch (o->type) {
    case CODEC_FLOAT:
        memcpy(field, &(float){(float)v}, sizeof(float));
        break;
    case CODEC_BOOL:
        memcpy(field, &(bool){v != 0}, sizeof(bool));
        break;
    case CODEC_INT:
    case CODEC_CHOICE:
        memcpy(field, &(int){(int)v}, sizeof(int));
        break;
    }
}

static double load_value(const struct codec_option *o, const void *at)
{
    const void *field = (const char *)at + o->offset;
    float f;
    bool b;
    int i;

    switch (o->type) {
    case CODEC_FLOAT:
        memcpy(&f, field, sizeof f);
        return (double)f;
    case CODEC_BOOL:
        memcpy(&b, field, sizeof b);
        return b;
    case CODEC_INT:
    case CODEC_CHOICE:
        memcpy(&i, field, sizeof i);
        return i;
    }
    return 0;
}

/* Writes a value in the user's form; "" if the codec chooses. */
static void value_text(char out[VALUE_MAX], const struct codec_option *o, double v)
{
    int len;
    const char *text;

    if (isnan(v)) {
        out[0] = '\0';
    } else if (o->type == CODEC_CHOICE) {
        text = choice_at(o->choices, (int)v, &len);
        snprintf(out, VALUE_MAX, "%.*s", len, text);
    } else if (o->type == CODEC_BOOL) {
        snprintf(out, VALUE_MAX, "%s", v != 0 ? "true" : "false");
    } else {
        /* Nine digits identify any float; prints fewer if they suffice. */
        for (int digits = o->type == CODEC_INT ? 10 : 6; digits <= 10; digits++) {
            snprintf(out, VALUE_MAX, "%.*g", digits, v);
            if ((float)strtod(out, NULL) == (float)v)
                break;
        }
    }
}

/* "alpha (0 to 1, default 0.5: ...)" for each, as far as they fit. */
static void describe_options(char *out, size_t size, const struct codec_options *sets, size_t n_sets)
{
    size_t n = 0;

    out[0] = '\0';
    for (size_t s = 0; s < n_sets; s++)
        for (const struct codec_option *o = sets[s].table; o && o->name && n < size; o++) {
            char def[VALUE_MAX], range[128];

            value_text(def, o, o->def);
            if (o->choices)
                snprintf(range, sizeof range, "%.100s", o->choices);
            else if (o->type == CODEC_BOOL)
                snprintf(range, sizeof range, "true|false");
            else
                snprintf(range, sizeof range, "%.9g to %.10g", o->min, o->max);
            n += (size_t)snprintf(out + n, size - n, "%s%s (%s%s%s: %s)", n > 0 ? ", " : "", o->name, range,
                                  def[0] ? ", default " : "", def, o->help);
        }
}

/* Appends the list of parameters to the message in e. */
static int add_parameters(const struct codec_options *sets, size_t n_sets, struct err *e)
{
    char list[768];
    struct err first = *e;

    describe_options(list, sizeof list, sets, n_sets);
    if (!list[0])
        return err_set(e, ERR_CONFIG, "%.200s; it takes none", first.text);
    return err_set(e, ERR_CONFIG, "%.200s; it takes %s", first.text, list);
}

static int unknown_parameter(const char *name, const struct codec_options *sets, size_t n_sets, struct err *e)
{
    const char *names[SETS_MAX * CODEC_OPTIONS_MAX + 1];
    const char *near;
    size_t n = 0;

    for (size_t s = 0; s < n_sets; s++)
        for (const struct codec_option *o = sets[s].table; o && o->name; o++)
            names[n++] = o->name;
    names[n] = NULL;
    near = choice_near(name, names);
    if (near)
        err_set(e, ERR_CONFIG, "no parameter \"%.40s\" (did you mean \"%s\"?)", name, near);
    else
        err_set(e, ERR_CONFIG, "no parameter \"%.40s\"", name);
    return add_parameters(sets, n_sets, e);
}

static int number(double *out, const struct codec_option *o, const char *text, struct err *e)
{
    bool is_int = o->type == CODEC_INT;
    char *end;

    *out = strtod(text, &end);
    if (end == text || *end || strspn(text, is_int ? "-0123456789" : "+-.0123456789eE") != strlen(text))
        return err_set(e, ERR_CONFIG, "%s: \"%.40s\" is not %s", o->name, text,
                       is_int ? "an integer" : "a number");
    if (!(*out >= o->min && *out <= o->max))
        return err_set(e, ERR_CONFIG, "%s: %.40s is not between %.9g and %.10g", o->name, text, o->min,
                       o->max);
    return 0;
}

static int parse_value(double *out, const struct codec_option *o, const char *text, struct err *e)
{
    const char *choices = o->type == CODEC_BOOL ? "false|true" : o->choices;

    if (o->type == CODEC_FLOAT || o->type == CODEC_INT)
        return number(out, o, text, e);
    *out = choice_find(choices, text);
    return *out < 0 ? err_set(e, ERR_CONFIG, "%s: \"%.40s\" is not one of %s", o->name, text, choices) : 0;
}

/* One "KEY=VALUE"; `seen` has an element for each parameter of each set. */
static int set_one(const struct codec_options *sets, size_t n_sets, char *text,
                   bool (*seen)[CODEC_OPTIONS_MAX], struct err *e)
{
    char *value = strchr(text, '=');
    double v;

    if (!value) {
        err_set(e, ERR_CONFIG, "\"%.40s\" is not NAME=VALUE", text);
        return add_parameters(sets, n_sets, e);
    }
    *value++ = '\0';
    for (size_t s = 0; s < n_sets; s++)
        for (const struct codec_option *o = sets[s].table; o && o->name; o++) {
            bool *is_seen = &seen[s][o - sets[s].table];

            if (strcmp(o->name, text) != 0)
                continue;
            if (*is_seen)
                return err_set(e, ERR_CONFIG, "%s is given twice", text);
            if (parse_value(&v, o, value, e) < 0)
                return add_parameters(sets, n_sets, e);
            *is_seen = true;
            store(o, sets[s].at, v);
            return 0;
        }
    return unknown_parameter(text, sets, n_sets, e);
}

int codec_options_set(const struct codec_options *sets, size_t n_sets, const char *text, struct err *e)
{
    bool seen[SETS_MAX][CODEC_OPTIONS_MAX] = {{false}};
    char copy[CODEC_OPTIONS_TEXT];
    char *rest = copy, *one;

    if (n_sets > SETS_MAX)
        return err_set(e, ERR_INTERNAL, "%zu tables of parameters", n_sets);
    for (size_t s = 0; s < n_sets; s++)
        for (const struct codec_option *o = sets[s].table; o && o->name; o++)
            store(o, sets[s].at, o->def);
    if (!text || !text[0])
        return 0;
    if (strlen(text) >= sizeof copy)
        return err_set(e, ERR_CONFIG, "more than %zu characters of parameters", sizeof copy - 1);
    strcpy(copy, text);
    while ((one = strsep(&rest, ",")) != NULL)
        if (set_one(sets, n_sets, one, seen, e) < 0)
            return e->code;
    return 0;
}

int codec_options_text(char *out, size_t size, const struct codec_options *set, struct err *e)
{
    size_t n = 0;

    out[0] = '\0';
    for (const struct codec_option *o = set->table; o && o->name; o++) {
        char value[VALUE_MAX];

        value_text(value, o, load_value(o, set->at));
        if (value[0])
            n += (size_t)snprintf(out + n, size - n, "%s%s=%s", n > 0 ? "," : "", o->name, value);
        if (n >= size)
            return err_set(e, ERR_CONFIG, "all parameters together have more than %zu characters", size - 1);
    }
    return 0;
}

static json_t *value_json(const struct codec_option *o, double v)
{
    char text[VALUE_MAX];

    value_text(text, o, v);
    if (isnan(v))
        return json_null();
    switch (o->type) {
    case CODEC_FLOAT:
        return json_real(strtod(text, NULL)); /* in the user's form: 0.1, not 0.100000001 */
    case CODEC_BOOL:
        return json_boolean(v != 0);
    case CODEC_INT:
        return json_integer((json_int_t)v);
    case CODEC_CHOICE:
        return json_string(text);
    }
    return NULL;
}

json_t *codec_options_values(const struct codec_options *set)
{
    json_t *all = json_object();

    for (const struct codec_option *o = set->table; all && o && o->name; o++)
        json_object_set_new(all, o->name, value_json(o, load_value(o, set->at)));
    return all;
}

json_t *codec_options_list(const struct codec_option *table)
{
    static const char *const types[] = {
        [CODEC_FLOAT] = "float", [CODEC_INT] = "int", [CODEC_BOOL] = "bool", [CODEC_CHOICE] = "choice"};
    json_t *all = json_array();

    for (const struct codec_option *o = table; all && o && o->name; o++) {
        json_t *one = json_pack("{s:s, s:s, s:o, s:s}", "name", o->name, "type", types[o->type], "default",
                                value_json(o, o->def), "help", o->help);

        if (o->choices)
            json_object_set_new(one, "choices", json_string(o->choices));
        if (o->type == CODEC_FLOAT || o->type == CODEC_INT) {
            json_object_set_new(one, "min", json_real(o->min));
            json_object_set_new(one, "max", json_real(o->max));
        }
        json_array_append_new(all, one);
    }
    return all;
}

static size_t width(enum codec_type type)
{
    return type == CODEC_FLOAT ? sizeof(float) : type == CODEC_BOOL ? sizeof(bool) : sizeof(int);
}

bool codec_is_name(const char *name)
{
    size_t n = strlen(name);

    return n > 0 && n <= CODEC_NAME_MAX && strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_") == n;
}

/* Whether the default is a valid value. */
static bool has_sound_default(const struct codec_option *o)
{
    switch (o->type) {
    case CODEC_FLOAT:
        return isnan(o->def) || (o->def >= o->min && o->def <= o->max);
    case CODEC_INT:
        return o->def >= o->min && o->def <= o->max && o->min >= -0x1p31 && o->max < 0x1p31;
    case CODEC_BOOL:
        return o->def == 0 || o->def == 1;
    case CODEC_CHOICE:
        return o->choices && o->choices[0] && o->def == 0;
    }
    return false;
}

int codec_options_check(const struct codec_option *table, size_t size, struct err *e)
{
    const struct codec_option *end = end_of(table);

    if (end - table > CODEC_OPTIONS_MAX)
        return err_set(e, ERR_CODEC, "it has more than %d parameters", CODEC_OPTIONS_MAX);
    for (const struct codec_option *o = table; o < end; o++) {
        if (!codec_is_name(o->name))
            return err_set(e, ERR_CODEC, "parameter %td has no name of 1 to %d of a-z, 0-9 and _", o - table,
                           CODEC_NAME_MAX);
        if (!o->help || o->offset > size || width(o->type) > size - o->offset)
            return err_set(e, ERR_CODEC, "parameter %s has no help, or lies outside the state of %zu bytes",
                           o->name, size);
        if (!has_sound_default(o))
            return err_set(e, ERR_CODEC, "parameter %s has a default that is not in its range", o->name);
        for (const struct codec_option *p = table; p < o; p++)
            if (strcmp(p->name, o->name) == 0)
                return err_set(e, ERR_CODEC, "parameter %s is in the table twice", o->name);
    }
    return 0;
}
