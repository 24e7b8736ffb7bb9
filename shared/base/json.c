#include "shared/base/json.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/choice.h"
#include "shared/base/file.h"
#include "shared/base/number.h"
#include "shared/base/private.h"
#include "shared/base/utf8.h"

enum { MAX_DEPTH = 32, MAX_KEYS = 256 };

/* A document is made by dozens of calls, and each omits its part if an allocation fails. Jansson allocates by
 * the functions below, so that one test before a document leaves the program finds every failure; and it
 * frees by them, so that memory is overwritten, because documents contain tokens and keys. */
static atomic_bool is_incomplete;

static void *allocate(size_t size)
{
    void *p = malloc(size);

    if (!p)
        is_incomplete = true;
    return p;
}

__attribute__((constructor)) static void watch_allocations(void)
{
    json_set_alloc_funcs(allocate, secret_free);
}

static int too_deep(const json_t *v, int left)
{
    const char *key;
    json_t *child;
    size_t i;

    if (left == 0)
        return 1;
    json_array_foreach(v, i, child) if (too_deep(child, left - 1)) return 1;
    json_object_foreach((json_t *)(uintptr_t)v, key, child) if (too_deep(child, left - 1)) return 1;
    return 0;
}

/* Jansson's messages quote the untrusted input, and name Jansson's flags. */
static const char *printable(char *s)
{
    if (strstr(s, "JSON_ALLOW_NUL"))
        return "\\u0000 is not allowed";
    utf8_clean(s, strlen(s), false);
    return s;
}

int json_parse(json_t **out, const char *text, size_t len, const char *what, struct err *e)
{
    json_error_t je;
    json_t *v;
    bool lacks_memory;

    if (len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
        return err_set(e, ERR_CONFIG, "%s:1:1: begins with a byte order mark; save it as UTF-8 without one",
                       what);
    if (len >= 2 && (memcmp(text, "\xff\xfe", 2) == 0 || memcmp(text, "\xfe\xff", 2) == 0))
        return err_set(e, ERR_CONFIG, "%s:1:1: is UTF-16; save it as UTF-8", what);
    is_incomplete = false;
    v = json_loadb(text, len, JSON_REJECT_DUPLICATES, &je);
    /* Jansson reports some failed allocations as syntax errors. */
    lacks_memory = atomic_exchange(&is_incomplete, false);
    if (!v && lacks_memory)
        return err_set(e, ERR_NOMEM, "%s: no memory for %zu bytes of JSON", what, len);
    if (!v)
        return err_set(e, ERR_CONFIG, "%s:%d:%d: %s", what, je.line, je.column, printable(je.text));
    if (too_deep(v, MAX_DEPTH)) {
        json_decref(v);
        return err_set(e, ERR_CONFIG, "%s: more than %d levels deep", what, MAX_DEPTH);
    }
    *out = v;
    return 0;
}

int json_read(json_t **out, const char *path, size_t max, struct err *e)
{
    char *text;
    size_t len;
    int rc;

    if (file_read(&text, &len, path, max, e) < 0)
        return e->code;
    rc = json_parse(out, text, len, path, e);
    free(text);
    return rc;
}

static int check_key(const char *key, const char *const *known, const char *at, struct err *e)
{
    const char *near;

    for (const char *const *k = known; *k; k++)
        if (strcmp(*k, key) == 0)
            return 0;
    if (strncmp(key, "x-", 2) == 0 || strcmp(key, "$schema") == 0)
        return 0;
    near = choice_near(key, known);
    if (near)
        return err_set(e, ERR_CONFIG, "%s/%s: unknown key; did you mean \"%s\"?", at, key, near);
    return err_set(e, ERR_CONFIG, "%s/%s: unknown key", at, key);
}

int json_only_keys(const json_t *object, const char *const *keys, const char *at, struct err *e)
{
    const char *key;
    json_t *v;

    if (!json_is_object(object))
        return err_set(e, ERR_CONFIG, "%s: not an object", at[0] ? at : "/");
    json_object_foreach((json_t *)(uintptr_t)object, key,
                        v) if (check_key(key, keys, at, e) < 0) return e->code;
    return 0;
}

static int fill_text(void *out, const json_t *v, const struct json_field *f, const char *at, struct err *e)
{
    const char *s = json_string_value(v);

    if (!s)
        return err_set(e, ERR_CONFIG, "%s/%s: not a string", at, f->key);
    if ((f->kind == JSON_FIELD_TEXT && json_string_length(v) >= f->size) ||
        strlen(s) != json_string_length(v))
        return err_set(e, ERR_CONFIG, "%s/%s: longer than %zu characters", at, f->key, f->size - 1);
    if (f->choices && choice_find(f->choices, s) < 0)
        return err_set(e, ERR_CONFIG, "%s/%s: \"%s\" is not one of %s", at, f->key, s, f->choices);
    if (f->kind == JSON_FIELD_CHOICE)
        *(int *)out = choice_find(f->choices, s);
    else
        memcpy(out, s, strlen(s) + 1);
    return 0;
}

static int fill_number(void *out, const json_t *v, const struct json_field *f, const char *at, struct err *e)
{
    double d = json_number_value(v);
    bool whole = f->kind != JSON_FIELD_DOUBLE;
    double max = f->kind == JSON_FIELD_INT ? 2147483647.0 : f->kind == JSON_FIELD_U64 ? 0x1p53 : HUGE_VAL;
    double min = f->kind == JSON_FIELD_U64 ? 0 : f->kind == JSON_FIELD_INT ? -2147483648.0 : -HUGE_VAL;

    if (whole ? !json_is_integer(v) : !json_is_number(v))
        return err_set(e, ERR_CONFIG, "%s/%s: not %s", at, f->key, whole ? "an integer" : "a number");
    if (f->min != 0 || f->max != 0) {
        min = f->min;
        max = f->max;
    }
    /* As a double, 2^53 + 1 equals 2^53. */
    if (!(d >= min && d <= max) || (f->kind == JSON_FIELD_U64 && json_integer_value(v) > (json_int_t)1 << 53))
        return err_set(e, ERR_CONFIG, "%s/%s: %.15g is not between %.15g and %.15g", at, f->key, d, min, max);
    if (f->kind == JSON_FIELD_INT)
        *(int *)out = (int)json_integer_value(v);
    else if (f->kind == JSON_FIELD_U64)
        *(uint64_t *)out = (uint64_t)json_integer_value(v);
    else
        *(double *)out = d;
    return 0;
}

static int fill_struct(void *out, const json_t *v, const struct json_field *f, const char *at, struct err *e)
{
    switch (f->kind) {
    case JSON_FIELD_TEXT:
    case JSON_FIELD_CHOICE:
        return fill_text(out, v, f, at, e);
    case JSON_FIELD_BOOL:
        if (!json_is_boolean(v))
            return err_set(e, ERR_CONFIG, "%s/%s: neither true nor false", at, f->key);
        *(bool *)out = json_is_true(v);
        return 0;
    case JSON_FIELD_ANY:
        return 0;
    default:
        return fill_number(out, v, f, at, e);
    }
}

int json_to_struct(void *out, const json_t *object, const struct json_field *fields, const char *at,
                   struct err *e)
{
    const char *known[MAX_KEYS] = {0};
    size_t n = 0;

    for (const struct json_field *f = fields; f->key && n + 1 < MAX_KEYS; f++)
        known[n++] = f->key;
    if (json_only_keys(object, known, at, e) < 0)
        return e->code;
    for (const struct json_field *f = fields; f->key; f++) {
        const json_t *v = json_object_get(object, f->key);

        if (!v && f->required)
            return err_set(e, ERR_CONFIG, "%s/%s: missing", at, f->key);
        if (v && fill_struct((char *)out + f->offset, v, f, at, e) < 0)
            return e->code;
    }
    return 0;
}

static json_t *value_of(const void *in, const struct json_field *f)
{
    const char *choice;
    int n;

    switch (f->kind) {
    case JSON_FIELD_TEXT:
        return json_text(in, f->size);
    case JSON_FIELD_CHOICE:
        choice = choice_at(f->choices, *(const int *)in, &n);
        return json_stringn(choice, (size_t)n);
    case JSON_FIELD_INT:
        return json_integer(*(const int *)in);
    case JSON_FIELD_U64:
        return json_integer((json_int_t) * (const uint64_t *)in);
    case JSON_FIELD_BOOL:
        return json_boolean(*(const bool *)in);
    case JSON_FIELD_DOUBLE:
        /* Jansson returns NULL for NaN, and the key is omitted. */
        return json_real(*(const double *)in);
    case JSON_FIELD_ANY:
        break;
    }
    return NULL;
}

json_t *json_from_struct(const void *in, const struct json_field *fields)
{
    json_t *o = json_object();

    for (const struct json_field *f = fields; f->key; f++) {
        json_t *v = value_of((const char *)in + f->offset, f);

        if (v)
            json_object_set_new(o, f->key, v);
    }
    return o;
}

int json_get_text(char *out, size_t size, const json_t *object, const char *key, const char *at,
                  struct err *e)
{
    const struct json_field f = {.key = key, .kind = JSON_FIELD_TEXT, .size = size};
    const json_t *v = json_object_get(object, key);

    return v ? fill_text(out, v, &f, at, e) : err_set(e, ERR_CONFIG, "%s/%s: missing", at, key);
}

int json_get_int(int *out, const json_t *object, const char *key, int min, int max, const char *at,
                 struct err *e)
{
    const struct json_field f = {.key = key, .kind = JSON_FIELD_INT, .min = min, .max = max};
    const json_t *v = json_object_get(object, key);

    return v ? fill_number(out, v, &f, at, e) : err_set(e, ERR_CONFIG, "%s/%s: missing", at, key);
}

int json_get_choice(int *out, const json_t *object, const char *key, const char *const *choices,
                    const char *at, struct err *e)
{
    char text[64];

    if (json_get_text(text, sizeof text, object, key, at, e) < 0)
        return e->code;
    for (int i = 0; choices[i]; i++)
        if (strcmp(choices[i], text) == 0) {
            *out = i;
            return 0;
        }
    err_set(e, ERR_CONFIG, "%s/%s: \"%s\" is unknown", at, key, text);
    return choice_suggest(text, choices, e);
}

json_t *json_text(const char *text, size_t max)
{
    size_t len = strnlen(text, max), step;
    json_t *v;
    char *s;

    if (len == max)
        len = utf8_whole(text, len);
    v = json_stringn(text, len);
    if (v)
        return v;
    s = strndup(text, len);
    if (!s) {
        is_incomplete = true;
        return NULL;
    }
    for (size_t i = 0; i < len; i += step) {
        step = utf8_length(s + i, len - i);
        if (step == 0) {
            s[i] = '?';
            step = 1;
        }
    }
    v = json_stringn(s, len);
    free(s);
    return v;
}

const char *json_text_at(const json_t *o, const char *key)
{
    const char *text = json_string_value(json_object_get(o, key));

    return text ? text : "";
}

double json_number_at(const json_t *o, const char *key, double otherwise)
{
    const json_t *v = json_object_get(o, key);

    return json_is_number(v) ? json_number_value(v) : otherwise;
}

json_t *json_real_or_null(double v)
{
    return isfinite(v) ? json_real(v) : json_null();
}

json_t *json_number_or_null(double v)
{
    return v == floor(v) && fabs(v) < 0x1p53 ? json_integer((json_int_t)v) : json_real_or_null(v);
}

json_t *json_sizes(const size_t *values, size_t n)
{
    json_t *a = json_array();

    for (size_t i = 0; i < n; i++)
        json_array_append_new(a, json_integer((json_int_t)values[i]));
    return a;
}

/* The length of the JSON number at `at`; *is_real: it has a fraction or an exponent. */
static size_t number_length(const char *at, bool *is_real)
{
    size_t n = strspn(at, "+-.0123456789eE");

    *is_real = memchr(at, '.', n) || memchr(at, 'e', n);
    return n;
}

static const char *end_of_string(const char *at)
{
    for (at++; *at && *at != '"'; at++)
        at += *at == '\\' && at[1];
    return *at ? at + 1 : at;
}

/* As Jansson writes an exponent: 1e-6, where %g has 1e-06. */
static void strip_exponent(char *number)
{
    char *e = strchr(number, 'e');
    char *digits = e ? e + 1 + (e[1] == '-') : NULL;

    if (digits)
        memmove(digits, digits + strspn(digits, "+0"), strlen(digits + strspn(digits, "+0")) + 1);
}

/* Jansson prints all reals with the same number of digits: with 17 each reads back to the same double, but
 * 0.1 is printed as 0.10000000000000001. Replaces each by the shortest text that reads back to the same
 * double. */
static void shorten_reals(char *text)
{
    const char *from = text;
    char *to = text;

    while (*from) {
        const char *begin = from;
        char number[NUMBER_TEXT_MAX + 2];
        bool is_real = false;
        size_t n = 1;

        if (*from == '"')
            n = (size_t)(end_of_string(from) - from);
        else if (*from == '-' || (*from >= '0' && *from <= '9'))
            n = number_length(from, &is_real);
        from += n;
        if (is_real) {
            number_text(number, strtod(begin, NULL));
            strip_exponent(number);
            if (!strpbrk(number, ".e"))
                strcat(number, ".0"); /* else it would read back as an integer */
            if (strlen(number) < n)
                n = strlen(begin = number);
        }
        memmove(to, begin, n);
        to += n;
    }
    memset(to, 0, (size_t)(from - to)); /* the rest may be part of a secret */
}

/* The text has room for a line feed. */
char *json_dump(const json_t *value, size_t flags)
{
    size_t n = json_dumpb(value, NULL, 0, flags | JSON_ENCODE_ANY);
    char *text = n ? malloc(n + 2) : NULL;

    if (text && json_dumpb(value, text, n, flags | JSON_ENCODE_ANY) != n)
        is_incomplete = true; /* the search for cycles allocates memory */
    if (atomic_exchange(&is_incomplete, false)) {
        free(text);
        return NULL;
    }
    if (text) {
        text[n] = '\0';
        shorten_reals(text);
    }
    return text;
}

char *json_dump_line(const json_t *value, size_t flags)
{
    char *text = json_dump(value, flags);

    return text ? strcat(text, "\n") : NULL;
}

char *json_line(const json_t *value)
{
    return json_dump_line(value, JSON_COMPACT);
}
