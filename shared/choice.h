/* words -- lists of the words that something may be, as one text: "ssgd|asgd". */
#ifndef PSGD_CHOICE_H
#define PSGD_CHOICE_H

/* The place of `word` in the list, from 0; -1: it is none of them. */
int choice_find(const char *list, const char *text);

/* The word at that place, which must be there; *n: its length. */
const char *choice_at(const char *list, int place, int *n);

#endif
