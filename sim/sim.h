/* sim -- a whole job in one process: every node has the real exchange with the real codec; the network
 * (mesh_sim.h, wires.h), what the workers compute (workload.h) and time are simulated. A node's time advances
 * only by its simulated computation and waits, independently of this machine: two runs of the same simulation
 * are equal to the last byte. */
#ifndef PSGD_SIM_H
#define PSGD_SIM_H

#include "runner/core/step.h"
#include "runner/core/worker.h"
#include "runner/exchange/exchange.h"
#include "shared/base/flag.h"
#include "shared/job/schedule.h"
#include "shared/job/settings.h"
#include "shared/job/simulation.h"
#include "shared/plugin/codec_load.h"
#include "sim/wires.h"
#include "sim/workload.h"

struct sim;
struct sim_records;
struct sim_explorer;
struct sim_node {
    struct sim *sim;
    int node, slot;
    double now; /* its own time, as seen by its exchange; never before the queue's when it runs */
    enum sim_phase {
        SIM_BEGINS,   /* before computing the gradient of a block, or a step without one */
        SIM_COMPUTES, /* it computes until it is woken */
        SIM_WAITS,    /* for what its codec, or its part of the job, needs */
        SIM_EVALUATES,
        SIM_DONE,
        SIM_FAILED,
        SIM_KILLED
    } phase;
    bool may_step; /* in a search of all orders: chosen to compute */
    bool is_busy;  /* until the SIM_WAKE in the queue */
    bool has_processor, wants_processor;
    bool has_computed; /* a block since it got the processor */
    int next_wanting;  /* slot; -1: none */
    bool has_room;     /* one of its queues has become shorter, or its codec's timer has expired */
    double timer;      /* of the SIM_TIMER in the queue; INFINITY: none */
    struct exchange *x;
    struct mesh *mesh;
    float *params, *grads; /* (n_params) */
    struct step step;
    struct worker worker;
    int wants;                     /* enum worker_wants: what it does now */
    struct worker_request request; /* its details */
    int *blocks, n_blocks;
    double speed, step_time; /* of the node; seconds of the present step */
    struct rng rng;
    double waits_since;
    const struct mesh_buf *encoded;  /* the message whose encoding was charged last, */
    uint64_t encoded_round;          /* and its round: it is charged once */
    uint64_t read[N_STEP_PHASES];    /* bytes read by its exchange that were already timed */
    double lr;                       /* of its last update, by a program's function */
    double eval_loss, eval_accuracy; /* of the latest evaluation; NAN: none */
    double ended_at;
    struct err *e; /* error; NULL: none */
};

/* Whether it has ended in any way: it gets no more events. */
static inline bool sim_node_is_over(const struct sim_node *n)
{
    return n->phase >= SIM_DONE;
}

/* Whether the job goes on: codecs can send messages and set timers without an end, while no worker does. */
struct sim_progress {
    double went_on;                          /* when a worker last went on with its part of the job */
    double busy;                             /* until when one computes */
    uint64_t n_events, n_timers, n_messages; /* since it went on */
};

struct sim {
    struct settings set;
    struct simulation how;
    uint64_t timing; /* seed of random times; the job's, unless a check tries others */
    struct blocks blocks;
    struct schedule schedule;
    struct codec_library codec, server_codec; /* server_codec: not open if it is the same */
    struct workload *workload;
    struct sim_steps steps;          /* times of a step */
    double eval_time_s;              /* time of the test set on a node of speed 1 */
    double codec_rate;               /* bytes per second that a codec writes or reads; 0: no time */
    struct sim_overhead overhead;    /* of a message at each end */
    int n_free;                      /* free processors, if nodes share them */
    int first_wanting, last_wanting; /* slots of the queue for processors; -1: empty */
    struct codec_layer *layers;      /* (n_layers) */
    int n_layers;
    struct sim_queue queue;
    int *machines; /* (node_count): for each worker the first one on its machine */
    struct sim_wires *wires;
    struct mesh_sim *net;
    struct sim_cuts cuts;
    struct sim_straggler straggler;
    float *model;                  /* (n_params): for sim_model_of */
    struct sim_records *records;   /* NULL: none are kept */
    struct stopwatch *guard;       /* switched with each node's; NULL: calls of the codec have no limit */
    struct sim_explorer *explorer; /* NULL: events are ordered by time */
    struct sim_progress progress;
    int n_nodes;
    struct sim_node *nodes; /* (n_nodes), by slot: workers, then servers */
    int cause;              /* slot of the first that failed; -1: none */
    int *waking, n_waking;  /* (n_nodes): slots to notify of room in a queue */
    struct err why;         /* of a node that is failing */
};

/* `set` and `how` are copied. `guard`: the process's watch (guard.h), borrowed, or NULL.
 * Opens codec.so, and server_codec.so if the settings name another codec, in `folder`; for a network also the
 * model and data there (workload_network.c). */
int sim_open(struct sim *s, const struct settings *set, const struct simulation *how, const char *folder,
             struct stopwatch *guard, struct err *e);
/* Runs until every node has ended. Returns 0 even if nodes failed; an error is one of the simulator,
 * ERR_CANCELLED: a signal.
 *
 * All nodes that have not ended fail with ERR_TIMEOUT if no event is left, or if the job is stalled: since a
 * worker last went on (a wait ended, a block or an evaluation was computed), more events happened than a rule
 * needs, which are
 *
 *     100,000 n (1 + t) + 100 n^2 (1 + b / 256 KiB)
 *
 * of n nodes, with b bytes of parameters, in t seconds in which a worker computes. */
int sim_run(struct sim *s, struct err *e);
void sim_close(struct sim *s);

/* Resets all nodes to the state before sim_run(), for a search or a check of a codec. */
int sim_restart(struct sim *s, struct err *e);
/* Part of sim_run(): every node begins its part of the job. */
int sim_begin(struct sim *s, struct err *e);
/* Sends all nodes that still wait after the last event the good-byes that they have not got (mesh_sim.h).
 * Returns how many, or a code. */
int sim_tell_waiting(struct sim *s, struct err *e);
/* Fails all nodes that still wait after the last event. */
void sim_end_hanging(struct sim *s);

extern atomic_bool sim_interrupted; /* set by a signal */

/* Whether every node succeeded, except killed ones if the job may continue without them. */
bool sim_has_succeeded(const struct sim *s);
double sim_time(const struct sim *s); /* end of the last node */
/* The model that a worker's rule trains (n_params), valid until the next call. */
const float *sim_model_of(const struct sim *s, const struct sim_node *n);
/* The digest of that model that a node of a job reports: weights_sha256(). False: no memory. */
bool sim_weights_sha256(uint8_t out[SHA256_BYTES], const struct sim *s, const struct sim_node *n);
/* Whether all workers that are done have the same, and whether all their parameters are finite. */
bool sim_models_agree(const struct sim *s);
bool sim_models_are_finite(const struct sim *s);

/* The rest is internal to the simulator. */

/* costs.c: in the form of --step-time, returning the mean, and of --overhead. */
double sim_steps_text(char *out, size_t size, const struct sim_steps *t);
void sim_overhead_text(char *out, size_t size, const struct sim_overhead *o);
/* costs.c: sets steps, eval_time_s, codec_rate and overhead, from the options or by measuring. */
int sim_find_costs(struct sim *s, struct err *e);

/* processors.c: a node needs a processor to compute. It takes one (false: none is free, the node is woken
 * when it gets one), leaves it when it waits, and yields it to all queued nodes between two blocks. */
void sim_processors_init(struct sim *s);
bool sim_processor_take(struct sim *s, struct sim_node *n);
int sim_processor_leave(struct sim *s, struct sim_node *n, struct err *e);
int sim_processor_yield(struct sim *s, struct sim_node *n, struct err *e);
bool sim_processor_is_wanted(const struct sim *s);

/* records.c: a simulation's CSV files, which are those of a job, with the rows of all nodes in the order of
 * simulated time, and one more column. All times are simulated; sim_time_s is the time since the simulation
 * began. sim_records_open() makes records/train.csv, eval.csv and comm.csv in the current folder. */
int sim_records_open(struct sim_records **out, struct err *e);
/* Writes buffered rows and frees *r, also on failure. */
int sim_records_close(struct sim_records *r, struct err *e);
int sim_record_step(struct sim_records *r, const struct record_train *job, struct err *e);
int sim_record_evaluation(struct sim_records *r, const struct sim_node *n, struct err *e);
/* Records a completed round, if there is one. */
int sim_record_comm(struct sim_records *r, const struct sim *s, const struct sim_node *n, struct err *e);
/* Records a row of codec.csv, which is created at the first one. */
int sim_record_codec(struct sim_records *r, const struct sim_node *n, const struct codec *c, const char *name,
                     double value, struct err *e);

/* Records the rows of metrics.csv that a program has logged in the last step. */
int sim_record_metrics(struct sim_records *r, const struct sim_node *n, const struct workload *load,
                       struct err *e);

/* explore.c: the carry callback of the simulated mesh while every order is tried. */
int sim_explorer_keep(struct sim_explorer *x, struct sim_message *m, struct err *e);

/* sim_node.c: begins its part of the job, now. */
int sim_node_begin(struct sim *s, struct sim_node *n, struct err *e);
/* Runs the node as far as possible. A node's failure is stored in the node; an error is one of the
 * simulator. */
int sim_node_drive(struct sim *s, struct sim_node *n, struct err *e);
/* Adds the time of sending, or of receiving, a message. */
void sim_node_sent(struct sim *s, struct sim_node *n, const struct sim_message *m);
void sim_node_took(struct sim *s, struct sim_node *n, const struct sim_message *m);
/* Makes it busy until that time. */
int sim_node_keep_busy(struct sim *s, struct sim_node *n, double until, struct err *e);
/* Ends it like a failed process: its peers lose it. */
void sim_node_fail(struct sim *s, struct sim_node *n, const struct err *why);

#endif
