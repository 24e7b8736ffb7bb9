/* codec -- the interface of a codec: a plug-in that decides what a node sends, to which nodes, and how it
 * uses what it receives.
 *
 * A codec is arithmetic and state. The host (psgd) owns time, sockets, threads, files and memory, and runs
 * the same .so in the runner, in tests and in fuzzers. The host calls one codec from one thread only, and
 * never calls it again before the previous call has returned. A callback must not block, do I/O or keep
 * global variables.
 *
 * A plug-in implements exactly one of three kinds of rule:
 *   combine Every worker contributes vectors, and all workers get their mean. The rule says what is combined
 *           and what is done with the result, the host decides how. FedAvg takes one line: begin here.
 *   round   In each round each worker sends one contribution, and all contributions are merged in the same
 *           order on every node. The rule writes and reads the messages; the host sends, waits and orders.
 *   events  Any other rule. The host reports what happened; the codec sends messages and decides when the
 *           node continues.
 *
 * With parameter servers in the job, a vector is split over the servers into contiguous ranges. A worker then
 * runs one codec per server, and each of these sees only its range as params, grads and n_params; the codec
 * of a server sees the range that the server holds. A rule needs no code for this.
 *
 * An event rule may also request collective operations over all workers, such as an all-reduce. The host
 * carries them out in chunks, in the time and bytes that the best known algorithms take.
 *
 * A callback returns CODEC_GO (0), CODEC_WAIT where this is documented, or the negative code of a failed call
 * of the host: of codec_fail() or of any other host function that returns int. A negative code ends the
 * node's part in the job with an error message. */
#ifndef PSGD_CODEC_H
#define PSGD_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire.h"

#define CODEC_ABI 10 /* incremented when a change of this file breaks compiled codecs */
/* What an older source must change, for the message that refuses an older codec; additions need no change. */
#define CODEC_ABI_RENAMES                                                                                    \
    "ABI 10 expects equal workers (a rule whose workers end different declares CODEC_OWN_RESULT); ABI 8 "    \
    "removed codec_plugin.path; ABI 5 renamed n_words to n_contributions, rests_between_steps to "           \
    "is_quiescent_between_steps, CODEC_WORD to CODEC_CHOICE, CODEC_OPTION_WORD to CODEC_OPTION_CHOICE, "     \
    "and its words to choices"

enum { CODEC_GO = 0, CODEC_WAIT = 1 };

enum codec_reduction { CODEC_MEAN, CODEC_SUM }; /* over the workers */

struct codec;
struct codec_host;

/* A rule that combines vectors of all workers. In every exchange
 *
 *     v = sum_k weight_k v_k / sum_k weight_k     (CODEC_SUM: sum_k weight_k v_k)
 *
 * where worker k contributes v_k and weight_k, and every worker gets the same v, equal to the bit. The host
 * chooses the path: shared memory, an all-reduce, every worker to every other, or parameter servers, which
 * hold a range of the vectors each. A rule needs no code for any of them. All of FedAvg is
 *
 *     static const struct codec_combine fedavg = {.when = CODEC_EACH_ROUND};
 *
 * Synchronous jobs: on each worker alike, with the combination of all workers, `apply` runs and then `adopt`.
 * Every worker calls `apply` with the same vectors, and so keeps the same `global` and the same state.
 *
 * Asynchronous jobs: there is no common exchange. A server calls `apply` for each contribution as it arrives
 * (v is that one, c->n_contributions is 1) and answers with `global`. Without servers, a worker calls `apply`
 * with the combination of what has arrived. Without `apply`, a worker that is not among the contributions
 * counts with the parameters that the node has. */
enum codec_when {
    CODEC_EACH_STEP, /* gradients, before the optimizer's update */
    CODEC_EACH_ROUND /* parameters, after `every` local steps (an option of every such rule) and after the
                        last step of the job */
};
struct codec_combine {
    enum codec_when when;
    enum codec_reduction reduction;
    int n_vectors; /* in a contribution, each of n_params floats; 0: one */
    int n_numbers; /* in c->numbers: floats that are combined in the same way; at most CODEC_NUMBERS_MAX */
    /* The host keeps c->global: the parameters that all workers had after the last exchange. */
    bool keeps_global;
    /* Writes this worker's v[0] .. v[n_vectors - 1] and c->numbers; nothing else may change, but the state.
     * Called once in each exchange in which this worker takes part. Returns its weight: 0 contributes
     * nothing, a negative or infinite weight ends the job. NULL: v[0] is c->grads (CODEC_EACH_STEP),
     * c->params, or, if contributes_change, c->params - c->global; its weight the samples that it was
     * computed from. */
    float (*contribute)(struct codec *c, float *const *v);
    bool contributes_change; /* needs keeps_global */
    /* Uses the combination, v and c->numbers: CODEC_EACH_STEP sets c->grads, CODEC_EACH_ROUND moves
     * c->global, or c->params where keeps_global is false. c->grads is undefined before; in CODEC_EACH_ROUND
     * v may lie there. NULL: v[0] replaces them. */
    int (*apply)(struct codec *c, const float *const *v);
    /* CODEC_EACH_ROUND with keeps_global, on each worker after `apply`: sets c->params. global_before is what
     * c->global was before. In asynchronous jobs c->global, too, is what the server had before this
     * contribution. NULL: c->params become c->global. */
    int (*adopt)(struct codec *c, const float *global_before);
    /* CODEC_EACH_ROUND, before each local update, and before its weight decay and --clip-norm: may change
     * c->grads. */
    int (*on_gradient)(struct codec *c);
};
enum { CODEC_VECTORS_MAX = 8, CODEC_NUMBERS_MAX = 64 }; /* in a contribution */

/* A named tensor of the model, such as "layer0.dense.weight": its part in the range of this codec. */
struct codec_layer {
    const char *name;
    size_t offset, n; /* in params and grads */
    int n_dims;       /* 1 for a tensor that the range contains only in part: shape is then (n) */
    size_t shape[4];
};

struct codec_evaluation { /* of the test set */
    uint64_t step;        /* after which it was made; 0: none yet */
    float loss, accuracy; /* NAN: there is none */
};

/* One codec instance: on one node, or on a worker for the range of one server. The host owns it. The codec
 * writes only to params, grads and state, where its callback allows it, and to the fields below that are
 * documented as written by the codec. */
struct codec {
    int node;                 /* worker 0 .. n_workers-1; parameter server -2, -3, ... */
    int n_workers, n_servers; /* n_servers 0: workers exchange with each other */
    int server;               /* the parameter server of this codec's range; 0: none */
    int n_blocks;             /* blocks in the global batch (shared/job/blocks.h) */
    int redundancy;           /* number of workers that hold each block */
    bool is_sync;             /* true: ssgd, false: asgd */
    uint64_t step, n_steps;   /* steps completed by this node; steps of the whole job */
    uint64_t round;           /* rounds completed so far */
    /* Since the last exchange: samples, which are the weight of this worker's contribution, updates of
     * params, and the sum of their learning rates, with schedule and lr_factor. All are 0 on a worker that
     * does not take part (--participate): it contributes nothing, and calls apply() and adopt() like the
     * others. */
    float samples;
    uint64_t n_local;
    float lr_sum;
    /* Contributions in the round being merged, and how many of them are merged already (a rule that combines
     * may use n_contributions, in apply() and adopt()). ssgd: one of every
     * worker that is not lost; asgd: those that have arrived, at least one. */
    int n_contributions, n_merged;
    /* Of a rule that combines, else NULL. */
    float *global;  /* (n_params), if it keeps_global */
    float *numbers; /* (n_numbers) */
    int block;      /* the block of the current encode, merge or on_block; -1: none */
    /* Parameters in the range of this codec. Running statistics (batch_norm) are the last of them, or, for a
     * rule that combines, follow them: the host takes their mean. In grads the batch's statistics are in
     * their place, to which an update moves them: a rule may take means of these, of any age, but no sums. */
    size_t n_params;
    float *params;                    /* (n_params); the initial weights when open() is called */
    float *grads;                     /* (n_params), the mean over the samples that it was computed from */
    const struct codec_layer *layers; /* (n_layers), in the order of params */
    int n_layers;
    void *state; /* (state_size) bytes: the host zeroes them, sets the options, then calls open() */
    const struct codec_host *host;
    /* NULL when on_grad is called. An event rule without servers may set it to a vector (n_params) of its own
     * before the step continues: the update then uses that vector instead of grads, without a copy. */
    const float *gradient;

    /* On a worker: the loss of its last batch, that of grads in on_grad; NAN: it has computed none. */
    float loss;
    /* If a codec of the job has on_evaluation: the last one that all workers made, the mean of their results.
     * The same on all nodes; in ssgd at the same step. */
    struct codec_evaluation evaluation;

    /* Written by the codec, on a worker. With several servers, those of the codec of the first server's
     * range count. */
    float lr_factor; /* factor on the learning rate of later updates; initially 1; a server has its own */
    bool wants_evaluation; /* evaluate on the test set after this step; the host clears it */
    /* This node ends normally after this step. A synchronous rule sets it on all workers in the same step, at
     * the end of a round, or in on_evaluation. A server may set it, too: then every worker ends, in asgd
     * after the step in which it hears so, in ssgd after that of the round in which a rule of rounds or one
     * that combines set it. */
    bool wants_stop;
};

/* Functions of the host that a codec may call. New fields are only appended. */
struct codec_host {
    /* Sets *at, a field of the state, to a vector of n zeros that lives as long as the codec. Allowed only in
     * open(): a round allocates nothing. */
    int (*zeros)(struct codec *c, float **at, size_t n);
    /* Returns a random number, uniform in [0, 1), of a generator seeded by the job and the node; its state is
     * saved with the codec's. */
    float (*uniform)(struct codec *c);
    /* Ends this node's part in the job with an error message for the user. Returns the code that the callback
     * must return at once. */
    int (*fail)(struct codec *c, const char *fmt, ...);
    /* Writes a line to the node's log. */
    void (*log)(struct codec *c, const char *fmt, ...);
    /* Event rules only. message() returns an empty message to write to; send() queues it for one node, and
     * may be called for several nodes in turn, unless message_to() has begun it. A worker sends to workers
     * and to the server of this codec's range. Nothing is sent to a node that has left. */
    struct wire_out *(*message)(struct codec *c);
    int (*send)(struct codec *c, int to);

    /* Collective operations: event rules without servers only. All workers request the same operations, with
     * the same n, in the same order, one at a time. Each function returns CODEC_WAIT, or the code of fail();
     * the host calls on_collective when `out` is complete. `in` and `out` are two different vectors (n).
     * `in` must not change until then. `out` must not change until the next operation is complete, because
     * other workers may still receive from it: the next operation needs another `out`, so a rule alternates
     * between two. All workers get the same bits, whatever the delays. */
    int (*all_reduce)(struct codec *c, enum codec_reduction what, const float *in, float *out, size_t n);
    /* Returns where slice k of a vector (n) begins: slice k is [slice(c, n, k), slice(c, n, k + 1)). There is
     * one slice per worker; their lengths are as equal as integers allow. */
    size_t (*slice)(const struct codec *c, size_t n, int k);
    /* Writes only this worker's slice of `out`; the rest of `out` is undefined. */
    int (*reduce_scatter)(struct codec *c, enum codec_reduction what, const float *in, float *out, size_t n);
    /* Slice k of `out` becomes slice k of worker k's `in`. */
    int (*all_gather)(struct codec *c, const float *in, float *out, size_t n);
    /* `out` becomes the `in` of worker `root`. */
    int (*broadcast)(struct codec *c, int root, const float *in, float *out, size_t n);
    /* Slice k of `out` becomes slice c->node of worker k's `in`. n is a multiple of n_workers. */
    int (*all_to_all)(struct codec *c, const float *in, float *out, size_t n);

    /* Write and read a vector that the user may have compressed (enum codec_compression); if not compressed,
     * they are wire_put_f32s() and wire_get_f32s(). Each message has the same vectors in the same order. The
     * vector that get_vector() returns is valid as long as the message. It returns NULL for a malformed
     * message, and for a vector with values that are not finite (of a job without --on-nonfinite skip), and
     * wire_ok() is then false; fail() after the latter tells the sender, whatever its text. */
    void (*put_vector)(struct codec *c, struct wire_out *out, const float *v, size_t n);
    const float *(*get_vector)(struct codec *c, struct wire_in *in, size_t n);
    bool (*holds)(const struct codec *c, int block, int worker); /* does the worker hold the block? */
    bool (*has_left)(const struct codec *c, int node);           /* is the node lost, or has it ended? */
    /* On a server of a rule with updates_on_server only. Moves params by grads: one step of the job's
     * optimizer, at the learning rate of the workers' current step. As in damped.c in codecs/README.md:
     *     for (size_t i = 0; i < c->n_params; i++)
     *         c->grads[i] = part * g[i];
     *     rc = c->host->update(c);
     * In ssgd with several servers, with --clip-norm or --on-nonfinite skip, a rule of rounds gets the update
     * after its apply() has returned, when the norm of the whole gradient is known, and before reply():
     * apply() then neither reads params nor writes grads after it. */
    int (*update)(struct codec *c);
    /* Event rules only. The host calls on_wake once after `seconds`, or later if the node is computing then.
     * Another call before that sets a new time. */
    void (*wake)(struct codec *c, double seconds);
    /* Adds a row to codec.csv: this node, its step and round, the name (a-z, 0-9, _), the value. As a server
     * does of each gradient whose message has the number of updates in the weights that it is of:
     *     rc = c->host->record(c, "staleness", d->version - version); */
    int (*record)(struct codec *c, const char *name, double value);
    /* Event rules only. As message(), for the node `to` alone, to which it must be sent. A server of a rule
     * of CODEC_LOSSY_PARAMS writes its parameters to no other message. */
    struct wire_out *(*message_to)(struct codec *c, int to);

    /* As zeros(), for other types than float: sets the field of the state at `at` to n zeroed items of `size`
     * bytes, which may be swapped, hold no addresses, and are saved as bytes. Called by codec_array(). */
    int (*array)(struct codec *c, void *at, size_t n, size_t size);
    /* Sets out[0] .. out[n - 1] to random numbers that all workers and servers have in common, uniform in
     * [0, 1): they depend only on the job's seed, `key` and their place in `out`. So a rule that passes the
     * number of the round, or of the step, need neither send nor save them; another `key` gives independent
     * ones. */
    void (*common)(const struct codec *c, uint64_t key, float *out, size_t n);
};

/* if (codec_array(c, &s->index, c->n_params) < 0), where index is an `int *` */
#define codec_array(c, at, n) ((c)->host->array((c), (at), (n), sizeof **(at)))

#define codec_fail(c, ...) ((c)->host->fail((c), __VA_ARGS__))

/* A contribution is what one worker sends in one round. With per_block it is what is sent about one block by
 * each worker that holds the block: these contributions are equal, so the first that arrives counts (equal to
 * the last bit only where the nodes compute with the same kernels: nodes[].engine in run.json). Contributions
 * are merged in ascending order of `from` (the worker or the block), this worker's own among them. A merge
 * that fails must have changed nothing: in a job that continues without lost workers, the worker that sent
 * the contribution then counts as lost.
 *
 * Without servers   worker: encode -> every other worker (per_block: the workers that do not hold the block)
 *                   worker: merge, once per contribution; apply
 * With servers      worker: encode -> server
 *                   server: merge, once per contribution; apply; reply -> each worker whose contribution
 *                           was merged
 *                   worker: adopt */
struct codec_round {
    /* true: exchange grads in each step, before the optimizer's update. false: exchange params after the
     * update, each `local_steps` steps of the job (the option `every`) and after the last one. */
    bool before_update;
    bool per_block; /* needs before_update; c->grads is then the gradient of block c->block */
    int (*encode)(struct codec *c, struct wire_out *out);        /* writes this worker's contribution */
    int (*merge)(struct codec *c, int from, struct wire_in *in); /* reads one contribution */
    int (*apply)(struct codec *c);                               /* after the last merge; may be NULL */
    int (*reply)(struct codec *c, struct wire_out *out);         /* server; NULL: no support for servers */
    int (*adopt)(struct codec *c, struct wire_in *in);           /* worker: reads the server's reply */
};

/* Callbacks of an event rule. Any may be NULL. On a server only on_message, on_lost and on_wake are called.
 *
 * Waiting. on_grad and on_step return CODEC_GO, and the node goes on with its step, or CODEC_WAIT: it waits
 * until on_message, on_collective, on_lost or on_wake returns CODEC_GO, which means that everything is there
 * that it waits for, and not just this message. While it waits, these four return CODEC_WAIT for what leaves
 * something missing. When nothing waits (between two steps, between two blocks, on a server) CODEC_GO and
 * CODEC_WAIT are the same: a node that has not begun to wait in on_grad or on_step cannot be made to.
 *
 * Peers ahead. No two workers are at the same place. A message of a peer's next step may come while this
 * worker waits for those of the present one, or before it has computed its own gradient: a rule writes into
 * its messages what they are for, and keeps those that come early (gossip.c). A rule that waits for each peer
 * in each step has peers at most one step ahead; one that waits for nobody may have any.
 *
 * c->step is the number of steps that are complete: in on_backward, on_block and on_grad of the first step 0,
 * in its on_step 1, as the update is made. In the others it is what the last of these has seen. */
struct codec_events {
    /* The gradient of c->block, one of this worker's blocks, is in grads; the next block's gradient replaces
     * it. Returns CODEC_GO. */
    int (*on_block)(struct codec *c);
    /* Before the update: the step's gradient, the mean over this worker's blocks, is in grads. */
    int (*on_grad)(struct codec *c);
    int (*on_step)(struct codec *c); /* after the update */
    /* May write params: no gradient is being computed from them then. (With --redundancy a step has several
     * blocks, and messages come between them, too: their gradients are then of different params.) But while a
     * collective is under way, or in a rule with on_backward, messages come between two layers: there
     * on_message writes params only while the node waits. It writes grads only while on_grad waits; at other
     * times nobody reads them. */
    int (*on_message)(struct codec *c, int from, struct wire_in *in);
    /* The requested collective is complete; the next may be requested. May be called between two layers:
     * writes params only while the node waits, and grads as on_message does. */
    int (*on_collective)(struct codec *c);
    /* A node is lost, or has ended normally, having done its steps, and the job continues: nothing comes from
     * it any more, and nothing is sent to it. Called once for each node that this one is connected to: on a
     * worker the other workers, or with servers none, on a server the workers. In a job with --on-node-loss
     * continue the host refuses a rule without on_lost. Example: damped.c in codecs/README.md; gossip.c. */
    int (*on_lost)(struct codec *c, int node);
    int (*on_wake)(struct codec *c); /* the time of wake() is over */
    /* The computation of a step's gradient is about to begin; it fills grads from the end to the front. A
     * collective over all of grads that is requested here starts with the parts computed so far, and is not
     * complete before on_grad. Called only where this may save time: on_grad must work without it. Returns
     * CODEC_GO. */
    int (*on_backward)(struct codec *c);
    /* When a step is complete, this rule has nothing in transit on any worker that others still need: its
     * state may be saved then, and a job be resumed from it. In asgd with servers: when a worker has stopped
     * after a step, and the servers' answers to its messages have come; a worker that stops must not keep
     * the others waiting. */
    bool is_quiescent_between_steps;
};

/* An option is a parameter of the rule: a field of the state that the user sets by
 * --codec 'NAME:alpha=0.5,graph=ring'. The host refuses a value of another type or out of range. */
enum codec_type {
    CODEC_FLOAT, /* float */
    CODEC_INT,   /* int */
    CODEC_BOOL,  /* bool: true, false */
    CODEC_CHOICE /* int: the index in `choices`, from 0 */
};
struct codec_option {
    const char *name; /* a-z, 0-9, _; not "every" in a rule where that is the number of local steps */
    enum codec_type type;
    size_t offset;        /* of the field in the state */
    double def, min, max; /* def NAN (float only): unset, the codec chooses */
    const char *choices;  /* CODEC_CHOICE: "ring|exponential"; the first is the default */
    const char *help;
};
/* Entries of a table that ends with {0}. The type of the option is the type of the field. */
#define CODEC_OPTION(struct_, field, def_, min_, max_, help_)                                                \
    {                                                                                                        \
        .name = #field,                                                                                      \
        .type = _Generic(((struct_ *)0)->field, float                                                        \
                         : CODEC_FLOAT, int                                                                  \
                         : CODEC_INT, bool                                                                   \
                         : CODEC_BOOL),                                                                      \
        .offset = offsetof(struct_, field), .def = (def_), .min = (min_), .max = (max_), .help = (help_)     \
    }
#define CODEC_OPTION_CHOICE(struct_, field, choices_, help_)                                                 \
    {                                                                                                        \
        .name = #field,                                                                                      \
        .type = _Generic(((struct_ *)0)->field, int                                                          \
                         : CODEC_CHOICE),                                                                    \
        .offset = offsetof(struct_, field), .choices = (choices_), .help = (help_)                           \
    }

/* Which compression the vectors of put_vector() tolerate. With lossy compression the vector read differs from
 * the vector written. Up: what a worker sends; down: what a server sends. CODEC_UNCOMPRESSED is for a rule
 * without such vectors: the host then refuses --compress, which would have no effect.
 *
 * CODEC_LOSSY_PARAMS: up, and what a server sends first in each message are its parameters (n_params). With
 * lossy compression down, the host sends how they differ from what the receiver has, so that what a message
 * leaves out is in the next one: the vector read comes ever nearer to one that does not change. A rule that
 * combines need not say so: the host knows where servers send parameters. */
enum codec_compression {
    CODEC_LOSSLESS_ONLY,
    CODEC_LOSSY_UP,
    CODEC_LOSSY,
    CODEC_UNCOMPRESSED,
    CODEC_LOSSY_PARAMS
};

/* What a rule does not support. The host refuses such a job with a message, so open() need not check it. (In
 * any case a round without reply has no servers, and a round that exchanges whole gradients has no redundant
 * blocks.) */
enum codec_limits {
    CODEC_NO_SERVERS = 1,
    CODEC_NO_ASGD = 2,
    CODEC_NO_REDUNDANCY = 4,
    CODEC_ASGD_NEEDS_SERVERS = 8, /* without rounds only servers can hold a state common to all workers */
    CODEC_NO_SSGD = 16,           /* asynchronous by nature: the result depends on the order of arrival */
    CODEC_NO_OVERLAP = 32         /* contribute() assumes that the last combination was applied before the
                                   * local steps */
};

/* What workers have after a synchronous exchange. `job_submit codecs test` checks it, and computes a formula
 * again; a job whose workers end different, but for CODEC_OWN_RESULT, says so in its result. */
enum codec_result {
    CODEC_EQUAL_RESULT,      /* equal on all workers, by a formula that is not listed here */
    CODEC_OWN_RESULT,        /* workers may end different, as those of gossip do */
    CODEC_MEAN_OF_GRADIENTS, /* the update uses the mean of all workers' gradients */
    CODEC_SUM_OF_GRADIENTS,
    CODEC_MEAN_OF_PARAMETERS /* over all workers, weighted by their samples */
};

struct codec_cost {
    uint64_t messages, bytes; /* bytes as the codec writes them: without frame headers and compression */
};

/* For `sends` below, in a round that is not per_block: returns the number of nodes that get this node's
 * contribution, or a server's reply. */
static inline uint64_t codec_receivers(const struct codec *c)
{
    if (c->node < 0)
        return (uint64_t)c->n_workers;
    return c->n_servers > 0 ? 1 : (uint64_t)c->n_workers - 1;
}

/* Does the model have running statistics (batch_norm) in this codec's range? They are the last of params,
 * move without a learning rate, and are averages: a rule that adds up changes does not suit them. */
static inline bool codec_has_statistics(const struct codec *c)
{
    return c->n_layers > 0 && strstr(c->layers[c->n_layers - 1].name, ".running_");
}

/* A checkpoint saves the state as bytes, so the state may hold numbers and vectors of zeros(), but no other
 * address. Vectors of equal length may be swapped. */
struct codec_plugin {
    uint32_t abi, plugin_size, codec_size, host_size; /* set by CODEC_PLUGIN, checked on loading */
    /* For users: the paper, its equation in one line, and messages and bytes (not of a rule that combines:
     * the host knows them). */
    const char *name, *source, *equation, *cost;
    size_t state_size;                  /* at most 1 GiB: what grows with the model is allocated by zeros() */
    const struct codec_option *options; /* NULL: none */
    const size_t
        *vectors; /* CODEC_VECTORS: fields of the state, each set to a vector of n_params zeros; NULL: none */
    size_t (*message_bytes)(const struct codec *c); /* of the longest message; NULL: 64 + 4 n_params */
    int (*open)(struct codec *c);                   /* prepares the state; may be NULL */
    const struct codec_combine *combine;            /* exactly one of combine, round and events */
    const struct codec_round *round;
    const struct codec_events *events;
    /* Of a rule that combines: a combination is one exchange late, unless the user says otherwise. The host
     * contributes, goes on with the next local steps, and only then has the rule apply the combination:
     * CODEC_EACH_STEP updates by the combined gradients of the step before, first by zeros, and not at all by
     * the last: contribute() of a step comes before apply() for the step before;
     * CODEC_EACH_ROUND applies it to the parameters as they were when contributed, and adds the local steps
     * made since; at the end of the job nothing is late. */
    bool overlaps;
    bool updates_on_server; /* the job's optimizer runs there (update()), not on the workers */
    enum codec_compression compression;
    unsigned limits;          /* enum codec_limits, or-ed */
    enum codec_result result; /* 0: workers end equal */
    /* Returns what this node, worker or server, sends in a synchronous round, or in a step of an event rule.
     * NULL: not declared. */
    struct codec_cost (*sends)(const struct codec *c);
    /* Returns the model that the rule trains (n_params), for evaluations and the model files. On a worker
     * NULL or without this function: it is params. On a server, of a rule of asgd that neither combines
     * nor updates there: what every worker gets as the result when all have ended; NULL or without this
     * function: each keeps its own. */
    const float *(*model)(const struct codec *c);
    /* On every worker and server, between two other calls: c->evaluation is new. All workers evaluate after
     * each epoch and --eval-every steps, in asgd not at the job's end; what the codec asks for itself by
     * wants_evaluation does not count. In ssgd the workers wait for the result: a decision made by it alone
     * (wants_stop, lr_factor) is the same on all of them. Returns CODEC_GO or a code. */
    int (*on_evaluation)(struct codec *c);
};

/* .vectors = CODEC_VECTORS(offsetof(struct easgd, center)) */
#define CODEC_VECTORS(...) ((const size_t[]){__VA_ARGS__, SIZE_MAX})

#define CODEC_SYMBOL "codec_plugin"
#define CODEC_PLUGIN(...)                                                                                    \
    extern const struct codec_plugin codec_plugin;                                                           \
    const struct codec_plugin codec_plugin = {.abi = CODEC_ABI,                                              \
                                              .plugin_size = sizeof(struct codec_plugin),                    \
                                              .codec_size = sizeof(struct codec),                            \
                                              .host_size = sizeof(struct codec_host),                        \
                                              __VA_ARGS__};

#endif
