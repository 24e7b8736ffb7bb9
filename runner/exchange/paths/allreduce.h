/* allreduce -- the path of collectives, in two files: one exchange (path_allreduce.c), and exchanges whose
 * combination is applied one exchange late (allreduce_late.c). */
#ifndef PSGD_ALLREDUCE_H
#define PSGD_ALLREDUCE_H

#include "codecs/codec_events.h"

struct channel;

/* path_allreduce.c. Each int function returns CODEC_GO, CODEC_WAIT or a code. */

/* For struct path. */
int allreduce_open(struct channel *ch);
int allreduce_n_later(const struct channel *ch);
const struct codec_events *allreduce_events(const struct codec_combine *rule, bool is_late);

int allreduce_close(struct codec *c);
int allreduce_begin(struct channel *ch);      /* the collectives of what combining_contribute() has written */
int allreduce_on_collective(struct codec *c); /* in struct codec_events */
bool allreduce_is_due(const struct codec *c); /* in on_step of a rule of rounds: has it an exchange now? */
/* Where the combination of vector k goes, in exchanges of that turn. */
float *allreduce_result(struct channel *ch, int turn, int k);
/* Applies a combination, of the exchange of that turn; vectors NULL: nothing was contributed. */
int allreduce_finish(struct channel *ch, const float *const *vectors, const float *numbers, int turn);

/* allreduce_late.c */

int allreduce_late_open(struct channel *ch);
int allreduce_late_complete(struct channel *ch, bool is_empty); /* all collectives of the exchange are done */
const struct codec_events *allreduce_late_events(const struct codec_combine *r);
int allreduce_late_close(struct codec *c);

#endif
