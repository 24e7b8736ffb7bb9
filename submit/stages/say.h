/* say -- what job_submit tells people while it works: lines on stderr in the ancestor's form, bars on a
 * terminal, and all lines once more in the job's submit.log. Results go to stdout and not through here. One
 * process has one terminal, so this module has one state. */
#ifndef PSGD_SUBMIT_SAY_H
#define PSGD_SUBMIT_SAY_H

#include <stdbool.h>

#include "shared/err.h"

/* verbosity -1: errors only; 0: as usual; 1: more. */
void say_init(int verbosity, bool no_color);
bool say_is_terminal(void);

/* "INFO User Submit@10:50:19 : ..."; say_more on the terminal only with -v. */
void say_info(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void say_more(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* "ERROR User Submit@10:50:19 : ..." */
void say_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* A line as it is. */
void say_plain(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* error:, hint: and code: of a failure, as every command ends when it fails. */
void say_failure(const struct err *e, const char *code);

/* From now on lines also go to the file at `path`, behind what is in it; what was said so far comes first. */
int say_keep(const char *path, struct err *e);

/* Shows lines below all others and rewrites them at the next call; n = 0 takes them away. */
void say_bars(const char *const *lines, int n);

void say_end(void);

#endif
