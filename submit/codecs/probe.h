/* probe -- a look at a codec, in a process of its own: loading an object runs its constructors, and a broken
 * or hostile one must not take job_submit with it. */
#ifndef PSGD_SUBMIT_PROBE_H
#define PSGD_SUBMIT_PROBE_H

#include <stdbool.h>

#include "codecs/codec.h"
#include "shared/codec_options.h"
#include "shared/err.h"

struct codec_facts {
    char name[64], source[256], cost[256];
    bool has_events, has_reply, has_adopt, per_block;
    bool sends_grads, sends_params; /* neither: it says nothing at all */
    bool updates_on_server, is_quiescent_between_steps;
    enum codec_compression compression;
    unsigned limits; /* of codec_load.h */
    size_t state_size;
    char options[CODEC_OPTIONS_TEXT]; /* every parameter with its value, as settings have it */
    int every;                        /* steps between exchanges; 0: not said */
    char values[2048];                /* the parameters as a JSON object, ... */
    char list[16384];                 /* ... and as what codec_options_list makes */
};

/* `options`: of the user, "alpha=0.5". ERR_CODEC: it does not load (why), or loading it crashed, ended or
 * blocked the process (how). ERR_CONFIG: a parameter that it does not take; the sentence lists those it
 * does. */
int codec_probe(struct codec_facts *out, const char *path, const char *options, struct err *e);

#endif
