/* options_words -- options in the environment variable PSGD_OPTIONS, for processes that a launcher starts
 * with a command of the user's, as mpirun -n 4 python3 train.py. */
#ifndef PSGD_SUBMIT_OPTIONS_WORDS_H
#define PSGD_SUBMIT_OPTIONS_WORDS_H

#include "shared/base/err.h"

#define OPTIONS_VARIABLE "PSGD_OPTIONS"

/* *out: argv with the words of `text` behind argv[0], so that options in argv count before them, and *argc
 * its length; the caller frees *out and *words. Words are read as by a shell, without expansions: white space
 * separates them, '...' is taken as it is, and in "..." and outside \ takes the next character as it is.
 * ERR_USAGE: a quotation mark without its other one. ERR_NOMEM. */
int options_add_words(char ***out, char **words, int *argc, char **argv, const char *text, struct err *e);

#endif
