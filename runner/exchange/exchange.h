/* exchange -- the codec's host on one node: creates the codecs (one, or one per parameter server), calls them
 * as codecs/codec.h promises, carries their messages over the mesh, and counts and times all of it. A codec's
 * requests to its node (optimizer update, records) go to the functions in exchange_config.
 *
 * It never blocks: a call returns CODEC_WAIT, and the caller passes in mesh events until it returns CODEC_GO.
 * So the runner, a test and a fuzzer can each use their own clock.
 *
 * A driver of a worker (runner/core/worker.h) needs these functions only; the calls of each step, which the
 * worker makes, are in exchange_step.h. */
#ifndef PSGD_EXCHANGE_H
#define PSGD_EXCHANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "codecs/codec_events.h"
#include "codecs/compress/compress.h"
#include "runner/base/stopwatch.h"
#include "runner/collective/collective_plan.h"
#include "runner/exchange/peer_stats.h"
#include "runner/mesh/mesh.h"
#include "runner/shm/shm_group.h"
#include "shared/base/err.h"
#include "shared/job/aggregate.h"
#include "shared/job/blocks.h"
#include "shared/job/settings.h"
#include "shared/records/record.h"

struct exchange;
struct tensor_view;

/* The most messages queued for one peer: with more, the node stops computing until the queue is shorter; in
 * asgd between workers, new contributions for this peer are dropped instead. */
enum { EXCHANGE_BACKLOG_MAX = MESH_BACKLOG };

struct exchange_config {
    const struct codec_plugin *plugin;
    const char *options; /* the codec's parameters: shared/plugin/codec_options.h; NULL: their defaults */
    /* The value of --compress: codecs/compress/chain_list.h; NULL or "": none. */
    const char *compress, *compress_down;
    int node, n_workers, n_servers;
    const struct blocks *blocks; /* not owned; must outlive the exchange */
    bool is_sync;
    bool skips_nonfinite; /* after the exchange, an update by a gradient that is not finite is left out */
    bool goes_on;         /* the job continues without lost workers, while at least min_nodes are left */
    int min_nodes;
    uint64_t local_steps, n_steps, seed;
    bool shares_evaluations;     /* stop_vote.h: they may end the job, or a codec of the job reads them */
    double target_accuracy;      /* 0: none */
    int patience;                /* 0: none */
    size_t n_test_sums;          /* test_sum.h; 0: every worker has the whole test set, or there is none */
    enum combine_path_kind path; /* of a rule that combines */
    struct aggregate aggregate;
    enum overlap overlap;
    int n_drawn; /* workers that take part in a round; 0: all */
    bool clips;  /* updates: --clip-norm */
    /* A user's program trains (shared/trainer/): a step has any number of samples, which weighs the worker's
     * contribution, and in grads running statistics have their change, the old value minus the new one. */
    bool has_trainer;
    bool saves; /* the job writes checkpoints, also when asked for one (save_vote.h) */
    enum collective_algorithm allreduce;
    size_t n_params;     /* of the whole model */
    size_t n_statistics; /* the last of these are running statistics: nn/net.h */
    /* (n_servers + 1), not owned: the beginning of each server's range, and then n_params, as
     * placement_lay_out() makes it; NULL: ranges of equal length. */
    const size_t *ranges;
    float *params;                    /* (n_params), also on a server, which uses its range of them */
    float *grads;                     /* (n_params), also on a server, which merges gradients in its range */
    const struct codec_layer *layers; /* (n_layers), of the whole model; not owned */
    int n_layers;
    /* Least floats in a bucket of the gradient (collective_plan.h), which is summed while the gradients of
     * earlier layers are computed; 0: the gradient is one bucket. */
    size_t bucket;
    /* On a server whose plugin has updates_on_server: updates params [from, from + n) by grads, as in step
     * `step` (from 0) of the workers, at lr_factor times its learning rate. `norm`: of the whole gradient, if
     * the update depends on it (--clip-norm, --on-nonfinite skip) and grads are a range of the gradient;
     * otherwise NULL. */
    int (*update)(void *owner, size_t from, size_t n, uint64_t step, float lr_factor, const double *norm,
                  struct err *e);
    /* Writes a row of codec.csv; `name` is only valid during the call. NULL: rows are discarded. */
    int (*record)(void *owner, const struct codec *c, const char *name, double value, struct err *e);
    void *owner;               /* their first argument */
    const double *time;        /* simulated time, not owned; NULL: clock_now */
    struct stopwatch *watch;   /* not owned; its times restart. NULL: the exchange has its own */
    struct stopwatch *process; /* of the whole process (base/stopwatch.h); NULL: none */
};

/* Sums since the beginning. */
struct exchange_totals {
    uint64_t sent_messages, recv_messages, raw_bytes, sent_bytes, recv_bytes;
    /* asgd: contributions replaced by a newer one of the same sender before their merge, and contributions
     * not sent because too many were queued for their receiver. */
    uint64_t n_overtaken;
};

/* The part of a node's configuration that follows from the settings, which must outlive it. The caller adds
 * the plugin, the blocks, the vectors, and members that may be NULL. */
struct exchange_config exchange_config_of(const struct settings *set, int node);
/* *out: the n tensors of a model as exchange_config.layers, sorted by their offset in the one vector that
 * they cover; freed by the caller. (A model lists each layer's tensors together, but its running statistics
 * lie behind all n_trained trained parameters.) ERR_NOMEM. */
int exchange_list_layers(struct codec_layer **out, const struct tensor_view *t, size_t n, size_t n_trained,
                         struct err *e);

/* Opens the codecs. ERR_CODEC: the rule does not support this job, or its open() failed. ERR_CONFIG: invalid
 * parameters of the codec. */
int exchange_new(struct exchange **out, const struct exchange_config *cfg, struct err *e);
void exchange_free(struct exchange *x);

/* The part of params that this node exchanges: on a server its range, on a worker all. */
struct exchange_range {
    size_t first, n;
};
struct exchange_range exchange_range(const struct exchange *x);

size_t exchange_limit(const struct exchange *x); /* bytes of the longest message: the mesh's limit */
/* Before the mesh is opened: chooses the links of a job whose rule names them (codec_link), and of one that
 * only combines by all-reduces, if it has many workers, or few processors for them (is_crowded): there a
 * worker needs those to the workers with which it exchanges chunks. Worker 0 is linked to all if it collects
 * votes or sums. Other jobs, and jobs that continue without lost workers, need all links. `machines` as in
 * exchange_attach. CODEC_GO or a code. */
int exchange_choose_links(struct exchange *x, const int *machines, bool is_crowded, struct err *e);
/* Has it chosen, for collectives? Then workers share no memory. */
bool exchange_has_few_links(const struct exchange *x);
bool exchange_needs_link(const struct exchange *x, int node); /* does the rule need a link to that node? */
bool exchange_links_servers(const struct exchange *x); /* do servers need links to each other? (whole.h) */
/* asgd: this node waits for no message, so no wait ends because of a stalled peer. */
bool exchange_never_waits(const struct exchange *x);
/* Neither the mesh nor `machines` is owned. machines (n_workers): for each worker the first one on its
 * machine, the same on all nodes; NULL: each worker has a machine of its own. All-reduces depend on it:
 * inside a machine messages cost processor time, between machines network time. */
void exchange_attach(struct exchange *x, struct mesh *m, const int *machines);
bool exchange_has_messages(const struct exchange *x); /* does the rule send messages? The same on all nodes */
bool exchange_collects(const struct exchange *x);     /* does the rule use collectives? */
/* Do the collectives run inside each machine, and between machines? */
bool exchange_has_levels(const struct exchange *x);
/* Does exchange_share put params, and not grads, into the memory of all workers? True for rules with local
 * steps that contribute params and whose combination replaces params, if all workers hold as many blocks and
 * combinations are not late. */
bool exchange_shares_params(const struct exchange *x);
/* Lets collectives use memory that workers share, and puts grads or params into it: all workers, if they run
 * on one machine, or, where the path has levels, the workers of each machine. `g` is not owned and must stay
 * open until the exchange is freed. NULL: this worker is alone on its machine, and on the other machines all
 * workers share memory. ERR_NOMEM. */
int exchange_share(struct exchange *x, struct shm_group *g, struct err *e);
/* Bytes of the vectors and messages that it holds in a job's steps, with those that it allocates on first
 * use. Memory shared with other nodes is not counted. */
double exchange_bytes(const struct exchange *x);
/* Returns the mesh's buffers, so that the mesh may be closed. While it closes, it may still send vectors of
 * collectives: the exchange and grads must exist until it is closed. */
void exchange_detach(struct exchange *x);

/* While a worker computes the gradient of its only block, an exchange may begin. CODEC_GO, CODEC_WAIT or a
 * code.
 *   on_backward  the gradient is about to be computed; optional
 *   on_ready     between on_backward and worker_computed: grads[ready ..] are final, the values before are
 *                still being computed */
int exchange_on_backward(struct exchange *x, struct err *e);
int exchange_on_ready(struct exchange *x, size_t ready, struct err *e);
/* Is a collective under way on the mesh? It advances with each event that is passed in. */
bool exchange_is_collecting(const struct exchange *x);

/* For a worker whose params a program updates. Does the rule read or replace gradients? Otherwise its steps
 * need not pass them. */
bool exchange_reads_gradient(const struct exchange *x);
/* Does the rule read params between now and the end of the coming step? Not, if it is synchronous, between
 * two exchanges of parameters, and never, if it only combines gradients. */
bool exchange_reads_params(const struct exchange *x);
/* The steps from one exchange to the next; 1: an exchange in each step. */
uint64_t exchange_every(const struct exchange *x);
/* May params have changed, other than by updates, since the last call? Asynchronous rules, and rules with
 * messages of their own, may change them at any event. */
bool exchange_take_move(struct exchange *x);

/* Handles one event of the mesh; takes ownership of its buffer. Returns CODEC_GO when this node waits for
 * nothing. ERR_LOST: a node that the rule needs has left or is lost, or fewer than min_nodes workers are
 * left, or other nodes have lost this node and continue without it. */
int exchange_on_event(struct exchange *x, struct mesh_event *ev, struct err *e);
/* For a driver that keeps events, to pass them in when params may be changed: handles what calls no codec and
 * must not be late: the loss of a node that the job needs, peers' reports of waits (stall.h), and the parts
 * of a collective that is under way. Returns 1: it is handled, and its buffer taken; 0: keep it; or a code as
 * exchange_on_event. */
int exchange_on_kept(struct exchange *x, struct mesh_event *ev, struct err *e);
/* When params may be changed: tells the codec that such a collective is complete. CODEC_GO or a code. */
int exchange_end_kept(struct exchange *x, struct err *e);
/* The time (stopwatch_now; INFINITY: none) at which a codec's timer expires: the caller then passes in an
 * event, MESH_NOTHING if there is no other. */
double exchange_wakes_at(const struct exchange *x);

/* True if rounds were closed, but no worker has yet contributed with a weight above 0. Only in synchronous
 * jobs of rules with contribute(), which set weights, and of training programs, which report samples. */
bool exchange_combined_nothing(const struct exchange *x);

bool exchange_has_model(const struct exchange *x); /* does the rule train another model than params? */
/* Copies the model that the rule trains to `out` (n_params). False: it is params. */
bool exchange_model(const struct exchange *x, float *out);
/* On a server: the model that it holds between two messages (n_params). NULL: the workers have it, or the
 * server holds a part of it only. */
const float *exchange_held_model(const struct exchange *x);

/* Back-pressure: are so many messages queued for a peer that this node must not continue to compute? Chunks
 * of a collective do not count: they are few at a time, and the worker may compute meanwhile. */
bool exchange_must_wait(const struct exchange *x);
/* Names the message for which this node waits, for users: "the contribution of node 1 in round 12". */
void exchange_waits_for(const struct exchange *x, char *out, size_t size);

const struct exchange_totals *exchange_totals(const struct exchange *x);
/* Bytes of messages, own contributions included, that codecs have read on this node in that phase; chunks
 * that collectives have added count as PHASE_DECODE. A simulation computes the time of reading from them. */
uint64_t exchange_read(const struct exchange *x, enum phase phase);
/* The symbols of this node's messages that its chain has coded: bits used, and the entropy; zeros: none. */
struct compress_report exchange_coded(const struct exchange *x);
/* The node's time by phase. The exchange switches to a phase while a codec or the mesh runs and back to the
 * phase that the caller has set; the watch starts in exchange_new. */
struct stopwatch *exchange_watch(struct exchange *x);
/* Are parameters exchanged after local steps? Otherwise there is an exchange in each step. */
bool exchange_has_local_steps(const struct exchange *x);
uint64_t exchange_rounds(const struct exchange *x); /* closed so far */
/* True once after each round: exchange_sent and exchange_received then return that round's traffic, until the
 * next call. */
bool exchange_round_done(struct exchange *x, uint64_t *round);
const struct exchange_traffic *exchange_sent(const struct exchange *x, int peer);
const struct exchange_traffic *exchange_received(const struct exchange *x, int peer);
/* The first node from this one on with which there may have been traffic: -1 - n_servers and so on to -2,
 * then 0 to n_workers - 1. */
enum { EXCHANGE_NO_PEER = -1 };
int exchange_next_peer(const struct exchange *x, int node);
/* Writes that traffic with `row.peer` as rows of comm.csv. `row` has time, round, node and peer. Returns the
 * number of rows: one for each direction with at least one message. */
size_t exchange_comm_rows(struct record_comm out[2], const struct exchange *x, struct record_comm row);

#endif
