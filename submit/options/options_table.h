/* options_table -- the table of options, for the files that read or write them (options_*.c). */
#ifndef PSGD_SUBMIT_OPTIONS_TABLE_H
#define PSGD_SUBMIT_OPTIONS_TABLE_H

#include "shared/base/args.h"
#include "submit/options/submit_options.h"

enum { JOB, SIMULATED, CHECKED, WHERE, RESULTS, OUTPUT }; /* groups */

extern const struct args options_table;

/* Makes the table ready, and sets all options to what they are if they are not given. */
void options_defaults(struct options *o);

/* Is the option of the member at `offset` on this command line? A job that runs again has values for all. */
bool options_is_given(const struct options *o, size_t offset);

/* True if a file of --config may have the option for this verb: it describes the job, or where it runs. */
bool options_in_config(const struct args_option *t, unsigned verb);
/* The option's key there: its first name, with '_'. */
void options_config_key(char out[ARGS_NAME], const struct args_option *t);
/* The key of the setting that it sets, in the settings of run.json; NULL: none. */
const char *options_setting_key(const struct args_option *t);

/* True if run.json and the echo at the start of this job list the option. */
bool options_is_shown(const struct options *o, const struct args_option *t);

/* Refuses options of a resumed job that differ from the earlier job and may not. Repeating an unchanged
 * value is allowed. */
int options_check_resume(const struct options *o, const struct options *earlier, struct err *e);
/* All options of an earlier job that `verb` takes, over the defaults. ERR_CONFIG: it ran an executor, and the
 * verb does not. */
int options_take_texts(struct options *o, unsigned verb, const json_t *texts, struct err *e);
/* Those of the job in `folder`, except those that are `given` (by index in the table) and may differ. */
int options_take_earlier(struct options *o, const bool *given, const char *folder, struct err *e);

#endif
