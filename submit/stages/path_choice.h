/* path_choice -- chooses how the contributions of a rule that combines meet (shared/plugin/combine_path.h):
 * by the settings, and by which workers run on one machine. */
#ifndef PSGD_PATH_CHOICE_H
#define PSGD_PATH_CHOICE_H

#include "shared/plugin/codec_load.h"
#include "submit/codecs/codec_probe.h"
#include "submit/job/submission.h"

/* What limits and paths depend on; its layout is not set. */
int path_choice_job(struct codec_job *job, const struct settings *set, struct err *e);

/* After the lists of workers and the model are read: sets the path of a rule that combines, so that all nodes
 * take the same one, and notes it in s->facts. ERR_CODEC: the job cannot use the wanted one. */
int path_choice(struct submission *s, const struct codec_facts *f, struct err *e);

#endif
