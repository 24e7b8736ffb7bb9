/* utf8 -- a text that may be anybody's: where its characters end, and which of them steer a terminal. */
#ifndef PSGD_UTF8_H
#define PSGD_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* Length of the character at s, of which `len` > 0 bytes are there; 0 when there is none: RFC 3629, no
 * overlong forms, no surrogates. */
size_t utf8_length(const char *s, size_t len);

bool utf8_is_all(const char *text);

/* `len`, or less where the last character of s is not all within: where to cut. */
size_t utf8_whole(const char *s, size_t len);

/* Control characters (C0, DEL, C1) steer a terminal, and so may bytes that are not UTF-8. True: the text
 * holds neither. */
bool utf8_is_clean(const char *text);

/* Replaces both in place by '?'. `keep_lines`: line feeds and tabs stay. */
void utf8_clean(char *s, size_t len, bool keep_lines);

#endif
