/* compile -- compiles a codec's .c file: in job_submit on submission, in job_runner if the object is for
 * another machine. */
#ifndef PSGD_COMPILE_H
#define PSGD_COMPILE_H

#include <stdbool.h>
#include <stddef.h>

#include "shared/base/err.h"

extern const char compile_flags[]; /* "-std=c11 -O3 ...", without file names */

/* Compiles `source` into `object` with `cc`, which may contain options ("ccache gcc"); the compiler's
 * output, of at most 20 errors, goes to stderr unchanged. It is not run by a shell, and is limited to 2
 * minutes of processor time and 4 GiB of memory. `exe_dir`: the folder of this program, relative to which
 * codec.h is found. ERR_CODEC. */
int compile_codec(const char *cc, const char *source, const char *object, const char *exe_dir, struct err *e);

/* The same in a child that `confine(arg)` restricts first, as in struct child_how. */
int compile_confined(const char *cc, const char *source, const char *object, const char *exe_dir,
                     int (*confine)(void *), void *arg, struct err *e);

/* Writes the folder of codec.h, as compile_codec finds it. ERR_CODEC. */
int compile_find_header(char *out, size_t size, const char *exe_dir, struct err *e);

/* Writes the first line of the output of `cc --version`; "" if there is none. */
void compile_version(char *out, size_t size, const char *cc);

/* Whether $PATH has a program of this name. */
bool compile_is_there(const char *cc);

#endif
