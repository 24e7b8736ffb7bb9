/* codec_copy -- a copy of a running codec, on a host whose calls do nothing and succeed. The check gives it
 * any message, and resets it afterwards: memory, fields of struct codec, random numbers. */
#ifndef PSGD_CONFORM_CODEC_COPY_H
#define PSGD_CONFORM_CODEC_COPY_H

#include "codecs/codec_events.h"
#include "conform/watch.h"
#include "shared/base/err.h"
#include "shared/base/rng.h"

/* Memory that reading a message may change: parameters, gradients, state, and the vectors of zeros(). */
struct codec_copy_part {
    const void *real; /* in the codec's own memory; NULL: none */
    size_t bytes;
    unsigned char *copy;
};

struct codec_copy {
    struct codec c, codec_image;
    struct codec_run run, run_image;
    struct codec *real; /* the original */
    const struct codec_plugin *plugin;
    struct codec_copy_part *parts; /* (n_parts) */
    int n_parts;
    unsigned char *bytes, *image; /* (n): the memory of all parts, and its initial content for the reset */
    size_t n;
    unsigned char *answer; /* its output */
    struct wire_out out;
    int n_vectors; /* read from its message so far */
    uint64_t n_calls;
    struct rng rng, rng_image;
    bool has_recorded; /* in the last call, by host->record() */
};

/* What a call has done. */
struct codec_copy_call {
    int rc; /* the codec's result */
    /* What has changed of the copy, by this call or by an earlier write through codec_copy_twin(): "its
     * state"; NULL: nothing. */
    const char *trace;
    uint32_t digest; /* of what the copy has become */
};

/* `rng`: the state from which the copy draws in each call. ERR_NOMEM. */
int codec_copy_make(struct codec_copy *copy, const struct codec_plugin *plugin, struct codec *c,
                    const struct rng *rng, struct err *e);
void codec_copy_clear(struct codec_copy *copy);

/* Returns the address in the copy of `bytes` bytes `at` in the codec's memory; NULL: not in it. */
unsigned char *codec_copy_twin(const struct codec_copy *copy, const void *at, size_t bytes);

/* Repeats the call on the copy, with the `len` bytes instead of the original message (NULL: without one). */
struct codec_copy_call codec_copy_call(struct codec_copy *copy, const struct watch_call *call,
                                       const unsigned char *bytes, size_t len);

#endif
