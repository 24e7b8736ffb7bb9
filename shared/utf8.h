/* utf8 -- where characters end in a text that may be anybody's. */
#ifndef PSGD_UTF8_H
#define PSGD_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* Length of the character at s, of which `len` > 0 bytes are there; 0 when there is none: RFC 3629, no overlong
 * forms, no surrogates. */
size_t utf8_length(const char *s, size_t len);

bool utf8_is_all(const char *text);

/* `len`, or less where the last character of s is not all within: where to cut. */
size_t utf8_whole(const char *s, size_t len);

#endif
