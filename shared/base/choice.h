/* choice -- lists of choices in one string: "ssgd|asgd". */
#ifndef PSGD_CHOICE_H
#define PSGD_CHOICE_H

/* Returns the index of `text` in the list; -1: not in it. */
int choice_find(const char *list, const char *text);

/* Returns the choice at index `place`, which must exist; *n: its length. */
const char *choice_at(const char *list, int place, int *n);

#endif
