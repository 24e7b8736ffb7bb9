/* labels -- a run's note and tags: what people say of it. Its run.json has them under facts, as the index of
 * jobs has. */
#ifndef PSGD_SUBMIT_LABELS_H
#define PSGD_SUBMIT_LABELS_H

#include <jansson.h>
#include <stddef.h>

enum { LABELS_MAX = 1024 };

/* "#TAG #TAG  NOTE", for people, without control characters; "": there are none. What does not fit is left
 * out. */
const char *labels_text(char *out, size_t size, const json_t *facts);

#endif
