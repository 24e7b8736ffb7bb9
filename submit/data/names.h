/* names -- a list of byte strings in an order, each found by its text: class names, the words of a
 * vocabulary, names of columns. The texts are those of files, so they may be of any encoding.
 *
 * In JSON a text in UTF-8 is a string; one in another encoding, as Latin-1, is {"bytes": "..."}, whose
 * characters U+0001 to U+00FF are the bytes. A list of words, which have no spaces, is one text with spaces
 * between them: an array of ten thousand words would be ten thousand lines in a file that people read. */
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

/* Takes ownership of `bytes`, also on failure: n texts, one after another, each with its zero byte.
 * ERR_NOMEM. */
int names_take(struct names *out, char *bytes, size_t n, struct err *e);
/* The same with a copy of the texts. */
int names_copy(struct names *out, const char *bytes, size_t n, struct err *e);
void names_clear(struct names *s);
/* The texts of a list that is not empty, as names_copy() takes them; the caller frees. NULL: no memory. */
char *names_packed(const struct names *s);

/* A hash of a text, for tables of texts. */
uint64_t names_hash(const char *text, size_t len);
/* The first index of the text; -1: not found. */
long names_find(const struct names *s, const char *text, size_t len);
/* Are all texts different? */
bool names_are_unique(const struct names *s);
/* "ant, bee, cow", "ant, bee and 98 others": for a message. */
const char *names_text(char *out, size_t size, const struct names *s);

/* NULL: no memory. */
json_t *names_json(const struct names *s);
/* `at`: the array's path. ERR_CONFIG: not an array of texts. */
int names_parse(struct names *out, const json_t *array, const char *at, struct err *e);
/* The same as one text, with spaces between the words. */
json_t *names_words_json(const struct names *s);
int names_words_parse(struct names *out, const json_t *words, const char *at, struct err *e);

#endif
