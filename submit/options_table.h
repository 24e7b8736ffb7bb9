/* options_table -- declarations shared by options.c and options_record.c. */
#ifndef PSGD_SUBMIT_OPTIONS_TABLE_H
#define PSGD_SUBMIT_OPTIONS_TABLE_H

#include "shared/args.h"
#include "submit/options.h"

enum { JOB, SIMULATED, CHECKED, WHERE, RESULTS, OUTPUT }; /* groups */

extern const struct args options_table;

/* True if run.json and the echo at the start of this job list the option. */
bool options_is_shown(const struct options *o, const struct args_option *t);

/* Refuses options of a resumed job that differ from the earlier job and may not. Repeating an unchanged
 * value is allowed. */
int options_check_resume(const struct options *o, const struct options *earlier, struct err *e);
/* Sets the options of the job in `folder` over the defaults, except those that are `given` (by index in the
 * table) and may differ. */
/* All options of an earlier job, over the defaults. */
int options_take_all(struct options *o, const json_t *texts, struct err *e);
int options_take_earlier(struct options *o, const bool *given, const char *folder, struct err *e);

#endif
