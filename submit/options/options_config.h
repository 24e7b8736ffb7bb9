/* options_config -- the options of a job from a file, --config: a JSON object whose keys are their names, or
 * the run.json of an earlier job, which is repeated. For options_parse.c. */
#ifndef PSGD_SUBMIT_OPTIONS_CONFIG_H
#define PSGD_SUBMIT_OPTIONS_CONFIG_H

#include "submit/options/submit_options.h"

/* Sets the options of `verb` over the defaults. o->args.given has those that an object names, as if they were
 * on the command line; of a run.json none, as its job had values for all. `is_changed`: the command line
 * changes some option of the job, so that what the earlier one chose by itself is chosen anew. ERR_CONFIG:
 * the file is invalid, with its name, or is that of an executor; ERR_NOT_FOUND: there is no such file, or
 * one that it names is gone. */
int options_take_config(struct options *o, unsigned verb, const char *path, bool is_changed, struct err *e);

/* The same of a document that is in `folder`; the options may point into it. */
int options_take_document(struct options *o, unsigned verb, const json_t *doc, const char *folder,
                          bool is_changed, struct err *e);

/* Sets the options of an earlier job, `doc` in `folder`, as above: options_repeat.c. */
int options_take_run(struct options *o, unsigned verb, const json_t *doc, const char *folder, bool is_changed,
                     struct err *e);

/* Are they names of one option, but for '_' and '-'? */
bool options_is_same_name(const char *a, const char *b);

#endif
