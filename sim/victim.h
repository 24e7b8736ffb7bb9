/* victim -- a copy of a codec at work, on a host that does nothing but say yes: it may be told anything,
 * and is as before then. */
#ifndef PSGD_SIM_VICTIM_H
#define PSGD_SIM_VICTIM_H

#include "agent/runner/exchange/channel.h"
#include "sim/watch.h"

/* What a reading may change: parameters, gradients, state, and the vectors of zeros(). */
struct victim_part {
    const void *real; /* in the codec's own memory; NULL: there is none */
    size_t bytes;
    unsigned char *copy;
};

struct victim {
    struct codec c, codec_image;
    struct codec *real; /* whose copy it is */
    const struct codec_plugin *plugin;
    struct victim_part parts[3 + CHANNEL_ZEROS_MAX];
    int n_parts;
    unsigned char *bytes, *image; /* (n) of all parts, as the codec sees them, and as they were */
    size_t n;
    unsigned char *answer; /* what it writes */
    struct wire_out out;
    int n_vectors; /* that it has got from its message by now */
    uint64_t n_calls;
    struct rng *rng;
};

/* `rng` is borrowed. ERR_NOMEM. */
int victim_make(struct victim *v, const struct codec_plugin *plugin, struct codec *c, struct rng *rng,
                struct err *e);
void victim_clear(struct victim *v);

/* Where in the copy stands what stands `at` in the codec's memory, with `bytes`; NULL: not in it. */
unsigned char *victim_twin(const struct victim *v, const void *at, size_t bytes);

/* The call is made on the copy, with a message of `len` bytes instead (NULL: with none). What the codec says;
 * *is_touched: it has changed something, or what the caller had changed in a twin. */
int victim_call(struct victim *v, const struct watch_call *call, const unsigned char *bytes, size_t len,
                bool *is_touched);

#endif
