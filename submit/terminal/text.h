/* text -- prints untrusted text safely and formats numbers for people. */
#ifndef PSGD_SUBMIT_TEXT_H
#define PSGD_SUBMIT_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TEXT_AMOUNT = 24 };

/* printf to stdout through utf8_clean, keeping line feeds: no text of an agent moves the cursor. */
void text_print(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* "." to append to `text`; "" if it ends with a sentence mark already. */
const char *text_stop(const char *text);

/* Quotes `text` for a shell as one argument; unquoted if it has no special character. Truncates a text that
 * does not fit. */
const char *text_shell_quote(char *out, size_t size, const char *text);

const char *text_bytes(char out[TEXT_AMOUNT], uint64_t bytes); /* "1.2 MB" */
const char *text_seconds(char out[TEXT_AMOUNT], double s);     /* "3.41 s", "2 min 05 s" */
const char *text_result(char out[TEXT_AMOUNT], double v);      /* a loss: "0.1234", "1.16e+58"; "-" */
const char *text_hour(char out[TEXT_AMOUNT], double wall); /* "10:50:19", local time of a clock_wall time */

#endif
