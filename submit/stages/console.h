/* say -- what job_submit tells people while it works: lines on stderr in the ancestor's form, bars on a
 * terminal, and all lines once more in the job's submit.log. Results go to stdout and not through here. One
 * process has one terminal, so this module has one state. */
#ifndef PSGD_SUBMIT_CONSOLE_H
#define PSGD_SUBMIT_CONSOLE_H

#include <stdbool.h>

#include "shared/err.h"

/* verbosity -1: errors only; 0: as usual; 1: more. */
void console_init(int verbosity, bool no_color);
bool console_is_terminal(void);

/* "INFO User Submit@10:50:19 : ..."; console_more on the terminal only with -v. */
void console_info(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void console_more(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* "ERROR User Submit@10:50:19 : ..." */
void console_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* A line as it is. */
void console_plain(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* error:, hint: and code: of a failure, as every command ends when it fails. */
void console_failure(const struct err *e, const char *code);

/* From now on lines also go to the file at `path`, behind what is in it; what was said so far comes first. */
int console_keep(const char *path, struct err *e);

/* Shows lines below all others and rewrites them at the next call; n = 0 takes them away. */
void console_bars(const char *const *lines, int n);

void console_end(void);

#endif
