/* sim -- a whole job in one process: every node has the real exchange with the real codec; what lies
 * between them (mesh_sim.h, wires.h), what they train with (trainer.h) and time are made up. A node's time
 * goes on by what it computes and by what it waits for, and by nothing that this machine does: two runs of
 * the same simulation are equal to the last byte. */
#ifndef PSGD_SIM_H
#define PSGD_SIM_H

#include "agent/runner/exchange/exchange.h"
#include "nn/optimizer.h"
#include "shared/codec_load.h"
#include "shared/flag.h"
#include "shared/schedule.h"
#include "shared/settings.h"
#include "shared/simulation.h"
#include "sim/records.h"
#include "sim/trainer.h"
#include "sim/wires.h"

struct sim;
struct sim_node {
    struct sim *sim;
    int node, slot;
    double now; /* its own time, which its exchange sees; never behind the queue's when it acts */
    enum sim_phase {
        SIM_BEGINS,   /* is about to compute the gradient of a block */
        SIM_COMPUTES, /* has it when it wakes */
        SIM_IN_GRAD,  /* waits for the codec, before the update */
        SIM_IN_STEP,  /* and behind it */
        SIM_EVALUATES,
        SIM_SERVES,
        SIM_DONE,
        SIM_FAILED,
        SIM_KILLED
    } phase;
    bool may_step; /* in a search through all orders: it is the node's turn to compute */
    bool is_busy;  /* until a SIM_WAKE that is in the queue */
    bool has_processor, wants_processor;
    bool has_computed; /* a block, since it has the processor */
    int next_wanting;  /* slot; -1: none */
    bool has_room;     /* a queue of its has become shorter, or its codec's time has come */
    double timer;      /* of the SIM_TIMER that is in the queue; INFINITY: none is */
    struct exchange *x;
    struct mesh *mesh;
    float *params, *grads; /* (n_params) */
    float *sum;            /* the gradient over several blocks, where there are several */
    struct optimizer *optimizer;
    int *blocks, n_blocks, at_block;
    double speed, step_time; /* of the step under way: stragglers */
    struct rng rng;
    uint64_t step, samples;
    uint64_t n_left_out; /* gradients and updates that were not finite */
    int epoch;           /* from 1 */
    double waits_since;
    const struct mesh_buf *encoded; /* the message whose writing it has spent time on ... */
    uint64_t encoded_round;         /* ... in that round */
    uint64_t read[N_STEP_PHASES];   /* bytes that its exchange has, and that it has spent time on */
    struct net_score score;
    double lr, grad_norm;
    double begun, spent[N_STEP_PHASES]; /* at the step's begin */
    struct exchange_totals before;
    double loss, eval_loss, eval_accuracy; /* the latest; NAN: none */
    double ended_at;
    struct err *e; /* why it has failed */
};

/* It has ended, in whichever way: nothing happens to it any more. */
static inline bool sim_node_is_over(const struct sim_node *n)
{
    return n->phase >= SIM_DONE;
}

struct sim {
    struct settings set;
    struct simulation how;
    bool may_skip;   /* a step that is not finite is left out, else it ends the job */
    uint64_t timing; /* the seed of what time decides; the job's, unless somebody tries others */
    struct blocks blocks;
    struct schedule schedule;
    struct codec_library codec, server_codec; /* the latter: not opened where it is the same */
    struct trainer *trainer;
    struct sim_steps steps;          /* times of one */
    double eval_time_s;              /* what the test set takes a node of speed 1 */
    double codec_rate;               /* bytes a second that it writes or reads; 0: it takes no time */
    struct sim_overhead overhead;    /* of a message at each end */
    int n_free;                      /* processors, where nodes share some */
    int first_wanting, last_wanting; /* slots of who wants one, by time; -1: nobody */
    struct codec_layer *layers;      /* (n_layers) */
    int n_layers;
    struct sim_queue queue;
    struct sim_wires *wires;
    struct mesh_sim *net;
    struct sim_cuts cuts;
    struct sim_straggler straggler;
    struct sim_records *records;   /* NULL: none are kept */
    struct sim_explorer *explorer; /* NULL: time decides what happens next */
    int n_nodes;
    struct sim_node *nodes; /* (n_nodes), by slot: workers, then servers */
    int cause;              /* slot of the first that failed; -1: none */
    int *waking, n_waking;  /* (n_nodes): slots to be told that they have room */
    uint64_t n_steps;
    struct err why; /* of a node that is about to fail */
};

/* `set` and `how` are copied. Opens codec.so, and server_codec.so where settings name another codec, in
 * `folder`; for a network what else lies there (network.c). */
int sim_open(struct sim *s, const struct settings *set, const struct simulation *how, const char *folder,
             struct err *e);
/* Until every node has ended. 0, whatever became of the nodes; an error is the simulator's own,
 * ERR_CANCELLED a signal's. */
int sim_run(struct sim *s, struct err *e);
void sim_close(struct sim *s);

/* For a search, and for checks of a codec. All nodes are as they were before sim_run. */
int sim_restart(struct sim *s, struct err *e);
/* Nothing can happen any more: nodes that still wait do so for ever, and fail of it. */
void sim_end_hanging(struct sim *s);

extern atomic_bool sim_interrupted; /* set by a signal */

/* Every node but those killed, where the job may go on without them. */
bool sim_has_succeeded(const struct sim *s);
double sim_time(const struct sim *s); /* when the last node ended */
/* All workers that are done have the same weights; and every one of them is a number. */
bool sim_models_agree(const struct sim *s);
bool sim_models_are_finite(const struct sim *s);

/* What follows is between the simulator's own files. */

/* sim.c: the job's optimizer, and how many of the parameters [from, from + n) are moved by it. */
struct optimizer_config sim_optimizer_of(const struct sim *s);
size_t sim_trained_of(const struct sim *s, size_t from, size_t n);

/* costs.c, measure.c: set steps, eval_time_s, codec_rate and overhead. */
int sim_find_costs(struct sim *s, struct err *e);
int sim_measure(struct sim *s, struct err *e);

/* processors.c: a node has a processor for as long as it is at something. It takes one before (false: it is
 * woken when it has one), leaves it when it waits, and yields it in between: behind all who want one now. */
void sim_processors_init(struct sim *s);
bool sim_processor_take(struct sim *s, struct sim_node *n);
int sim_processor_leave(struct sim *s, struct sim_node *n, struct err *e);
int sim_processor_yield(struct sim *s, struct sim_node *n, struct err *e);
bool sim_processor_is_wanted(const struct sim *s);

/* node.c: a step begins, now. */
void sim_node_begin(struct sim *s, struct sim_node *n);
/* The node does what it can by now. Why it fails of it is the node's; an error is the simulator's own. */
int sim_node_drive(struct sim *s, struct sim_node *n, struct err *e);
/* The exchange's `update`: the optimizer on a server. */
int sim_node_update(void *owner, size_t from, size_t n, uint64_t step, float lr_factor, struct err *e);
/* A message of its leaves, or has come to it: the time that takes. */
void sim_node_sent(struct sim *s, struct sim_node *n, const struct sim_message *l);
void sim_node_took(struct sim *s, struct sim_node *n, const struct sim_message *l);
/* Until then it is at something. */
int sim_node_keep_busy(struct sim *s, struct sim_node *n, double until, struct err *e);
/* It ends as a process does that fails: its peers lose it. */
void sim_node_fail(struct sim *s, struct sim_node *n, const struct err *why);

#endif
