/* compile -- a codec that comes as a .c file: by job_submit where it is submitted, by job_runner where the
 * object is for another machine. */
#ifndef PSGD_COMPILE_H
#define PSGD_COMPILE_H

#include <stdbool.h>
#include <stddef.h>

#include "shared/err.h"

extern const char compile_flags[]; /* "-std=c11 -O3 ...", less what names files */

/* Compiles `source` into `object` with `cc`, which may hold options ("ccache gcc"); the compiler's words go
 * to stderr as they are. It is no shell command, and gets 2 minutes of processor time and 4 GiB of memory.
 * `exe_dir`: of this program, beside which codec.h lies. ERR_CODEC. */
int compile_codec(const char *cc, const char *source, const char *object, const char *exe_dir, struct err *e);

/* The first line of what it says to --version; "" where it says nothing. */
void compile_version(char *out, size_t size, const char *cc);

/* Whether a program of this name is in a folder of $PATH. */
bool compile_is_there(const char *cc);

#endif
