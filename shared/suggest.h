/* suggest -- "did you mean": the known word nearest to a mistyped one. */
#ifndef PSGD_SUGGEST_H
#define PSGD_SUGGEST_H

#include "shared/err.h"

/* The nearest of `words` (ends with NULL) by edit distance, or NULL when none is near enough to be meant. */
const char *suggest(const char *text, const char *const *words);

/* Adds to what `e` says the nearest word, `; did you mean "topk"?`, or when none is near all of them,
 * `; there are: none, topk`. Returns e->code. */
int suggest_instead(const char *text, const char *const *words, struct err *e);

#endif
