/* text -- what others wrote is printed, and numbers are put, so that people can read them. */
#ifndef PSGD_SUBMIT_TEXT_H
#define PSGD_SUBMIT_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TEXT_AMOUNT = 24 };

/* printf, cleaned as utf8_clean has it, but for its line feeds: no text of an agent moves a cursor. */
void text_print(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* The full stop behind others' words; "" behind those that end a sentence themselves. */
const char *text_stop(const char *words);

/* `word` as a shell takes it for one word: in quotes, unless no character of it means anything to a shell. A
 * word that does not fit is cut. */
const char *text_shell_quote(char *out, size_t size, const char *text);

const char *text_bytes(char out[TEXT_AMOUNT], uint64_t bytes); /* "1.2 MB" */
const char *text_seconds(char out[TEXT_AMOUNT], double s);     /* "3.41 s", "2 min 05 s" */
const char *text_hour(char out[TEXT_AMOUNT], double wall);     /* "10:50:19", local, of a clock_wall time */

#endif
