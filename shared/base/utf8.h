/* utf8 -- untrusted text: boundaries of characters, and characters that control a terminal or deceive a
 * reader. The page has the same list (page/js/00-psgd.js). */
#ifndef PSGD_UTF8_H
#define PSGD_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* Returns the length of the character at s, of which `len` > 0 bytes are available; 0 if it is not valid:
 * RFC 3629, no overlong forms, no surrogates. */
size_t utf8_length(const char *s, size_t len);

bool utf8_is_all(const char *text); /* whether all of the text is valid */

/* Returns where to cut s: `len`, or less if that would split the last character. */
size_t utf8_whole(const char *s, size_t len);

/* Whether the text can be printed: it is UTF-8 without control characters (C0, DEL, C1), which control a
 * terminal, and without invisible characters that change how others are shown: directions of writing (U+202E
 * reverses the rest of a line), separators of lines, joiners and spaces without width, tags. */
bool utf8_is_clean(const char *text);

/* Replaces each byte that utf8_is_clean() refuses by '?', in place. `keep_lines`: keeps line feeds and
 * tabs. */
void utf8_clean(char *s, size_t len, bool keep_lines);

#endif
