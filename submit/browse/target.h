/* target -- the target of a request, decoded: /path?key=value&key=value. %41 is a byte, and + a space of the
 * query. */
#ifndef PSGD_BROWSE_TARGET_H
#define PSGD_BROWSE_TARGET_H

#include "shared/base/err.h"

enum { TARGET_KEYS = 16 };

struct target {
    char *path; /* owned; what follows points into it */
    struct {
        const char *key, *value;
    } query[TARGET_KEYS];
    size_t n;
};

/* ERR_USAGE: a % without two hexadecimal digits, a zero byte, or more than 16 keys. ERR_NOMEM. */
int target_parse(struct target *out, const char *text, struct err *e);
void target_clear(struct target *t);

const char *target_query(const struct target *t, const char *key); /* NULL: not given */

#endif
