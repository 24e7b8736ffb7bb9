/* target -- decodes the target of a request, /path?key=value&key=value: %41 is a byte, and in the query + is
 * a space. */
#ifndef PSGD_BROWSE_TARGET_H
#define PSGD_BROWSE_TARGET_H

#include <stddef.h>

#include "shared/base/err.h"

enum { TARGET_KEYS = 16 };

struct target {
    char *path; /* owned; the other members point into it */
    struct {
        const char *key, *value;
    } query[TARGET_KEYS];
    size_t n;
};

/* ERR_USAGE: a % without two hexadecimal digits, a zero byte, or more than 16 keys. ERR_NOMEM. */
int target_parse(struct target *out, const char *text, struct err *e);
void target_clear(struct target *t);

const char *target_query(const struct target *t,
                         const char *key); /* NULL: the key is missing or has no value */

#endif
