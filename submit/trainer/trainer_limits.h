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

/* Can the rule have the parameters of a function that trains, and gives no gradients? */
bool trainer_limits_trains(const struct codec_facts *f);

/* A line of the table of options: its name, what the program has itself, and what to do. Returns false after
 * the last line. */
bool trainer_limits_option(size_t line, char name[ARGS_NAME], const char **why, char hint[TRAINER_HINT]);
/* Has the option of that line an effect on a function that gives gradients? */
bool trainer_limits_is_psgds(size_t line);

/* Who updates the parameters: the program, by the gradients that the rule gives; a function of it, which
 * gives parameters only; or psgd, by the gradients of a function, or of a program that is not known yet. */
enum trainer_update { TRAINER_UPDATES, TRAINER_TRAINS, TRAINER_MAY_UPDATE };

/* ERR_CONFIG: the job, of --trainer, has such a rule, or such an option. Before the codec of a list by layers
 * is read, `f` is NULL. */
int trainer_limits_check(const struct options *o, const struct codec_facts *f, enum trainer_update who,
                         struct err *e);

#endif
