/* codec -- the contract of a plug-in that decides what a node sends to whom and what it does with what it
 * hears.
 *
 * A codec is arithmetic and state. The host owns time, sockets, threads, files and memory, and runs the same
 * .so in the runner, in tests and in fuzzers. All calls to one codec come from one thread, one at a time,
 * never from inside another. A callback must not block, do I/O or keep globals.
 *
 * There are two ways to say a rule, and a plug-in takes exactly one:
 *   round   the rule is "everybody says a word, then everybody merges all words in the same order": the host
 *           carries, waits, orders. FedAvg is forty lines of it.
 *   events  anything else: the host says what happened, the codec sends messages and says when to go on.
 *
 * With parameter servers in the job, a vector is split over them in contiguous ranges. A worker then has one
 * codec at work per server, each seeing only its range as params, grads and n_params; a server's codec sees
 * the range it serves. Rules need not know.
 *
 * An event rule may also ask for collective operations of all workers, such as the sum of a vector over all
 * of them: the host carries those out piece by piece, in the time and bytes that the best known algorithms
 * take.
 *
 * A callback returns CODEC_GO (0) or CODEC_WAIT where that is said, or what a failed call of the host
 * returned (codec_fail() and each other that returns an int): that ends the node's part in the job with a
 * sentence. */
#ifndef PSGD_CODEC_H
#define PSGD_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire.h"

#define CODEC_ABI 4 /* raised when this file changes what a compiled codec relies on */

enum { CODEC_GO = 0, CODEC_WAIT = 1 };

enum codec_reduction { CODEC_SUM, CODEC_MEAN }; /* over the workers */

struct codec_host;

/* A named part of the model, "layer0.dense.weight"; what of it lies in the range this codec works on. */
struct codec_layer {
    const char *name;
    size_t offset, n; /* in params and grads */
    int n_dims;       /* one that the range's border cuts has one dimension, n */
    size_t shape[4];
};

/* One codec at work on one node, or on one server's range of it. The host's: a codec writes only to params,
 * grads and state, and only where a callback says so, and to what is marked as its to write. */
struct codec {
    int node;                 /* worker 0 .. n_workers-1; parameter server -2, -3, ... */
    int n_workers, n_servers; /* n_servers 0: nodes talk to each other */
    int server;               /* the node that serves this codec's range; 0: nobody does */
    int n_blocks;             /* the global batch is n_blocks blocks (shared/blocks.h) */
    int redundancy;           /* how many workers hold each block */
    bool is_sync;             /* ssgd: a round has every word. asgd: it has those that have come */
    uint64_t step, n_steps;   /* steps done by this node, and in the whole job */
    uint64_t round;           /* rounds closed so far */
    float samples;            /* samples behind my word: seen since the last exchange */
    int n_contributions,
        n_merged;    /* words in the round being merged (ssgd: all but those of lost workers; asgd: at
                              least one), and how many of them are merged already */
    int block;       /* the block that encode, merge or on_block is about; -1: none */
    size_t n_params; /* of the range this codec works on */
    float *params;   /* (n_params); the weights to start from when open() is called */
    float *grads;    /* (n_params), the mean over the samples it comes from */
    const struct codec_layer *layers; /* (n_layers), in the order of params */
    int n_layers;
    void *state; /* state_size bytes: zeroed, then the parameters are in it, then comes open() */
    const struct codec_host *host;
    /* NULL when on_grad is called. An event rule between workers may have it point at n_params of its own
     * before it lets the step go on: the update uses those instead of grads, and nobody copies them. */
    const float *gradient;

    /* The codec's to write, on a worker; with several servers, the codec of the first one's range decides. */
    float lr_factor;       /* of the learning rate in the updates to come; 1 at first; a server has its own */
    bool wants_evaluation; /* the test set, after this step; the host clears it */
    /* This node ends well after this step. A synchronous rule says so on all workers in the same step, at the
     * end of a round. */
    bool wants_stop;
};

/* What a codec may ask of its host. Fields are only ever appended. */
struct codec_host {
    /* *at, a field of the state, becomes n zeros that live as long as the codec. Only in open(): a round
     * allocates nothing. */
    int (*zeros)(struct codec *c, float **at, size_t n);
    /* Uniform in [0, 1), seeded by the job and the node. */
    float (*uniform)(struct codec *c);
    /* Ends this node's part in the job with a sentence for people. Returns a code to return at once. */
    int (*fail)(struct codec *c, const char *fmt, ...);
    /* A line in the node's log. */
    void (*log)(struct codec *c, const char *fmt, ...);
    /* Events only: an empty message to write into, and queueing it for one node. It may be sent to several. A
     * worker sends to workers, and to the server of this codec's range. To a node that has left nothing is
     * sent. */
    struct wire_out *(*message)(struct codec *c);
    int (*send)(struct codec *c, int to);

    /* Collectives; events only, without servers. All workers ask for the same ones, with the same n, in the
     * same order, one at a time. Each returns CODEC_WAIT (or what fail() returns); on_collective is called
     * when `out` is there. `in` and `out` are two vectors of n, and `in` must not change until then; `out`
     * must not change until the collective after it is done, for others may still be hearing from it: so it
     * cannot be the `out` of that one, and a rule has two to take turns with. All workers get the same bits,
     * however they were delayed. */
    int (*all_reduce)(struct codec *c, enum codec_reduction what, const float *in, float *out, size_t n);
    /* Slice k of a vector is [slice(c, n, k), slice(c, n, k + 1)): as equal as whole numbers allow. */
    size_t (*slice)(const struct codec *c, size_t n, int k);
    /* Only this worker's slice of `out` is written; the rest of it holds nothing of meaning. */
    int (*reduce_scatter)(struct codec *c, enum codec_reduction what, const float *in, float *out, size_t n);
    /* Slice k of `out` is slice k of worker k's `in`. */
    int (*all_gather)(struct codec *c, const float *in, float *out, size_t n);
    /* `out` is the `in` of worker `root`. */
    int (*broadcast)(struct codec *c, int root, const float *in, float *out, size_t n);
    /* n is a multiple of n_workers; slice k of `out` is, of worker k's `in`, the slice that has my number. */
    int (*all_to_all)(struct codec *c, const float *in, float *out, size_t n);

    /* A vector that the user may have compressed (see codec_compression); else as wire_put_f32s and
     * wire_get_f32s. Each message has the same vectors in the same order. What get_vector returns is gone
     * with the message; NULL: malformed, and wire_ok() knows. */
    void (*put_vector)(struct codec *c, struct wire_out *out, const float *v, size_t n);
    const float *(*get_vector)(struct codec *c, struct wire_in *in, size_t n);
    bool (*holds)(const struct codec *c, int block, int worker); /* is the block one of the worker's? */
    bool (*has_left)(const struct codec *c, int node);           /* lost, or at its end */
    /* Only on a server, of a rule that says updates_on_server: params move by grads, one step of the job's
     * optimizer at the learning rate of the step that the workers are in. */
    int (*update)(struct codec *c);
    /* Events only: on_wake is called once, after `seconds`, or later where the node is computing. Another
     * call before that sets the time anew. */
    void (*wake)(struct codec *c, double seconds);
    /* A row of codec.csv: this node, its step and round, the name (a-z, 0-9, _), the value. */
    int (*record)(struct codec *c, const char *name, double value);
};

#define codec_fail(c, ...) ((c)->host->fail((c), __VA_ARGS__))

/* A word is what one worker says in one round -- or, with per_block, what is said about one block by whoever
 * holds it; words of one block are equal, so the first that comes counts (to the last bit only where their
 * nodes compute with the same kernels: nodes[].engine in run.json). Words are merged in ascending order of
 * `from` (the worker, or the block), mine among them. A merge that fails has changed nothing: where the job
 * goes on without lost workers, the word's sender is one from then on.
 *
 * Between workers:  encode -> every other worker (a block's word: those who do not hold it)
 *                   merge, for each word; apply
 * With servers:     encode -> server
 *                   merge, for each word; apply; reply -> every worker whose word was in
 *                   adopt */
struct codec_round {
    bool before_update; /* exchange grads before the optimizer's update, each step; else params after it, each
                           `local_steps` steps of the job (the parameter `every`) and after the last one */
    bool per_block;     /* needs before_update; c->grads is then the gradient of the one block */
    int (*encode)(struct codec *c, struct wire_out *out);
    int (*merge)(struct codec *c, int from, struct wire_in *in);
    int (*apply)(struct codec *c); /* all words are merged; NULL: nothing left to do */
    int (*reply)(struct codec *c,
                 struct wire_out *out);                /* on the server; NULL: this rule has no server side */
    int (*adopt)(struct codec *c, struct wire_in *in); /* on the worker: the server's reply */
};

/* on_block: the gradient of one of my blocks, c->block, is in grads, where the next one takes its place;
 * returns CODEC_GO. on_grad: the gradient of a step is there, the mean of my blocks', the update is not done.
 * on_step: it is done. on_collective: the collective that was asked for is done, and the next may be asked
 * for. on_wake: the time of wake() has come. on_lost: a node is lost, or has left at its end, and the job
 * goes on; a rule without it is refused where jobs go on without lost nodes. All but on_block may return
 * CODEC_WAIT: the node then waits until an on_message, on_collective, on_lost or on_wake returns CODEC_GO. On
 * a server only on_message, on_lost and on_wake are called. Any may be NULL. */
struct codec_events {
    int (*on_block)(struct codec *c);
    int (*on_grad)(struct codec *c);
    int (*on_step)(struct codec *c);
    int (*on_message)(struct codec *c, int from, struct wire_in *in);
    int (*on_collective)(struct codec *c);
    int (*on_lost)(struct codec *c, int node);
    int (*on_wake)(struct codec *c);
    /* A step's gradient is about to be computed; it comes to be in grads from their end to their front. A
     * collective over all of grads that is asked for here goes ahead with what is there, and is not done
     * before on_grad. Only called where that may win: on_grad must do without. Returns CODEC_GO. */
    int (*on_backward)(struct codec *c);
    /* When a step is done, nothing of this rule that others still need is under way on any worker: its state
     * may be saved then, and a job go on from it. */
    bool is_quiescent_between_steps;
};

/* A parameter of the rule: a field of the state that the user sets by --codec 'NAME:alpha=0.5,graph=ring'.
 * The host refuses what is of another type or outside its range. */
enum codec_type {
    CODEC_FLOAT, /* float */
    CODEC_INT,   /* int */
    CODEC_BOOL,  /* bool: true, false */
    CODEC_CHOICE /* int: the place in `words`, from 0 */
};
struct codec_option {
    const char *name; /* a-z, 0-9, _; not "every", where that is the number of local steps */
    enum codec_type type;
    size_t offset;        /* in the state */
    double def, min, max; /* def NAN, of a float: the codec chooses where the user does not */
    const char *choices;  /* CODEC_CHOICE: "ring|exponential"; the first is the default */
    const char *help;
};
/* For a table that ends with {0}; the field's own type is the parameter's. */
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

/* What may become of the vectors of put_vector on their way: with lossy compression, what is read differs
 * from what was written. Up is what a worker says, down what a server does. Of a rule that puts no
 * vectors nothing could be compressed: where it says so, --compress is refused and does not do nothing. */
enum codec_compression { CODEC_LOSSLESS_ONLY, CODEC_LOSSY_UP, CODEC_LOSSY, CODEC_UNCOMPRESSED };

/* What a rule is not for: the host refuses it in words, so that open() need not. (A round without a reply has
 * no server side anyhow, and one of whole gradients takes no redundant blocks.) */
enum codec_limits {
    CODEC_NO_SERVERS = 1,
    CODEC_NO_ASGD = 2,
    CODEC_NO_REDUNDANCY = 4,
    CODEC_ASGD_NEEDS_SERVERS = 8, /* something that workers have in common can lie nowhere else then */
    CODEC_NO_SSGD = 16            /* asynchronous by nature: what it ends with depends on what comes first */
};

/* What workers have after a synchronous exchange. `job_submit codecs test` computes it anew and compares. */
enum codec_result {
    CODEC_OWN_RESULT,        /* not declared: workers may differ */
    CODEC_EQUAL_RESULT,      /* all the same, by a formula that is not listed here */
    CODEC_MEAN_OF_GRADIENTS, /* the update uses the mean of all workers' gradients */
    CODEC_SUM_OF_GRADIENTS,
    CODEC_MEAN_OF_PARAMETERS /* of all workers, by their samples */
};

struct codec_cost {
    uint64_t messages, bytes; /* bytes as the codec writes them: without frames' heads and compression */
};

/* For `sends` below, of a round that is not per_block: to how many nodes this one's word goes, or a server's
 * reply. */
static inline uint64_t codec_receivers(const struct codec *c)
{
    if (c->node < 0)
        return (uint64_t)c->n_workers;
    return c->n_servers > 0 ? 1 : (uint64_t)c->n_workers - 1;
}

/* A state is saved with checkpoints, as bytes: it holds numbers and vectors of zeros(), which may change
 * places with others as long, and no other address. */
struct codec_plugin {
    uint32_t abi, plugin_size, codec_size, host_size; /* filled by CODEC_PLUGIN, compared when it is loaded */
    const char *name, *source, *cost;                 /* for people: the paper; messages and bytes */
    size_t state_size;                  /* at most 1 GiB: what grows with the model comes from zeros() */
    const struct codec_option *options; /* NULL: it has no parameters */
    size_t (*message_bytes)(const struct codec *c); /* the longest message; NULL: 64 + 4 n_params */
    int (*open)(struct codec *c);                   /* NULL: nothing to prepare */
    const struct codec_round *round;
    const struct codec_events *events;
    bool updates_on_server; /* the job's optimizer is at work there (update()) and not on the workers */
    enum codec_compression compression;
    unsigned limits; /* of enum codec_limits */
    enum codec_result result;
    /* What this node, worker or server, sends in a synchronous round, or in a step of an event rule; NULL:
     * not declared. */
    struct codec_cost (*sends)(const struct codec *c);
};

#define CODEC_SYMBOL "codec_plugin"
#define CODEC_PLUGIN(...)                                                                                    \
    extern const struct codec_plugin codec_plugin;                                                           \
    const struct codec_plugin codec_plugin = {.abi = CODEC_ABI,                                              \
                                              .plugin_size = sizeof(struct codec_plugin),                    \
                                              .codec_size = sizeof(struct codec),                            \
                                              .host_size = sizeof(struct codec_host),                        \
                                              __VA_ARGS__};

#endif
