/* names -- a list of byte strings in an order, each found by its text: class names, the words of a
 * vocabulary, names of columns. The texts are those of files, so they may be of any encoding.
 *
 * In JSON a text that is UTF-8 is a string; another one, as of a file in Latin-1, is {"bytes": "..."}, whose
 * characters U+0001 to U+00FF are the bytes. Many texts without spaces, words, are one text, separated by
 * spaces: as an array, ten thousand of them would be as many lines of a file that people read. */
#ifndef PSGD_NAMES_H
#define PSGD_NAMES_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/base/err.h"

struct names {
    size_t n;
    const char **at; /* (n), each with its zero byte; they point into `bytes` */
    char *bytes;     /* owned */
    uint32_t *slots; /* a hash table of room slots: 0, or one more than an index */
    size_t room;
};

/* Takes n texts, one after another, each with its zero byte, in `bytes`, also on failure. ERR_NOMEM. */
int names_take(struct names *out, char *bytes, size_t n, struct err *e);
/* The same for a copy of them. */
int names_copy(struct names *out, const char *bytes, size_t n, struct err *e);
void names_clear(struct names *s);
/* The texts of a list that is not empty, as names_copy() takes them; the caller frees. NULL: no memory. */
char *names_packed(const struct names *s);

/* A hash of a text, for tables of texts. */
uint64_t names_hash(const char *text, size_t len);
/* The first index of the text; -1: not found. */
long names_find(const struct names *s, const char *text, size_t len);
/* Is no text in it twice? */
bool names_are_unique(const struct names *s);
/* "ant, bee, cow", "ant, bee and 98 others": for a message. */
const char *names_text(char *out, size_t size, const struct names *s);

/* NULL: no memory. */
json_t *names_json(const struct names *s);
/* `at`: the array's path. ERR_CONFIG: not an array of texts. */
int names_parse(struct names *out, const json_t *array, const char *at, struct err *e);
/* The same of one text with all of them. */
json_t *names_words_json(const struct names *s);
int names_words_parse(struct names *out, const json_t *words, const char *at, struct err *e);

#endif
