/* suggest -- "did you mean": the choice nearest to a mistyped one. */
#ifndef PSGD_SUGGEST_H
#define PSGD_SUGGEST_H

#include "shared/err.h"

/* Returns the nearest of `choices` (ends with NULL) by edit distance, or NULL if none is near enough. */
const char *suggest(const char *text, const char *const *choices);

/* Appends the nearest choice to the message in `e`, `; did you mean "topk"?`, or if none is near all of
 * them, `; there are: none, topk`. Returns e->code. */
int suggest_instead(const char *text, const char *const *choices, struct err *e);

#endif
