/* utf8 -- untrusted text: boundaries of characters, and characters that control a terminal. */
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

/* Whether the text has no control characters (C0, DEL, C1), which control a terminal, and no bytes that are
 * not UTF-8, which may. */
bool utf8_is_clean(const char *text);

/* Replaces both in place by '?'. `keep_lines`: keeps line feeds and tabs. */
void utf8_clean(char *s, size_t len, bool keep_lines);

#endif
