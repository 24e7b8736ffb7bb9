/* utf8 -- untrusted text: boundaries of characters, and characters that control a terminal or deceive a
 * reader. The page has the same list (page/js/00-psgd.js). */
#ifndef PSGD_UTF8_H
#define PSGD_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* Returns the length of the character at s, of which `len` > 0 bytes are available; 0 if it is not valid:
 * RFC 3629, no overlong forms, no surrogates. */
size_t utf8_length(const char *s, size_t len);

bool utf8_is_all(const char *text);

/* Returns where to cut s: `len`, or less if that would split the last character. */
size_t utf8_whole(const char *s, size_t len);

/* Whether the text has no control characters (C0, DEL, C1), which control a terminal, no bytes that are not
 * UTF-8, which may, and no characters without a shape that change how others are shown: directions of writing
 * (U+202E turns the rest of a line around), separators of lines, joiners and spaces without width, tags. */
bool utf8_is_clean(const char *text);

/* Replaces each byte of these in place by '?'. `keep_lines`: keeps line feeds and tabs. */
void utf8_clean(char *s, size_t len, bool keep_lines);

#endif
