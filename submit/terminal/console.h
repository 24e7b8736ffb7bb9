/* console -- progress and error messages on stderr in the form of Parallel-SGD, bars and colours on a
 * terminal, and a copy of all lines in the job's submit.log. Results go to stdout and not through this
 * module. A process has one terminal, so the module has one state. */
#ifndef PSGD_SUBMIT_CONSOLE_H
#define PSGD_SUBMIT_CONSOLE_H

#include <stdbool.h>
#include <stddef.h>

#include "shared/base/err.h"

/* verbosity -1: errors only; 0: as usual; 1: more. */
void console_init(int verbosity, bool no_color);
int console_set_verbosity(int verbosity); /* returns the former one */
bool console_is_terminal(void);
/* The number of characters of a line of the terminal: $COLUMNS - 1, if COLUMNS is exported, else the
 * terminal's. */
size_t console_width(void);

/* "INFO User Submit@10:50:19 : ..."; console_more on the terminal only with -v. */
void console_info(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void console_more(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* "ERROR User Submit@10:50:19 : ..." */
void console_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* A line without a prefix. */
void console_plain(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* The lines error:, hint: and code:, which every failing command prints last. */
void console_failure(const struct err *e, const char *code);

/* Appends all further lines to the file at `path`, after the lines printed so far. */
int console_keep(const char *path, struct err *e);

/* Shows `lines` below all other output and redraws them at the next call; n = 0 removes them. */
void console_bars(const char *const *lines, int n);

void console_end(void);

#endif
