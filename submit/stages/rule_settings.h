/* rule_settings -- checks the settings of a job against its rule, before anything is shipped, and chooses the
 * settings that the rule decides: the local steps, and the path of a rule that combines
 * (shared/plugin/combine_path.h). An option that would have no effect in the job is refused, because a user
 * who gives it expects one; the table is in rule_settings.c. `f`: the facts of the workers' codec. */
#ifndef PSGD_SUBMIT_RULE_SETTINGS_H
#define PSGD_SUBMIT_RULE_SETTINGS_H

#include "submit/codecs/codec_probe.h"
#include "submit/job/submission.h"

/* The checks that need no servers, and settings.local_steps. ERR_CONFIG: --optimizer exchanges other values;
 * an option without effect; two values for the local steps. ERR_CODEC: beyond the limits of the codec. */
int rule_settings_check(struct submission *s, const struct codec_facts *f, struct err *e);
/* ERR_CONFIG: a chain of compressors is wrong, or the codec does not support it. */
int rule_settings_check_compression(const struct submission *s, const struct codec_facts *f, struct err *e);
/* True if no exchange is under way between two steps, so that the codec's state is complete there. */
bool rule_settings_is_quiescent(const struct codec_facts *f, const struct settings *set);
/* NULL: at the end of a round all workers have the same state, but for the optimizer's, so that a checkpoint
 * of one serves any number of workers. Otherwise why not. */
const char *rule_settings_own_state(const struct submission *s, const struct codec_facts *f);

/* Once the path is chosen: may the test set be divided over the workers (settings.divides_test), as far as
 * the rule and the settings go? Whenever workers evaluate, their models must be equal; of a rule that
 * exchanges parameters they are at the end of a round. */
bool rule_settings_divides_test(const struct submission *s, const struct codec_facts *f);

/* Once the servers are chosen: the limits of the codec. ERR_CODEC. */
int rule_settings_check_limits(const struct submission *s, const struct codec_facts *f, struct err *e);
/* Once servers and model are known: sets the path and the overlap of a rule that combines, so that all nodes
 * use the same ones, notes them in s->facts, and checks the options that have an effect on some paths only.
 * ERR_CODEC: the job cannot use the path of --path. ERR_CONFIG: an option without effect. */
int rule_settings_choose_path(struct submission *s, const struct codec_facts *f, struct err *e);

#endif
