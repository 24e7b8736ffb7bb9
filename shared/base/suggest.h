/* suggest -- "did you mean": the choice nearest to a mistyped one. */
#ifndef PSGD_SUGGEST_H
#define PSGD_SUGGEST_H

#include "shared/base/err.h"

/* Returns the nearest of `choices` (ends with NULL), or NULL if none is near: one that begins with the text,
 * one of which at most a third of the letters are wrong, or one whose beginning the text has. */
const char *suggest(const char *text, const char *const *choices);

/* The same for a list in one string, "ssgd|asgd" (choice.h), however many it has; *n: the choice's length. */
const char *suggest_choice(const char *text, const char *list, int *n);

/* Appends the nearest choice to the message in `e`, `; did you mean "topk"?`, or if none is near all of
 * them, `; there are: none, topk`. Returns e->code. */
int suggest_instead(const char *text, const char *const *choices, struct err *e);

#endif
