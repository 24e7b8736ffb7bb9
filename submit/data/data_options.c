/* The options of a data set, "KEY=VALUE,...", converted to a JSON object, so that one table has the keys,
 * types and limits. */
#include <stdlib.h>
#include <string.h>

#include "submit/data/data_sets.h"

enum { ARG_MAX_LEN = 255 };

/* Converts text to the type in the table; a value of an unknown key remains text and is refused later. */
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

static int add(json_t *o, const struct json_field *fields, const char *key, const char *value, struct err *e)
{
    json_t *v;

    if (json_object_get(o, key))
        return err_set(e, ERR_CONFIG, "\"%s\" is given twice", key);
    v = value_json(fields, key, value);
    return v && json_object_set_new(o, key, v) == 0
               ? 0
               : err_set(e, ERR_CONFIG, "an option that is not UTF-8 text");
}

int data_options(void *out, const struct json_field *fields, const char *bare, const char *arg, struct err *e)
{
    char copy[ARG_MAX_LEN + 1];
    char *rest = copy;
    char *text;
    json_t *o;
    int rc = 0;

    if (!arg)
        return 0;
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
            rc = add(o, fields, value ? text : bare, value ? value : text, e);
    }
    if (rc == 0)
        rc = json_to_struct(out, o, fields, "", e);
    json_decref(o);
    return rc;
}
