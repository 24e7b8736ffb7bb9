/* exchange -- the codec's host on one node: makes the codecs at work (one, or one per parameter server),
 * calls them as codecs/codec.h promises, carries their messages over the mesh, and counts and times all of
 * it. What a codec asks of its node (the optimizer, records) is handed on.
 *
 * It never waits: a call returns CODEC_WAIT, and the caller feeds it mesh events until it says CODEC_GO. So
 * the runner, a test and a fuzzer can each bring their own idea of time. */
#ifndef PSGD_EXCHANGE_H
#define PSGD_EXCHANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/runner/collective/collective_plan.h"
#include "agent/runner/exchange/peer_stats.h"
#include "agent/runner/mesh/mesh.h"
#include "agent/runner/shm/shm_group.h"
#include "agent/runner/stopwatch.h"
#include "codecs/codec.h"
#include "codecs/compress/compress.h"
#include "shared/blocks.h"
#include "shared/err.h"
#include "shared/settings.h"

struct exchange;

/* Messages waiting for one peer: beyond, this node pauses for it; in asgd between workers it gets no more. */
enum { EXCHANGE_BACKLOG_MAX = MESH_BEHIND };

struct exchange_config {
    const struct codec_plugin *plugin;
    const char *options; /* the codec's parameters: shared/codec_options.h; NULL: their defaults */
    /* What --compress says: codecs/compress/chain.h; NULL or "": nothing. */
    const char *compress, *compress_down;
    int node, n_workers, n_servers;
    const struct blocks *blocks; /* borrowed for the exchange's life */
    bool is_sync;
    bool goes_on; /* without workers that are lost, while at least min_nodes stand */
    int min_nodes;
    uint64_t local_steps, n_steps, seed;
    enum collective_algorithm allreduce;
    size_t n_params;                  /* of the whole model */
    float *params;                    /* (n_params); on a server too, which works on its range of it */
    float *grads;                     /* (n_params); on a server too: a place to merge gradients in */
    const struct codec_layer *layers; /* (n_layers), of the whole model; borrowed */
    int n_layers;
    /* Floats of a gradient's bucket at least (collective_plan.h), whose sum goes on while the layers before
     * it are computed; 0: the gradient is one. */
    size_t bucket;
    /* A server's, of a plugin that updates there: params [from, from + n) move by grads, as in step `step`
     * (from 0) of the workers, at lr_factor times its learning rate. */
    int (*update)(void *owner, size_t from, size_t n, uint64_t step, float lr_factor, struct err *e);
    /* Keeps a row of codec.csv; `name` is gone when it returns. NULL: nobody keeps them. */
    int (*record)(void *owner, const struct codec *c, const char *name, double value, struct err *e);
    void *owner;        /* their first argument */
    const double *time; /* NULL: time is clock_now; else what stands here, a simulation's. Borrowed */
};

/* Sums since the beginning. */
struct exchange_totals {
    uint64_t sent_messages, recv_messages, raw_bytes, sent_bytes, recv_bytes;
    uint64_t n_overtaken; /* asgd: words that newer ones of the same sender replaced before they were merged,
                           * and those not sent as their receiver did not take the ones before */
};

/* What settings, which are borrowed, say of a node's; the caller adds the plugin, blocks, vectors and what
 * may be NULL. */
struct exchange_config exchange_config_of(const struct settings *set, int node);

/* Opens the codecs. ERR_CODEC: the rule cannot do what the job asks, or its open() failed. ERR_CONFIG: its
 * parameters. */
int exchange_new(struct exchange **out, const struct exchange_config *cfg, struct err *e);
void exchange_free(struct exchange *x);

size_t exchange_limit(const struct exchange *x); /* bytes of the longest message: the mesh's limit */
bool exchange_talks_to(const struct exchange *x, int node); /* does the rule need a link to that node? */
void exchange_attach(struct exchange *x, struct mesh *m);   /* borrowed */
bool exchange_has_messages(const struct exchange *x); /* has the rule messages? All nodes say the same */
/* Does the rule ask for collectives? Then workers of one machine may share memory: from exchange_share on,
 * all of them, collectives go through it, and grads lie in it. Borrowed; it is open until the exchange is
 * freed. */
bool exchange_collects(const struct exchange *x);
void exchange_share(struct exchange *x, struct shm_group *a);
/* Gives back what it holds of the mesh, which may then be closed; but while it closes, vectors of collectives
 * may still be sent: it needs the exchange, and grads, until it is. */
void exchange_detach(struct exchange *x);

/* One step, in this order. Each returns CODEC_GO, CODEC_WAIT or an error code.
 *   on_backward  the gradient of my only block is about to be computed, whatever it will be; need not be
 *             called
 *   on_ready  after on_backward: grads have what of it is from `ready` on, but not all of it: that is on_grad
 *   on_block  the gradient of one of my blocks is in grads (only called where wants_blocks says so)
 *   on_grad   the mean gradient over my blocks is in grads
 *   on_step   the optimizer has updated params. After the last one, workers of a job that goes on without
 *             lost ones wait for each other: each may be needed until all have closed the last round */
int exchange_on_backward(struct exchange *x, struct err *e);
int exchange_on_ready(struct exchange *x, size_t ready, struct err *e);
/* Is a collective under way over the mesh? It goes on when events are fed. */
bool exchange_is_collecting(const struct exchange *x);
bool exchange_wants_blocks(const struct exchange *x);
int exchange_on_block(struct exchange *x, int block, struct err *e);
int exchange_on_grad(struct exchange *x, size_t n_samples, struct err *e);
int exchange_on_step(struct exchange *x, struct err *e);
/* Between on_grad's CODEC_GO and on_step: the gradient (n_params) that the update is to use: grads, or a
 * vector of the codec's, so that what a collective has summed need not be copied. */
const float *exchange_gradient(const struct exchange *x);

/* One event from the mesh; takes its buffer. Returns CODEC_GO when nothing is waited for (any more).
 * ERR_LOST: a node that the rule cannot do without has gone, or fewer than min_nodes workers stand, or this
 * node is lost to others, who go on without it. */
int exchange_on_event(struct exchange *x, struct mesh_event *ev, struct err *e);
/* An event, MESH_NOTHING will do, is wanted at this time (stopwatch_now; INFINITY: at none): a codec wishes
 * to be woken. */
double exchange_wakes_at(const struct exchange *x);

/* Is the job's optimizer at work on this node? Else the codec has it on the servers, and a worker leaves its
 * parameters as the exchange of gradients has left them. */
bool exchange_updates_here(const struct exchange *x);
/* What the codec says of this worker's own work: codec.h, lr_factor and below. A wish to evaluate is told
 * once. */
float exchange_lr_factor(const struct exchange *x);
bool exchange_take_evaluation(struct exchange *x);
bool exchange_wants_stop(const struct exchange *x);

/* Does some peer lag so far behind in what it is sent that this node must not compute on? Pieces of a
 * collective do not count: they are few at a time, and who has asked for one may want to compute
 * meanwhile. */
bool exchange_must_wait(const struct exchange *x);
/* What is waited for, for people: "the word of node 1 for round 12". */
void exchange_waits_for(const struct exchange *x, char *out, size_t size);
bool exchange_is_over(const struct exchange *x); /* on a server: every worker has left */

const struct exchange_totals *exchange_totals(const struct exchange *x);
/* Bytes of messages, its own words among them, that codecs have read here in that phase, of which others'
 * pieces that collectives have added are PHASE_DECODE: a simulation gives them their time. */
uint64_t exchange_read(const struct exchange *x, enum phase phase);
/* The symbols of this node's messages that its chain has coded: bits taken, and the entropy; zeros: none. */
struct compress_report exchange_coded(const struct exchange *x);
/* The node's time. The exchange switches to a phase for as long as a codec or the mesh is at work and back
 * to the caller's, which is the caller's to choose; it starts with exchange_new. */
struct stopwatch *exchange_watch(struct exchange *x);
uint64_t exchange_rounds(const struct exchange *x); /* closed so far */
/* True once after each round: then traffic of that round, by peer, is there until the next call. */
bool exchange_round_done(struct exchange *x, uint64_t *round);
const struct exchange_traffic *exchange_sent(const struct exchange *x, int peer);
const struct exchange_traffic *exchange_received(const struct exchange *x, int peer);

#endif
