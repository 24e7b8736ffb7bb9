/* open_check -- calls a built-in codec's open() with what a node of the job shows it, so that a job which the
 * rule refuses is refused before anything is shipped. A user's codec is not tried: its code runs in the
 * sandbox of a node only.
 *
 * What open() sees here differs from a node in three things: the initial weights are all 0.01; one server
 * holds the whole model, also where several share it; and of the host's functions only those exist that
 * prepare a state: zeros(), array(), uniform(), common(), fail(), log() and holds(). Where
 * OPEN_CHECK_BYTES_MAX do not suffice, the nodes decide. */
#ifndef PSGD_SUBMIT_OPEN_CHECK_H
#define PSGD_SUBMIT_OPEN_CHECK_H

#include "codecs/codec_events.h"
#include "shared/job/blocks.h"
#include "shared/job/model_spec.h"
#include "shared/job/settings.h"

enum { OPEN_CHECK_BYTES_MAX = 256 << 20 };

struct open_check {
    const struct settings *set;
    const struct model_spec *model;
    const struct blocks *blocks;
    bool is_of_servers; /* open() of a server, else of a worker */
};

/* ERR_CODEC: open() refuses the job, by fail(). */
int open_check_run(const struct codec_plugin *p, const char *options, const struct open_check *t,
                   struct err *e);

#endif
