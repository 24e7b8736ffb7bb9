/* verb_table -- all verbs of job_submit, a line each, and their help. */
#ifndef PSGD_SUBMIT_VERB_TABLE_H
#define PSGD_SUBMIT_VERB_TABLE_H

#include <stdio.h>

#include "submit/options/submit_options.h"

/* The headings of `job_submit help`, in this order. */
enum verb_group { OF_JOBS, OF_RUNNING, OF_RESULTS, OF_PARTS, OF_MACHINES, OF_ITSELF, N_VERB_GROUPS };

struct verb {
    const char *name;
    int (*run)(const struct options *o, struct err *e);
    enum {
        SHOWS,
        WORKS
    } purpose; /* SHOWS: the verb only prints; WORKS: it does more, and the output only reports it */
    unsigned options;
    int max_operands; /* ARGS_OPERANDS: any number, or the verb checks them itself */
    const char *operands, *help;
    enum verb_group group;
};

extern const struct verb verbs[];
extern const int n_verbs;
extern const char *const verb_groups[]; /* their headings */

/* NULL: there is none. ERR_USAGE: the message suggests one. */
const struct verb *verb_find(const char *name, struct err *e);
/* The operands of a verb that does several things, a line each; NULL: it has those of its line. */
const char *verb_forms(const struct verb *v);
void verb_print_help(FILE *f, const struct verb *v);
void verb_print_all(FILE *f);

#endif
