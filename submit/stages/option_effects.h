/* option_effects -- refuses options that would have no effect in this job: a user who gives one believes that
 * it has. A table has a line for each option and what it needs; options that no line names have an effect
 * under every rule, or are refused where their value is checked (paths of combinations:
 * shared/plugin/combine_path.h; servers' options: stage_read.c).
 *
 * Only options that were given count: on the command line, or in the run.json that a job is made from, where
 * they differ from the default; not what a name for a rule with options (presets.h) stands for. */
#ifndef PSGD_SUBMIT_OPTION_EFFECTS_H
#define PSGD_SUBMIT_OPTION_EFFECTS_H

#include "submit/codecs/codec_probe.h"
#include "submit/job/submission.h"

/* Before servers and path are chosen, and again when they are (is_placed). ERR_CONFIG: the message names the
 * option, and what it needs. */
int effects_check(const struct submission *s, const struct codec_facts *f, bool is_placed, struct err *e);

#endif
