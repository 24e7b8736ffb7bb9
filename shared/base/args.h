/* args -- parses the options of a program, and prints --help, from one table.
 *
 *     static const struct args_option table[] = {
 *         {"port", "p", ARGS_INT, ARGS_AT(struct options, port), FOR_ALL, 0, "N", "its port", .max = 65535},
 *     };
 *
 * Parsing is by getopt_long, except that '_' and '-' are the same in a long option, abbreviations are not
 * accepted, and for an unknown option the nearest one is suggested. */
#ifndef PSGD_ARGS_H
#define PSGD_ARGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "shared/base/err.h"

enum args_kind {                    /* type of the member at the option's offset */
                 ARGS_FLAG,         /* bool */
                 ARGS_COUNT,        /* int: number of times given */
                 ARGS_INT,          /* int */
                 ARGS_U64,          /* uint64_t, up to 2^53 */
                 ARGS_NUMBER,       /* double */
                 ARGS_TEXT,         /* char[size], not empty */
                 ARGS_PATH,         /* the same, a file's path */
                 ARGS_NAME_OR_PATH, /* the same, a path if it looks like one */
                 ARGS_CHOICE_TEXT,  /* char[size]: one of the choices listed in `value` */
                 ARGS_CHOICE,       /* an enum, or int: the index of the choice */
                 ARGS_LIST          /* const char *[], each use appends one; ends with NULL */
};

enum { ARGS_MAX = 192, ARGS_NAME = 48, ARGS_OPERANDS = 64 };

struct args_option {
    const char *names;  /* separated by '|'; messages use the first one */
    const char *shorts; /* each character is a short option */
    enum args_kind kind;
    size_t offset, size;
    uint64_t verbs;    /* the verbs that accept it, as bits defined by the caller */
    int group;         /* index of its heading in --help */
    const char *value; /* the value's name in --help; ARGS_CHOICE_TEXT and ARGS_CHOICE: the choices */
    const char *help;
    const char *hint; /* after an invalid choice; NULL: the nearest choice is suggested, if any is near */
    const char *elsewhere; /* hint for a verb that has no such option; NULL: how to list all */
    double min, max;       /* of a number; both 0: any */
    ptrdiff_t given;       /* offset of a bool that is set if the option was given; 0: none */
    bool may_change;       /* not read here: for the caller's use */
};

#define ARGS_AT(type, member) .offset = offsetof(type, member), .size = sizeof(((type *)0)->member)

struct args {
    const char *where; /* hint after an unknown option: how to list all options */
    const struct args_option *options;
    int n;                     /* <= ARGS_MAX */
    const char *const *groups; /* headings, by number; ends with NULL */
};

struct args_found {
    bool given[ARGS_MAX]; /* by index in the table */
    const char *operands[ARGS_OPERANDS];
    int n_operands;
    bool has_unknown; /* after an error: an option is none of the verb's */
};

/* Sets the members of `out` for the options in argv; argv[0] is skipped. Strings still belong to argv, in
 * which '_' is changed to '-' in the names of options. ERR_USAGE. */
int args_parse(const struct args *a, uint64_t verb, int argc, char **argv, void *out,
               struct args_found *found, struct err *e);

/* Sets one option as if it were in argv. */
int args_set(const struct args_option *t, const char *value, void *out, struct err *e);

/* Writes the value of the option's member in the form of the command line; a flag as "yes" or "no"; of a list
 * only the first item. */
void args_text(char *text, size_t size, const struct args_option *t, const void *from);

/* Writes, in the same form, the option's default, which is its member's value in `defaults`. Returns false if
 * the option has no default: a flag, an empty text, a number outside its range, or a 0 of an option with
 * `given`, where 0 stands for "not given". */
bool args_default(char *text, size_t size, const struct args_option *t, const void *defaults);

void args_name(char out[ARGS_NAME], const struct args_option *t);

/* Prints the --help lines of a verb's options, under the headings of their groups, with their defaults unless
 * `defaults` is NULL. */
void args_help(FILE *f, const struct args *a, uint64_t verb, const void *defaults);

/* Prints a text and a line feed, broken between words into lines of `width` characters; the lines after the
 * first begin at `column`. */
void args_wrap(FILE *f, const char *text, int column, size_t width);

#endif
