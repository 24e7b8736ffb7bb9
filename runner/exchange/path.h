/* path -- how the contributions of a rule that combines (struct codec_combine) reach each other. A path is a
 * host's own rule of rounds or of events around the calls of combining.h, so that waiting, lost workers,
 * compression, records and checkpoints are those of every other rule.
 *
 * A new path is a line in shared/job/path_kinds.h and a file here. */
#ifndef PSGD_PATH_H
#define PSGD_PATH_H

#include "codecs/codec_events.h"
#include "shared/base/err.h"

struct channel;

struct path {
    bool has_levels; /* its all-reduces run inside each machine, and between machines */
    /* Exactly one of the two, for the rule of a job; is_late: combinations are one exchange late. */
    const struct round_rule *(*round)(const struct codec_combine *rule);
    const struct codec_events *(*events)(const struct codec_combine *rule, bool is_late);
    /* Of events: exchange_close(). CODEC_GO, CODEC_WAIT as on_step, or a code. */
    int (*close)(struct codec *c);
    int (*open)(struct channel *ch); /* allocates what the path needs; CODEC_GO or a code */
    /* The vectors (n_params) that it allocates when it first needs them. NULL: none. */
    int (*n_later)(const struct channel *ch);
    /* What this node sends in one exchange of a synchronous job, as codec_plugin.sends. NULL: unknown. */
    struct codec_cost (*cost)(const struct channel *ch);
};

extern const struct path path_gather, path_servers, path_allreduce, path_tree;

#endif
