/* victim -- a copy of a running codec, on a host whose calls do nothing and succeed. It can be given any
 * message, and is reset afterwards: memory, fields of struct codec, random numbers. */
#ifndef PSGD_CONFORM_VICTIM_H
#define PSGD_CONFORM_VICTIM_H

#include "conform/watch.h"
#include "runner/exchange/exchange_private.h"

/* Memory that reading a message may change: parameters, gradients, state, and the vectors of zeros(). */
struct victim_part {
    const void *real; /* in the codec's own memory; NULL: none */
    size_t bytes;
    unsigned char *copy;
};

struct victim {
    struct codec c, codec_image;
    struct codec_run run, run_image;
    struct codec *real; /* the original */
    const struct codec_plugin *plugin;
    struct victim_part parts[3 + CHANNEL_ZEROS_MAX];
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
struct victim_call {
    int rc; /* the codec's result */
    /* What has changed of the copy, by this call or by an earlier write through victim_twin(): "its state";
     * NULL: nothing. */
    const char *trace;
    uint32_t digest; /* of what the copy has become */
};

/* `rng`: the state from which the copy draws in each call. ERR_NOMEM. */
int victim_make(struct victim *v, const struct codec_plugin *plugin, struct codec *c, const struct rng *rng,
                struct err *e);
void victim_clear(struct victim *v);

/* Returns the address in the copy of `bytes` bytes `at` in the codec's memory; NULL: not in it. */
unsigned char *victim_twin(const struct victim *v, const void *at, size_t bytes);

/* Repeats the call on the copy, with the `len` bytes instead of the original message (NULL: without one). */
struct victim_call victim_call(struct victim *v, const struct watch_call *call, const unsigned char *bytes,
                               size_t len);

#endif
