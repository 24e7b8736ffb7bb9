/* text -- what others wrote is made fit for a terminal here, and numbers fit for people. */
#ifndef PSGD_SUBMIT_TEXT_H
#define PSGD_SUBMIT_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TEXT_AMOUNT = 24 };

/* Replaces in place every control character (C0, DEL, C1) and every byte that is not UTF-8 by '?', so that no
 * text of an agent moves a cursor. `keep_lines`: line feeds and tabs stay. */
void text_clean(char *s, size_t len, bool keep_lines);
/* printf, cleaned so, but for its line feeds. */
void text_print(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

const char *text_bytes(char out[TEXT_AMOUNT], uint64_t bytes); /* "1.2 MB" */
const char *text_seconds(char out[TEXT_AMOUNT], double s);     /* "3.41 s", "2 min 05 s" */
const char *text_hour(char out[TEXT_AMOUNT], double wall);     /* "10:50:19", local, of a clock_wall time */

#endif
