/* codec -- the interface of a codec: a plug-in that decides what the nodes of a job exchange, and how they
 * use it.
 *
 * This header is enough for a rule that combines vectors of all workers, as most published rules do: every
 * worker contributes, all workers get the same mean, and the rule uses the mean. A rule that writes messages
 * of its own, requests collectives or timers, or reads its node, step or layers includes codec_events.h.
 *
 * A codec is arithmetic and state. The host (psgd) owns time, sockets, threads, files and memory, and runs
 * the same .so in jobs, in the simulator and in tests. It calls a codec from one thread only, and never again
 * before the previous call has returned. A callback must not block, do I/O or keep global variables. It
 * returns CODEC_GO, or the negative code of codec_fail().
 *
 * With parameter servers a vector is split over the servers into contiguous ranges. A worker then runs one
 * codec per server, and each of these sees only its range as params, grads and n_params. A rule needs no code
 * for this. */
#ifndef PSGD_CODEC_H
#define PSGD_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "codec_option.h"

#define CODEC_ABI 11 /* incremented when a change of these headers breaks compiled codecs */

enum { CODEC_GO = 0 };

struct codec;

/* One instance of a codec: on one node, or on a worker for the range of one server. The host owns it. The
 * codec writes only to params, grads, global, numbers and state, where its callback allows it. */
struct codec {
    size_t n_params; /* parameters in the range of this codec */
    float *params;   /* (n_params); the initial weights when open() is called */
    float *grads;    /* (n_params), the mean over the samples that it was computed from */
    float *global;   /* (n_params), if the rule keeps_global: what all workers had after the last exchange */
    float *numbers;  /* (n_numbers) */
    int n_workers, n_contributions; /* in the job; in this combination, lost workers left out */
    bool is_sync;                   /* true: ssgd, false: asgd */
    /* Since the last exchange: samples, which are the weight of this worker's contribution, updates of
     * params, and the sum of their learning rates. All are 0 on a worker that does not take part
     * (--participate): it contributes nothing, and its apply() and adopt() are called as on the others. */
    float samples;
    uint64_t n_local;
    float lr_sum;
    void *state; /* (state_size) bytes: the host zeroes them, sets the options, then calls open() */
    int (*fail_with)(struct codec *c, const char *fmt, ...); /* codec_fail() */
    struct codec_run *run;                                   /* of the job: include codec_events.h */
};

/* Ends this node's part in the job with an error message for the user. Returns the code that the callback
 * must return at once. */
#define codec_fail(c, ...) ((c)->fail_with((c), __VA_ARGS__))

enum codec_when {
    CODEC_EACH_STEP, /* gradients, before the optimizer's update */
    /* Parameters, after as many local steps as the option `every` says, which each such rule has, and after
     * the last step of the job. */
    CODEC_EACH_ROUND
};
enum codec_reduction { CODEC_MEAN, CODEC_SUM };         /* over the workers */
enum { CODEC_VECTORS_MAX = 8, CODEC_NUMBERS_MAX = 64 }; /* in a contribution */

/* A rule that combines. In every exchange
 *
 *     v = sum_k weight_k v_k / sum_k weight_k     (CODEC_SUM: sum_k weight_k v_k)
 *
 * where worker k contributes v_k and weight_k, and every worker gets the same v, equal to the bit. The host
 * chooses the path: shared memory, an all-reduce, every worker to every other, or parameter servers. All of
 * FedAvg is
 *
 *     static const struct codec_combine fedavg = {.when = CODEC_EACH_ROUND};
 *
 * Synchronous jobs: on each worker alike, with the combination of all workers, `apply` runs and then `adopt`.
 * Every worker calls `apply` with the same vectors, and so keeps the same `global` and the same state.
 *
 * Asynchronous jobs: there is no common exchange. A server calls `apply` for each contribution as it arrives
 * (v is that one, n_contributions is 1) and answers with `global`. Without servers, a worker calls `apply`
 * with the combination of what has arrived. Without `apply`, v is the mean over n_workers (of a rule with
 * CODEC_EACH_ROUND and CODEC_MEAN), with this node's own c->global or c->params in place of the vectors that
 * have not arrived.
 *
 * Running statistics (batch_norm) are not among params: the host takes their mean. */
struct codec_combine {
    enum codec_when when;
    enum codec_reduction reduction;
    int n_vectors; /* in a contribution, each of n_params floats; 0: one */
    int n_numbers; /* in c->numbers: floats that are combined in the same way; at most CODEC_NUMBERS_MAX */
    bool keeps_global;
    bool contributes_change; /* needs keeps_global; see contribute */
    /* Writes this worker's v[0] .. v[n_vectors - 1] and c->numbers; nothing else may change, but the state.
     * Called once in each exchange in which this worker takes part. Returns its weight: 0 contributes
     * nothing, a negative or infinite weight ends the job. NULL: v[0] is c->grads (CODEC_EACH_STEP),
     * c->params, or, if contributes_change, c->params - c->global; its weight the samples that it was
     * computed from. */
    float (*contribute)(struct codec *c, float *const *v);
    /* Uses the combination, v and c->numbers: CODEC_EACH_STEP sets c->grads, CODEC_EACH_ROUND moves
     * c->global, or c->params where keeps_global is false. On entry c->grads is undefined: in
     * CODEC_EACH_ROUND the host may have put v there. NULL: v[0] replaces them. */
    int (*apply)(struct codec *c, const float *const *v);
    /* CODEC_EACH_ROUND with keeps_global, on each worker after `apply`: sets c->params. global_before is what
     * c->global was before. In asynchronous jobs the server's reply does not yet contain this
     * contribution: c->global equals global_before. NULL: c->params become c->global. */
    int (*adopt)(struct codec *c, const float *global_before);
    /* CODEC_EACH_ROUND, before each local update, and before its weight decay and --clip-norm: may change
     * c->grads. */
    int (*on_gradient)(struct codec *c);
};

/* What a rule does not support. The host refuses such a job with a message, so open() need not check it. */
enum codec_limits {
    CODEC_NO_SERVERS = 1,
    CODEC_NO_ASGD = 2,
    CODEC_NO_REDUNDANCY = 4,
    CODEC_ASGD_NEEDS_SERVERS = 8, /* without rounds only servers can hold a state common to all workers */
    CODEC_NO_SSGD = 16,           /* asynchronous by nature: the result depends on the order of arrival */
    /* contribute() assumes that the last combination was applied before the local steps. */
    CODEC_NO_OVERLAP = 32
};

/* A checkpoint saves the state as bytes, so the state may hold numbers and vectors of the host, but no other
 * address. Vectors of equal length may be swapped. */
struct codec_plugin {
    uint32_t layout[3];                   /* ABI and sizes, set by CODEC_PLUGIN */
    const char *name, *source, *equation; /* for users: the paper, its equation in one line */
    size_t state_size;                    /* at most 1 GiB: what grows with the model are vectors */
    const struct codec_option *options;   /* NULL: none */
    /* CODEC_VECTORS(offsetof(struct easgd, center)): fields of the state, each set to a vector of n_params
     * zeros; NULL: none */
    const size_t *vectors;
    int (*open)(struct codec *c); /* prepares the state; may be NULL */
    const struct codec_combine *combine;
    unsigned limits; /* enum codec_limits, or-ed */
    /* CODEC_MORE(...) of codec_events.h: any other rule, and rare declarations. */
    const struct codec_more *more;
};
#define CODEC_VECTORS(...) ((const size_t[]){__VA_ARGS__, SIZE_MAX})

#define CODEC_SYMBOL "codec_plugin"
#define CODEC_PLUGIN(...)                                                                                    \
    extern const struct codec_plugin codec_plugin;                                                           \
    const struct codec_plugin codec_plugin = {                                                               \
        .layout = {CODEC_ABI, sizeof(struct codec_plugin), sizeof(struct codec)}, __VA_ARGS__};

#endif
