/* args -- the options of a program, from one table: what it takes, what --help says of it, what it was given.
 *
 *     static const struct args_option table[] = {
 *         {"port", "p", ARGS_INT, ARGS_AT(struct options, port), FOR_ALL, 0, "N", "its port", .max = 65535},
 *     };
 *
 * getopt_long takes the words apart. Beyond it, '_' and '-' are the same in a long option, none is
 * abbreviated, and an unknown one is refused with the nearest. */
#ifndef PSGD_ARGS_H
#define PSGD_ARGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "shared/err.h"

enum args_kind {                    /* and what stands at the option's offset */
                 ARGS_FLAG,         /* bool */
                 ARGS_COUNT,        /* int: how often it was given */
                 ARGS_INT,          /* int */
                 ARGS_U64,          /* uint64_t, up to 2^53 */
                 ARGS_NUMBER,       /* double */
                 ARGS_TEXT,         /* char[size], not empty */
                 ARGS_PATH,         /* the same, of a file */
                 ARGS_NAME_OR_PATH, /* the same, of a file if it looks like one */
                 ARGS_CHOICE_TEXT,  /* char[size]: one of the words that `value` lists */
                 ARGS_CHOICE,       /* int: the place of the word */
                 ARGS_LIST          /* const char *[], each time one more; NULL behind the last */
};

enum { ARGS_MAX = 128, ARGS_NAME = 48, ARGS_OPERANDS = 64 };

struct args_option {
    const char *names;  /* '|' between them; the first one is shown */
    const char *shorts; /* each character is a short form */
    enum args_kind kind;
    size_t offset, size;
    unsigned verbs;    /* that take it, as bits of the owner's */
    int group;         /* whose heading it stands under in --help */
    const char *value; /* how --help calls it; ARGS_CHOICE_TEXT and ARGS_CHOICE: the words */
    const char *help;
    const char *hint; /* after a wrong word; NULL: the nearest one, if any is near */
    double min, max;  /* of a number; both 0: any */
    ptrdiff_t given;  /* offset of a bool that says it was given; 0: nobody asks */
    bool may_change;  /* the owner's */
};

#define ARGS_AT(type, member) .offset = offsetof(type, member), .size = sizeof(((type *)0)->member)

struct args {
    const char *where; /* a sentence for whoever has missed one: how to see them all */
    const struct args_option *options;
    int n;                     /* <= ARGS_MAX */
    const char *const *groups; /* headings, by number; ends with NULL */
};

struct args_found {
    bool given[ARGS_MAX]; /* by place in the table */
    const char *operands[ARGS_OPERANDS];
    int n_operands;
};

/* Sets the members of `out` that argv names; argv[0] is passed over. The strings stay argv's, where '_'
 * becomes '-' in the names of options. ERR_USAGE. */
int args_parse(const struct args *a, unsigned verb, int argc, char **argv, void *out,
               struct args_found *found, struct err *e);

/* One option, as if it had stood there. */
int args_set(const struct args_option *t, const char *value, void *out, struct err *e);

/* What the option's member holds, as it could stand on a command line; a flag: "yes" or "no"; of a list,
 * its first. */
void args_text(char *text, size_t size, const struct args_option *t, const void *from);

void args_name(char out[ARGS_NAME], const struct args_option *t);

/* The lines of --help for a verb's options, under the headings of their groups (args_help.c). */
void args_help(FILE *f, const struct args *a, unsigned verb);

#endif
