/* codec_events -- the interface of a rule that is no combination (codec.h), and what any rule may know and
 * declare besides.
 *
 *   rounds  In each round each worker sends one contribution, and all contributions are merged in the same
 *           order on every node. The rule writes and reads the messages; the host sends, waits and orders.
 *   events  Any other rule. The host reports what happened; the codec sends messages, asks for collective
 *           operations or for a time to wake up, and decides when the node continues.
 *
 * The plug-in declares it with the rest of what codec.h leaves out:
 *
 *     CODEC_PLUGIN(.name = "gossip", ..., .more = CODEC_MORE(.events = &gossip, .result = CODEC_OWN_RESULT))
 *
 * The functions below that take a codec are the host's; one that returns int returns the negative code of a
 * failed call, which the callback must return at once. */
#ifndef PSGD_CODEC_EVENTS_H
#define PSGD_CODEC_EVENTS_H

#include "codec.h"
#include "wire.h"

enum { CODEC_WAIT = 1 }; /* besides CODEC_GO, where this is documented */

/* A named tensor of the model, such as "layer0.dense.weight": its part in the range of this codec. */
struct codec_layer {
    const char *name;
    size_t offset, n;  /* in params and grads */
    int n_dims;        /* 1 for a tensor that the range contains only in part: shape is then (n) */
    bool is_statistic; /* running statistics */
    size_t shape[4];   /* of a tensor of more dimensions the last ones are multiplied */
};

struct codec_evaluation { /* of the test set */
    uint64_t step;        /* after which it was made; 0: none yet */
    float loss, accuracy; /* NAN: there is none */
};

/* The run of the job on this node. The codec reads it, and writes the last three fields and `gradient`. */
struct codec_run {
    int node; /* worker 0 .. n_workers-1; parameter server -2, -3, ... */
    int n_servers,
        server;     /* 0: workers exchange with each other; the server of this codec's range, 0: none */
    int n_blocks;   /* parts into which a global batch is divided; ... */
    int redundancy; /* ... each is held by so many workers */
    int block;      /* the block of the current encode, merge or on_block; -1: none */
    int n_merged;   /* contributions of this round that are merged already */
    uint64_t step, n_steps; /* steps completed by this node; steps of the whole job */
    uint64_t round;         /* rounds completed so far */
    /* The layers of the model in the range of this codec, in the order of params. Running statistics
     * (batch_norm) are the last of them, but for a rule that combines, which does not see them. In grads the
     * batch's statistics are in their place, to which an update moves them: a rule may take means of these,
     * of any age, but no sums. */
    const struct codec_layer *layers; /* (n_layers) */
    int n_layers;
    float loss; /* on a worker: of its last batch, that of grads in on_grad; NAN: it has computed none */
    /* If a codec of the job has on_evaluation: the last one that all workers made, the mean of their results.
     * The same on all nodes; in ssgd at the same step. */
    struct codec_evaluation evaluation;
    const struct codec_host *host; /* behind the functions below */
    /* NULL when on_grad is called. An event rule without servers may set it to a vector (n_params) of its own
     * before the step continues: the update then uses that vector instead of grads, without a copy. */
    const float *gradient;
    /* Written on a worker. With several servers, those of the codec of the first server's range count. */
    float lr_factor; /* factor on the learning rate of later updates; initially 1; a server has its own */
    /* Evaluate on the test set after this step; the host clears it. All workers of a synchronous rule request
     * it in the same step: they may have to evaluate together (settings.divides_test). */
    bool wants_evaluation;
    /* This node ends normally after this step. A synchronous rule sets it on all workers in the same step, at
     * the end of a round, or in on_evaluation. If a server sets it, every worker ends: in asgd after the step
     * in which the order arrives, in ssgd after the step of the round in which it was set (by a rule of
     * rounds, or by one that combines). */
    bool wants_stop;
};

/* What the functions below call. New fields are only appended. */
struct codec_host {
    int (*zeros)(struct codec *c, float **at, size_t n);
    int (*array)(struct codec *c, void *at, size_t n, size_t size);
    float (*uniform)(struct codec *c);
    void (*common)(const struct codec *c, uint64_t key, float *out, size_t n);
    void (*log)(struct codec *c, const char *fmt, ...);
    int (*record)(struct codec *c, const char *name, double value);
    struct wire_out *(*message)(struct codec *c);
    struct wire_out *(*message_to)(struct codec *c, int to);
    int (*send)(struct codec *c, int to);
    void (*put_vector)(struct codec *c, struct wire_out *out, const float *v, size_t n);
    const float *(*get_vector)(struct codec *c, struct wire_in *in, size_t n);
    bool (*has_left)(const struct codec *c, int node);
    bool (*holds)(const struct codec *c, int block, int worker);
    int (*all_reduce)(struct codec *c, enum codec_reduction what, const float *in, float *out, size_t n);
    size_t (*slice)(const struct codec *c, size_t n, int k);
    int (*reduce_scatter)(struct codec *c, enum codec_reduction what, const float *in, float *out, size_t n);
    int (*all_gather)(struct codec *c, const float *in, float *out, size_t n);
    int (*broadcast)(struct codec *c, int root, const float *in, float *out, size_t n);
    int (*all_to_all)(struct codec *c, const float *in, float *out, size_t n);
    int (*update)(struct codec *c);
    void (*wake)(struct codec *c, double seconds);
    int (*link)(struct codec *c, int worker);
};

/* Allocates, in open() only: sets the state's field *at to a vector of n zeros, which the host frees with the
 * codec. A round allocates nothing. */
static inline int codec_zeros(struct codec *c, float **at, size_t n)
{
    return c->run->host->zeros(c, at, n);
}
/* For other types than float: if (codec_array(c, &s->index, n) < 0), where index is an `int *`, sets the
 * field to n zeroed items, which may be swapped, hold no addresses, and are saved as bytes. */
#define codec_array(c, at, n) ((c)->run->host->array((c), (at), (n), sizeof **(at)))

/* In open() of an event rule without servers: this worker exchanges messages with that one. A worker has
 * connections to those that it names, two on a ring, and so a ring may have a thousand workers; a rule that
 * names none has connections to all. Two workers name each other. Returns CODEC_GO, or the code of
 * codec_fail(). */
static inline int codec_link(struct codec *c, int worker)
{
    return c->run->host->link(c, worker);
}

/* Random numbers, uniform in [0, 1). The node's own: its generator is seeded by the job and the node, and its
 * state is saved with the codec's. */
static inline float codec_uniform(struct codec *c)
{
    return c->run->host->uniform(c);
}
/* out[0] .. out[n - 1], the same on all workers and servers: they depend only on the job's seed, `key` and
 * their index in `out`. With the number of the round or step as `key`, a rule need neither send nor save
 * them. Numbers of different keys are independent. */
static inline void codec_common(const struct codec *c, uint64_t key, float *out, size_t n)
{
    c->run->host->common(c, key, out, n);
}

/* Writes a line to the node's log. */
#define codec_log(c, ...) ((c)->run->host->log((c), __VA_ARGS__))
/* Adds a row to codec.csv: this node, its step and round, the name (a-z, 0-9, _), the value. A server may
 * record how old each gradient is, if the message has the number of updates of the weights it was computed
 * at:
 *     rc = codec_record(c, "staleness", d->version - version); */
static inline int codec_record(struct codec *c, const char *name, double value)
{
    return c->run->host->record(c, name, value);
}

/* Messages of event rules. codec_message() returns an empty message to write to; codec_send() queues it
 * for one node, and may be called for several nodes in turn. A worker sends to workers and to the server
 * of this codec's range. Nothing is sent to a node that has left. */
static inline struct wire_out *codec_message(struct codec *c)
{
    return c->run->host->message(c);
}
/* As codec_message(), for the node `to` alone, to which it must be sent. A server of a rule of
 * CODEC_LOSSY_PARAMS writes its parameters to no other message. */
static inline struct wire_out *codec_message_to(struct codec *c, int to)
{
    return c->run->host->message_to(c, to);
}
static inline int codec_send(struct codec *c, int to)
{
    return c->run->host->send(c, to);
}
/* Is the node lost, or has it ended? */
static inline bool codec_has_left(const struct codec *c, int node)
{
    return c->run->host->has_left(c, node);
}

/* Vectors in messages of rounds and events, which the user may have compressed (enum codec_compression);
 * if not, they are those of wire_put_f32s() and wire_get_f32s(). Each message has the same vectors in the
 * same order. The vector that codec_get_vector() returns is valid as long as the message. It returns NULL
 * for a malformed message, and for a vector with values that are not finite (in a job without --on-nonfinite
 * skip); wire_ok() is then false. If the rule then calls codec_fail(), the job's message names the sender of
 * values that are not finite, whatever the text of the call. */
static inline void codec_put_vector(struct codec *c, struct wire_out *out, const float *v, size_t n)
{
    c->run->host->put_vector(c, out, v, n);
}
static inline const float *codec_get_vector(struct codec *c, struct wire_in *in, size_t n)
{
    return c->run->host->get_vector(c, in, n);
}

/* Does the worker hold the block? */
static inline bool codec_holds(const struct codec *c, int block, int worker)
{
    return c->run->host->holds(c, block, worker);
}

/* Collective operations: event rules without servers only. All workers request the same operations, with
 * the same n, in the same order, one at a time. The host carries them out in chunks, in the time and bytes
 * that the best known algorithms take. Each function returns CODEC_WAIT, or the code of codec_fail(); the
 * host calls on_collective when `out` is complete. `in` and `out` are two different vectors (n). `in` must
 * not change until then. `out` must not change until the next operation is complete, because other workers
 * may still receive from it: the next operation needs another `out`, so a rule alternates between two. All
 * workers get the same bits, whatever the delays. */
static inline int codec_all_reduce(struct codec *c, enum codec_reduction what, const float *in, float *out,
                                   size_t n)
{
    return c->run->host->all_reduce(c, what, in, out, n);
}
/* Returns where slice k of a vector (n) begins: slice k is [codec_slice(c, n, k), codec_slice(c, n, k + 1)).
 * There is one slice per worker; their lengths are as equal as integers allow. */
static inline size_t codec_slice(const struct codec *c, size_t n, int k)
{
    return c->run->host->slice(c, n, k);
}
/* Writes only this worker's slice of `out`; the rest of `out` is undefined. */
static inline int codec_reduce_scatter(struct codec *c, enum codec_reduction what, const float *in,
                                       float *out, size_t n)
{
    return c->run->host->reduce_scatter(c, what, in, out, n);
}
/* Slice k of `out` becomes slice k of worker k's `in`. */
static inline int codec_all_gather(struct codec *c, const float *in, float *out, size_t n)
{
    return c->run->host->all_gather(c, in, out, n);
}
/* `out` becomes the `in` of worker `root`. */
static inline int codec_broadcast(struct codec *c, int root, const float *in, float *out, size_t n)
{
    return c->run->host->broadcast(c, root, in, out, n);
}
/* Slice k of `out` becomes slice c->run->node of worker k's `in`. n is a multiple of n_workers. */
static inline int codec_all_to_all(struct codec *c, const float *in, float *out, size_t n)
{
    return c->run->host->all_to_all(c, in, out, n);
}

/* On a server of a rule with updates_on_server only. Moves params by grads: one step of the job's optimizer,
 * at the learning rate of the workers' current step. As in damped.c in codecs/README.md:
 *     for (size_t i = 0; i < c->n_params; i++)
 *         c->grads[i] = part * g[i];
 *     rc = codec_update(c);
 * In ssgd with several servers, with --clip-norm or --on-nonfinite skip, a rule of rounds gets the update
 * after its apply() has returned, when the norm of the whole gradient is known, and before reply(): apply()
 * then neither reads params nor writes grads after it. */
static inline int codec_update(struct codec *c)
{
    return c->run->host->update(c);
}

/* A timer of event rules: the host calls on_wake once after `seconds`, or later if the node is computing
 * then. Another call before that sets a new time.
 *
 * A rule may not set timers or answer messages without an end while workers wait: a check of `codecs test`,
 * or a simulation, then fails when no worker has gone on for 100,000 events of each node (docs/simulator.md).
 * In a job the node waits until somebody ends the job, as each message restarts --round-timeout. */
static inline void codec_wake(struct codec *c, double seconds)
{
    c->run->host->wake(c, seconds);
}

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
    bool per_block; /* needs before_update; c->grads is then the gradient of block c->run->block */
    int (*encode)(struct codec *c, struct wire_out *out);        /* writes this worker's contribution */
    int (*merge)(struct codec *c, int from, struct wire_in *in); /* reads one contribution */
    int (*apply)(struct codec *c);                               /* after the last merge; may be NULL */
    int (*reply)(struct codec *c, struct wire_out *out);         /* server; NULL: no support for servers */
    int (*adopt)(struct codec *c, struct wire_in *in);           /* worker: reads the server's reply */
};

/* Callbacks of an event rule. Any may be NULL. On a server only on_message, on_lost and on_wake are called.
 *
 * Waiting. on_grad and on_step return CODEC_GO, and the node goes on with its step, or CODEC_WAIT: it waits
 * until on_message, on_collective, on_lost or on_wake returns CODEC_GO, which means that everything it waits
 * for is there, not only this message. While it waits, these four return CODEC_WAIT if something is still
 * missing. While the node does not wait (between two steps, between two blocks, on a server) CODEC_GO and
 * CODEC_WAIT are the same: only on_grad and on_step can make a node wait.
 *
 * Peers ahead. Workers are not in step. A message of a peer's next step may come while this worker waits for
 * those of the present one, or before it has computed its own gradient: a rule writes the step into its
 * messages, and keeps a message that comes early (gossip.c). The peers of a rule that waits for each of them
 * in each step are at most one step ahead; those of a rule that waits for none, any number.
 *
 * c->run->step is the number of steps that are complete: in on_backward, on_block and on_grad of the first
 * step 0, in its on_step 1, as the update is made. on_message, on_collective, on_lost and on_wake see the
 * value of the last of those calls. */
struct codec_events {
    /* The gradient of block c->run->block, one of this worker's blocks, is in grads; the next block's
     * gradient replaces it. Returns CODEC_GO. */
    int (*on_block)(struct codec *c);
    /* Before the update: the step's gradient, the mean over this worker's blocks, is in grads. */
    int (*on_grad)(struct codec *c);
    int (*on_step)(struct codec *c); /* after the update */
    /* May write params: no gradient is computed from them during the call. (With --redundancy a step has
     * several blocks, and messages come between them, too: their gradients are then of different params.) But
     * while a collective is under way, or in a rule with on_backward, messages come between two layers: there
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
    int (*on_wake)(struct codec *c); /* the time of codec_wake() is over */
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

/* Which compression the vectors of a rule tolerate. CODEC_BY_CONTENT: of a rule that combines, gradients and
 * changes (contributes_change) as CODEC_LOSSY, else CODEC_LOSSLESS_ONLY. With lossy compression the vector
 * read differs from the vector written. Up: what a worker sends; down: what a server sends.
 * CODEC_UNCOMPRESSED is for a rule without such vectors: the host then refuses --compress, which would have
 * no effect.
 *
 * CODEC_LOSSY_PARAMS: up, and what a server sends first in each message are its parameters (n_params).
 * With lossy compression down, the host sends their difference from the receiver's, so that the next message
 * contains what this one leaves out: the vector read approaches the sender's if that does not change. A rule
 * that combines need not declare it: the host knows where servers send parameters. */
enum codec_compression {
    CODEC_BY_CONTENT,
    CODEC_LOSSLESS_ONLY,
    CODEC_LOSSY_UP,
    CODEC_LOSSY,
    CODEC_UNCOMPRESSED,
    CODEC_LOSSY_PARAMS
};

/* What workers have after a synchronous exchange. `job_submit codecs test` checks it, and recomputes a
 * formula. A job whose workers end with different weights reports that, unless the rule declares
 * CODEC_OWN_RESULT. */
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
    if (c->run->node < 0)
        return (uint64_t)c->n_workers;
    return c->run->n_servers > 0 ? 1 : (uint64_t)c->n_workers - 1;
}

/* Does the model have running statistics (batch_norm) in this codec's range? They are the last of params,
 * move without a learning rate, and are averages, which a rule that adds up changes would make wrong. */
static inline bool codec_has_statistics(const struct codec *c)
{
    return c->run->n_layers > 0 && c->run->layers[c->run->n_layers - 1].is_statistic;
}

/* What a plug-in declares besides codec.h. */
struct codec_more {
    uint32_t layout[3];                /* sizes, set by CODEC_MORE */
    const struct codec_round *round;   /* instead of codec_plugin.combine ... */
    const struct codec_events *events; /* ... or of both */
    /* Of a rule that combines: a combination is one exchange late, unless the user sets --overlap 0. After
     * contribute() the worker takes its next local steps, and only then apply() is called.
     *   CODEC_EACH_STEP: an update uses the combined gradients of the step before, the first one zeros; the
     *   last combination is not used. contribute() of a step comes before apply() for the step before.
     *   CODEC_EACH_ROUND: the combination is applied to the parameters as they were when contributed, and the
     *   local steps made since are added. At the end of the job nothing is late. */
    bool overlaps;
    bool updates_on_server; /* the job's optimizer runs there (codec_update()), not on the workers */
    enum codec_compression compression;
    enum codec_result result; /* 0: workers end equal */
    const char *cost; /* for users: messages and bytes; not of a rule that combines: the host knows them */
    size_t (*message_bytes)(const struct codec *c); /* of the longest message; NULL: 64 + 4 n_params */
    /* Returns what this node, worker or server, sends in a synchronous round, or in a step of an event rule.
     * Asked once, for all rounds. NULL: not declared, or not the same in each. */
    struct codec_cost (*sends)(const struct codec *c);
    /* Returns the model that the rule trains (n_params), for evaluations and the model files. On a worker
     * NULL or without this function: it is params. On a server, of a rule of asgd that neither combines
     * nor updates there: what every worker gets as the result when all have ended; NULL or without this
     * function: each keeps its own. */
    const float *(*model)(const struct codec *c);
    /* On every worker and server, between two other calls: c->run->evaluation is new. All workers evaluate
     * after each epoch and --eval-every steps, in asgd not at the job's end; an evaluation that the codec
     * requests by wants_evaluation is not shared. In ssgd the workers wait for the result: a decision made
     * by it alone (wants_stop, lr_factor) is the same on all of them. Returns CODEC_GO or a code. */
    int (*on_evaluation)(struct codec *c);
};
#define CODEC_MORE(...)                                                                                      \
    (&(const struct codec_more){                                                                             \
        .layout = {sizeof(struct codec_more), sizeof(struct codec_run), sizeof(struct codec_host)},          \
        __VA_ARGS__})

/* For the host: what a plug-in declares; all zeros if nothing. */
static inline const struct codec_more *codec_more(const struct codec_plugin *p)
{
    static const struct codec_more nothing;

    return p->more ? p->more : &nothing;
}

#endif
