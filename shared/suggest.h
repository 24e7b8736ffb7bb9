/* suggest -- "did you mean": the known word nearest to a mistyped one. */
#ifndef PSGD_SUGGEST_H
#define PSGD_SUGGEST_H

/* The nearest of `words` (ends with NULL) by edit distance, or NULL when none is near enough to be meant. */
const char *suggest(const char *word, const char *const *words);

#endif
