/* words -- lists of the words that something may be, as one text: "ssgd|asgd". */
#ifndef PSGD_WORDS_H
#define PSGD_WORDS_H

/* The place of `word` in the list, from 0; -1: it is none of them. */
int words_find(const char *list, const char *word);

/* The word at that place, which must be there; *n: its length. */
const char *words_at(const char *list, int place, int *n);

#endif
