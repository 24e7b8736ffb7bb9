/* choice -- the choices of an option or a key: finding one, and "did you mean" for a mistyped one. The
 * choices are a list in one string, "ssgd|asgd", or an array that ends with NULL. */
#ifndef PSGD_CHOICE_H
#define PSGD_CHOICE_H

#include "shared/base/err.h"

/* Returns the index of `text` in the list; -1: not in it. */
int choice_find(const char *list, const char *text);

/* Returns the choice at index `place`, which must exist; *n: its length. */
const char *choice_at(const char *list, int place, int *n);

/* Returns the choice nearest to `text`, or NULL if none is near. Near is a choice that begins with the text,
 * that differs from it in at most a third of its letters, or that has most of its beginning. Texts of more
 * than 63 characters are near to none. */
const char *choice_near(const char *text, const char *const *choices);
/* As choice_near, in a list of any length; *n: the length of the choice. */
const char *choice_near_in(const char *list, const char *text, int *n);

/* Appends the nearest choice to the message in `e`: `; did you mean "topk"?`; if none is near, all of them:
 * `; there are: none, topk`. Returns e->code. */
int choice_suggest(const char *text, const char *const *choices, struct err *e);

#endif
