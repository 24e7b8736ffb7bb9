/* path -- how the contributions of a rule that combines (struct codec_combine) reach each other. A path
 * writes and reads the messages of rounds (round.h), or asks for collectives (collecting.h); its functions
 * get the channel, and call combining.h for what the rule contributes and makes of the combination.
 *
 * A new path is a line in shared/job/combine_path_kinds.h and a file in paths/. */
#ifndef PSGD_PATH_H
#define PSGD_PATH_H

#include "codecs/codec_events.h"

struct channel;

struct combine_path {
    bool has_levels; /* its all-reduces run inside each machine, and between machines */
    /* Exactly one of the two, for the rule of a job; is_late: combinations are one exchange late. */
    const struct round_rule *(*round)(const struct codec_combine *rule);
    struct channel_handlers (*collectives)(const struct codec_combine *rule, bool is_late);
    int (*open)(struct channel *ch); /* allocates what the path needs; CODEC_GO or a code */
    /* The vectors (n_params) that it allocates when it first needs them. NULL: none. */
    int (*n_later)(const struct channel *ch);
    /* What this node sends in one exchange of a synchronous job, as codec_plugin.sends. NULL: unknown. */
    struct codec_cost (*cost)(const struct channel *ch);
};

extern const struct combine_path path_gather, path_servers, path_allreduce, path_tree;

#endif
