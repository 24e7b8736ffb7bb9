/* options_table -- what the two files of options have in common. */
#ifndef PSGD_SUBMIT_OPTIONS_TABLE_H
#define PSGD_SUBMIT_OPTIONS_TABLE_H

#include "shared/args.h"
#include "submit/options.h"

enum { JOB, SIMULATED, CHECKED, WHERE, RESULTS, OUTPUT }; /* groups */

extern const struct args options_table;

/* In run.json and at the start. */
bool options_is_shown(const struct args_option *t);

/* Refuses, with --resume, what a resumed job has from the earlier one and would be another. What is as it was
 * may be said again. */
int options_check_resume(const struct options *o, const struct options *earlier, struct err *e);
/* The options of the job in `folder`, over the defaults, but those that are `given`, by place in the table,
 * and may differ. */
int options_take_earlier(struct options *o, const bool *given, const char *folder, struct err *e);

#endif
