/* probe -- a look at a codec, in a process of its own: loading an object runs its constructors, and a broken or
 * hostile one must not take job_submit with it. */
#ifndef PSGD_SUBMIT_PROBE_H
#define PSGD_SUBMIT_PROBE_H

#include <stdbool.h>

#include "shared/err.h"

struct codec_facts {
    char name[64], source[256];
    bool has_events, has_reply, has_adopt;
    bool sends_grads, sends_params; /* neither: it says nothing at all */
};

/* ERR_CODEC: it does not load (why), or loading it crashed, ended or blocked the process (how). */
int codec_probe(struct codec_facts *out, const char *path, struct err *e);

#endif
