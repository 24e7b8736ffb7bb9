/* options_config -- the options of a job from a document, --config: a JSON object whose keys are their names,
 * or the run.json of an earlier job, which is repeated. */
#ifndef PSGD_SUBMIT_OPTIONS_CONFIG_H
#define PSGD_SUBMIT_OPTIONS_CONFIG_H

#include "submit/options/submit_options.h"

/* Reads the file at `path`, and sets the options of `verb` over the defaults. o->args.given has the options
 * that an object names, as if they were on the command line; none after a run.json, as its job had values for
 * all. `is_changed`: the command line changes an option of the job; what the earlier job has chosen by itself
 * is then chosen anew. ERR_CONFIG: the file is invalid, or describes the run of an executor; ERR_NOT_FOUND:
 * the file, or one that it names, does not exist. */
int options_take_config(struct options *o, uint64_t verb, const char *path, bool is_changed, struct err *e);

/* The same of a document in `folder`; the options may point into it. */
int options_take_document(struct options *o, uint64_t verb, const json_t *doc, const char *folder,
                          bool is_changed, struct err *e);

/* A JSON Schema (2020-12) of these documents. NULL: no memory. */
json_t *options_schema(void);

/* Are they names of one option, which may differ in '_' and '-'? */
bool options_is_same_name(const char *a, const char *b);

#endif
