/* trainer_limits -- which rules and options a job cannot have whose gradients a program of its user's
 * computes (--trainer): rules that need psgd's own gradient or optimizer, and options of what the program has
 * itself. Each is refused with what to use instead. The table of options is in trainer_limits.c. */
#ifndef PSGD_SUBMIT_TRAINER_LIMITS_H
#define PSGD_SUBMIT_TRAINER_LIMITS_H

#include "submit/codecs/codec_probe.h"
#include "submit/options/submit_options.h"

enum { TRAINER_HINT = 160 };

/* Why the rule cannot have the gradients of a program; NULL: it can. *instead: what to use. */
const char *trainer_limits_rule(const char **instead, const struct codec_facts *f);

/* A line of the table of options: its name, what the program has itself, and what to do. Returns false after
 * the last line. */
bool trainer_limits_option(size_t line, char name[ARGS_NAME], const char **why, char hint[TRAINER_HINT]);

/* ERR_CONFIG: the job, of --trainer, has such a rule, or such an option. Before the codec of a list by layers
 * is read, `f` is NULL. */
int trainer_limits_check(const struct options *o, const struct codec_facts *f, struct err *e);

#endif
