/* json -- strict reading of JSON documents into structs, and writing back, by one table per struct. Strict:
 * no duplicate keys, no unknown keys (with "did you mean"), types and ranges checked, at most 32 levels.
 * Every message begins with the path inside the document: "/peers/1/node: 3.5 is not an integer". */
#ifndef PSGD_JSON_H
#define PSGD_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/base/err.h"

enum json_kind {
    JSON_FIELD_TEXT,   /* char[size]; `choices` may list the allowed values, separated by '|' */
    JSON_FIELD_CHOICE, /* an enum: the index in `choices`; in the document its text */
    JSON_FIELD_INT,    /* int */
    JSON_FIELD_U64,    /* uint64_t, at most 2^53 so that every JSON reader keeps it */
    JSON_FIELD_DOUBLE, /* double */
    JSON_FIELD_BOOL,   /* bool */
    JSON_FIELD_ANY     /* a known key, read by other code */
};

struct json_field {
    const char *key;
    enum json_kind kind;
    size_t offset, size; /* in the struct */
    bool required;
    double min, max;     /* both 0: any */
    const char *choices; /* "ssgd|asgd" */
    bool may_change;     /* not read here: for the caller's use */
};

/* A table ends with {0}. JSON_AT(struct settings, seed) gives .offset and .size. */
#define JSON_AT(type, member) .offset = offsetof(type, member), .size = sizeof(((type *)0)->member)

/* Parses text; `what` names it in messages, with line and column. ERR_CONFIG, ERR_NOMEM. */
int json_parse(json_t **out, const char *text, size_t len, const char *what, struct err *e);
int json_read(json_t **out, const char *path, size_t max, struct err *e);

/* Sets the members whose keys the object has; other members keep their values. `at` is the object's path (""
 * at the top). */
int json_to_struct(void *out, const json_t *object, const struct json_field *fields, const char *at,
                   struct err *e);
json_t *json_from_struct(const void *in, const struct json_field *fields);

/* Single values, for documents that are not one flat struct. `at` is the path of `object`. */
int json_get_text(char *out, size_t size, const json_t *object, const char *key, const char *at,
                  struct err *e);
int json_get_int(int *out, const json_t *object, const char *key, int min, int max, const char *at,
                 struct err *e);
/* *out: the index of the string at `key` in `choices`, which ends with NULL. */
int json_get_choice(int *out, const json_t *object, const char *key, const char *const *choices,
                    const char *at, struct err *e);
int json_only_keys(const json_t *object, const char *const *keys, const char *at, struct err *e);

/* Returns the first `max` bytes of an untrusted text, cut at a whole character, with '?' for invalid UTF-8,
 * which json_string refuses. NULL without memory. */
json_t *json_text(const char *text, size_t max);

/* Returns the text at `key`, which belongs to the object; "" if there is none. */
const char *json_text_at(const json_t *o, const char *key);
/* Returns the number at `key`; `otherwise` if there is none. */
double json_number_at(const json_t *o, const char *key, double otherwise);

/* null if v is not finite, which JSON cannot represent. */
json_t *json_real_or_null(double v);
/* As json_real_or_null, but an integer if v is a whole number of at most 53 bits. */
json_t *json_number_or_null(double v);

/* [values[0], ...]: a shape, or counts. */
json_t *json_sizes(const size_t *values, size_t n);

/* Returns the document as text, in the form of Jansson's `flags` without JSON_REAL_PRECISION: each real has
 * as many digits as are needed to read back the same double (number.h). The caller frees it. NULL: no memory,
 * now or in any allocation since the last call of these functions, because a part of the document may then be
 * missing. All documents that leave a program are written by these functions, so none is incomplete. */
char *json_dump(const json_t *value, size_t flags);
char *json_dump_line(const json_t *value, size_t flags); /* with a line feed */
char *json_line(const json_t *value);                    /* on one line without spaces, with a line feed */

#endif
