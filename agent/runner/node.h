/* node -- one node of a job: everything it works with, from its packages to its records, in the order of its
 * life: node_prepare (packages are loaded: ready), node_connect (doCommit), node_train or node_serve,
 * node_finish. */
#ifndef PSGD_NODE_H
#define PSGD_NODE_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/runner/exchange/exchange.h"
#include "agent/runner/loader.h"
#include "agent/runner/orders.h"
#include "agent/runner/report.h"
#include "agent/runner/shm/send_pool.h"
#include "agent/runner/shm/shm_group.h"
#include "nn/metrics.h"
#include "nn/net.h"
#include "nn/optimizer.h"
#include "shared/codec_load.h"
#include "shared/flag.h"
#include "shared/record.h"
#include "shared/schedule.h"
#include "shared/settings.h"

struct node {
    struct orders_job job;
    int folder_fd; /* of the node's files, where a codec cannot move it */
    struct settings set;
    struct blocks blocks;
    struct codec_library codec;
    char codec_sha256[65];
    char *arch; /* the model's document, kept for the model file */
    struct model_spec *spec;
    struct net *net;
    int max_batch; /* of the net: what a pass over the test set takes at once, and not less than a block's */
    struct optimizer *optimizer; /* where parameters are updated: on workers, or with some rules on servers */
    struct schedule schedule;    /* workers only, as the next two */
    struct metrics *metrics;
    struct loader loader;
    struct codec_layer *layers; /* (n_layers) */
    int n_layers;
    struct exchange *exchange;
    struct mesh *mesh;
    struct shm_group *shm_group; /* NULL: workers share no memory for collectives */
    struct send_pool *send_pool; /* NULL: nodes share none for words */
    int *peers;                  /* (n_peers): the nodes this one is linked to */
    size_t n_peers;
    struct record_file train, eval, comm, metric, confusion; /* the last two: where the model asks for them */
    struct record_file rows_of_codec;                        /* codec.csv, from the first row on */
    struct tracer *tracer;                                   /* NULL: nobody asked for a trace */
    struct report *report;
    double started; /* clock_now when training began */
    struct report_progress progress;
    uint64_t samples; /* seen so far */
    double best;      /* of the evaluations so far: accuracy, or with targets minus the loss */
    int first_epoch;  /* from 0; where a checkpoint goes on */
};

/* Set by SIGTERM: stop after the present step. */
extern atomic_bool node_interrupted;

/* Loads what lies in ../packages. On failure *reason says which package it was about. */
int node_prepare(struct node *n, const char **reason, struct err *e);
/* Its part about the codec, whose settings and model are there: the exchange, and the optimizer if it is
 * here. */
int node_open_exchange(struct node *n, struct err *e);
/* The rate of the step before which `step` steps were taken, by the job's schedule. */
double node_learn_rate(const struct node *n, uint64_t step);
/* Links up with the peers; takes the listening socket. */
int node_connect(struct node *n, const struct orders_start *start, int listen_fd, struct err *e);
int node_train(struct node *n, struct err *e); /* a worker's part */
int node_serve(struct node *n, struct err *e); /* a server's */
/* All is done: the model is written, the peers are told good-bye. */
int node_finish(struct node *n, struct err *e);
void node_clear(struct node *n); /* at any point; peers are not told */

/* For train.c and serve.c: feeds one mesh event to the exchange, waiting for it until `deadline` or a second;
 * false in *came when none came. Returns what exchange_on_event does. */
int node_pump(struct node *n, double deadline, bool *came, struct err *e);
/* Hears what has come, without waiting, and no more than some messages of each peer. */
int node_receive(struct node *n, struct err *e);
/* Between blocks, steps and test batches: hears what has come, so that no peer waits for this node to read,
 * and waits itself where it must (exchange_must_wait). ERR_TIMEOUT: for too long. */
int node_catch_up(struct node *n, struct err *e);
/* Those that the job asks for, and its trace. Part of node_prepare. */
int node_open_records(struct node *n, struct err *e);
int node_flush_records(struct node *n, struct err *e);
int node_sync_records(struct node *n, struct err *e); /* to the disk: they outlive the machine's power */
/* A progress line of what was done so far, once all rows about it are in their files. */
int node_report_progress(struct node *n, struct err *e);
void node_close_trace(struct node *n);               /* where there is one */
int node_record_comm(struct node *n, struct err *e); /* rows of comm.csv for each round that is done */
/* Rows of eval.csv, and of the files for metrics, on what n->metrics has seen; accuracy nan: there is
 * none. */
int node_record_evaluation(struct node *n, double loss, double accuracy, struct err *e);
/* `test_loss` nan: it has none in it. The disk is not waited for until the job's end. */
int node_write_model(struct node *n, const char *name, double test_loss, struct err *e);
/* Goes back to the folder that files are named in: a codec is code of this process, and may have called
 * chdir. */
int node_go_home(const struct node *n, struct err *e);
/* Is the end of this epoch (from 1) one of those that are kept? */
bool node_keeps_epoch(const struct node *n, int epoch);
int node_write_checkpoint(struct node *n, int epoch, struct err *e);

#endif
