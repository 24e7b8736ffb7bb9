/* node -- one node of a job: all its state, from its packages to its records. Life cycle: node_prepare (loads
 * the packages), node_connect (after the agent's start), node_train, node_serve, execution->run or
 * training->run, node_finish. */
#ifndef PSGD_NODE_H
#define PSGD_NODE_H

#include <stdbool.h>
#include <stdint.h>

#include "nn/metrics.h"
#include "nn/net.h"
#include "runner/core/step.h"
#include "runner/core/worker.h"
#include "runner/exchange/exchange.h"
#include "runner/lines/orders.h"
#include "runner/lines/report.h"
#include "runner/loader.h"
#include "runner/mesh/tcp/data_key.h"
#include "runner/monitor/monitor.h"
#include "runner/shm/send_pool.h"
#include "runner/shm/shm_group.h"
#include "runner/text_sample.h"
#include "shared/base/flag.h"
#include "shared/job/schedule.h"
#include "shared/job/settings.h"
#include "shared/plugin/codec_load.h"
#include "shared/records/artifacts.h"
#include "shared/records/tensor_file.h"

struct node;

/* What a node with an executor does instead of training: functions of runner/executor/, a folder above this
 * one. runner.c sets them before node_prepare. */
struct node_execution {
    /* Parts of node_prepare, in this order. In the sandbox: load and open_rule. */
    int (*open)(struct node *n, struct err *e);       /* its state and output.txt */
    int (*open_input)(struct node *n, struct err *e); /* its shard and arguments */
    int (*load)(struct node *n, struct err *e);       /* its object */
    int (*open_rule)(struct node *n, struct err *e);  /* the exchange */

    int (*run)(struct node *n, struct err *e);
    void (*report)(const struct node *n); /* its progress, to the agent */
    void (*clear)(struct node *n);        /* frees what `open` made; at any point */
};

/* What a worker does whose steps a user's program computes: functions of runner/trainer/, a folder above this
 * one. runner.c sets them before node_prepare. */
struct node_training {
    /* Parts of node_prepare: before the sandbox, and last. */
    int (*open)(struct node *n, struct err *e);  /* starts the program; the vectors are where it sees them */
    int (*admit)(struct node *n, struct err *e); /* its tensors are the job's, and it stands before a step */

    int (*run)(struct node *n, struct err *e);
    int (*store)(struct node *n, struct err *e); /* WORKER_STORES */
    /* *state (*size): what the program has saved, for a checkpoint; the caller frees it. NULL: nothing. */
    int (*save)(struct node *n, void **state, size_t *size, struct err *e);
    void (*stop)(struct node *n, const struct err *why); /* the node has failed: tells the program */
    /* Waits for the program's end: after node_finish, or after the node's failure has been reported. */
    int (*end)(struct node *n, bool has_failed, struct err *e);
    void (*clear)(struct node *n); /* frees what `open` made; at any point */
};

struct node {
    struct orders_job job;
    int folder_fd; /* the node's folder, which a codec's chdir does not change */
    struct settings set;
    struct blocks blocks;
    struct codec_library codec;
    char codec_sha256[65];
    char *arch;          /* the model's document, kept for the model file */
    char *preprocessing; /* the record of that name, kept for the same; NULL: none */
    struct model_spec *spec;
    size_t *ranges;  /* of the servers: placement_lay_out() */
    struct net *net; /* NULL: the node runs an executor */
    const struct node_execution *execution;
    struct executing *executing; /* NULL: it trains */
    const struct node_training *training;
    struct training_program *program; /* NULL: psgd computes, or it is a server */
    /* (n_program_state) of the checkpoint to resume from, in `start`; NULL: none */
    const void *program_state;
    size_t n_program_state;
    int max_batch; /* of the net: the batch size of evaluation, at least a block's */
    struct schedule schedule;
    struct tensor_file start; /* the checkpoint to resume from */
    struct metrics *metrics;  /* of a worker; a server has none */
    struct loader loader;
    struct text_sample sample;  /* of worker 0 with --sample-prompt */
    struct codec_layer *layers; /* (n_layers) */
    int n_layers;
    struct exchange *exchange;
    struct step step;
    struct worker worker; /* of node_live */
    struct data_key data_key;
    struct mesh *mesh;
    struct mesh_event *kept;                          /* (n_kept) of node_keep_events, at most room_kept */
    size_t n_kept, first_kept, room_kept, bytes_kept; /* those before first_kept are passed on */
    struct shm_group *shm_group;                      /* NULL: workers share no memory for collectives */
    struct send_pool *send_pool;                      /* NULL: nodes share no memory for messages */
    float *model;  /* (n_params): the copy of node_take_model; NULL: the rule's model is params */
    int *machines; /* (node_count): for each worker the first one on its machine */
    int *peers;    /* (n_peers): the nodes to which this one is connected */
    size_t n_peers;
    struct record_file records[N_RECORD_FILES]; /* by artifact_id; fd -1: not written, or not yet */
    struct tracer *tracer;                      /* NULL: no trace was requested */
    struct report *report;
    struct monitor *monitor;  /* borrowed */
    struct tcp_dialer dialer; /* the monitor's */
    struct shm_source shm_source;
    bool is_held_up;       /* a wait has lasted long enough to be reported (stall_period): node_waits_for() */
    double started;        /* clock_now when training began */
    bool has_asked_to_end; /* for a checkpoint, after SIGTERM */
    uint64_t kept_before;  /* save_vote_kept() then */
    double snapshot_at;    /* clock_now before which node_snapshot writes no model */
    int epoch;             /* the present one, from 1; 0: none yet */
    double best;           /* of the evaluations so far: accuracy, or with targets minus the loss */
    uint64_t first_step;   /* done before: of the checkpoint from which it resumes, or 0 */
    uint64_t first_round;  /* closed before training began: of a checkpoint, or 0 */
};

/* Fraction of --round-timeout after which a hanging codec ends its node, and a server drops a silent worker.
 * Below 1, so that peers do not time out first. */
extern const double node_codec_share;

/* Set by SIGTERM: the node stops, after node_heed_signals. */
extern atomic_bool node_interrupted;

/* The plug-in that the node loads: on a server the codec for servers, if the job has one. */
const char *node_codec_name(const struct node *n);

/* Loads ../packages. On failure *reason is the reason code for the package concerned; NULL: e->code says
 * it. */
int node_prepare(struct node *n, const char **reason, struct err *e);
/* Parts of node_prepare. First the codec's object is copied into memory, and compiled here if need be; when
 * all files are open, the process enters the sandbox and reports its level; then the codec is loaded. */
int node_copy_codec(struct node *n, struct err *e);
int node_enter_sandbox(struct node *n, struct err *e);
int node_load_codec(struct node *n, struct err *e);
/* Part of node_prepare, after settings, codec, model and data are loaded: opens the exchange and the step. */
int node_open_exchange(struct node *n, struct err *e);
/* Connects to the peers; takes the listening socket. */
int node_connect(struct node *n, const struct orders_start *start, int listen_fd, struct err *e);
int node_train(struct node *n, struct err *e); /* the part of a worker that trains psgd's network */
int node_serve(struct node *n, struct err *e); /* a server's */
/* After the last step: writes the model and sends BYE to the peers. */
int node_finish(struct node *n, struct err *e);
void node_clear(struct node *n); /* at any point; does not notify the peers */

/* For train.c and serve.c: drives the node's worker to its end, and writes checkpoints. doing: the functions
 * for the worker's other requests; NULL: nothing is done. */
typedef int node_does(void *owner, const struct worker_request *request, struct err *e);
int node_live(struct node *n, node_does *const doing[N_WORKER_WANTS], void *owner, struct err *e);
/* What computes on a worker; all but `update` is needed. */
enum { NODE_NOT_EVALUATED = 1 };
struct node_work {
    node_does *compute; /* WORKER_COMPUTES */
    node_does *update;  /* WORKER_UPDATES */
    /* The loss of the model that node_take_model has copied, on data that is not trained with, and its
     * accuracy, NAN: none. Returns 0, NODE_NOT_EVALUATED, or a code. */
    int (*evaluate)(void *owner, double *loss, double *accuracy, struct err *e);
};
/* A worker's part, with the rest that all workers have in common: waits, records, models, checkpoints. */
int node_train_by(struct node *n, const struct node_work *work, void *owner, struct err *e);
/* Waits for one mesh event until `deadline`, at most a second, or takes one that is kept, and passes it to
 * the worker, or with an executor to the exchange. *came: whether there was an event. A code: the event has
 * ended this node's part. */
int node_pump(struct node *n, double deadline, bool *came, struct err *e);
/* While another process uses params: receives what has arrived, so that no peer waits for this node to read,
 * and keeps it for node_pump. *is_full: so much is kept that no more is received. ERR_LOST, ERR_TIMEOUT:
 * exchange_on_kept. ERR_NOMEM. */
int node_keep_events(struct node *n, bool *is_full, struct err *e);
void node_drop_kept(struct node *n); /* before the mesh is closed */
/* Processes received messages without waiting, a limited number of each peer. */
int node_receive(struct node *n, struct err *e);
/* Call between blocks, steps and test batches: processes received messages, so that no peer waits for this
 * node to read, and waits while exchange_must_wait. ERR_TIMEOUT: for too long. */
int node_catch_up(struct node *n, struct err *e);
/* A wait for a peer: reports to the peers and the agent which node this node waits for, and ends the job
 * after --round-timeout, with the node that holds it up as the reason (exchange/stall.h). Until the first
 * round of a job with a training program is closed, it is 10 minutes at least: a program's first step may
 * load libraries and compile. */
struct node_wait {
    double deadline, report_at; /* clock_now */
};
void node_wait_begin(struct node_wait *w, const struct node *n, double now); /* or restarts it */
double node_wait_until(const struct node_wait *w);                           /* for node_pump */
/* After node_pump. ERR_TIMEOUT: the wait has lasted too long. */
int node_wait_check(struct node_wait *w, struct node *n, struct err *e);
/* The node that holds up this node, if it has waited for a while; STALL_NO_NODE: none, or it is not known. */
int node_waits_for(const struct node *n);
/* Opens the records that the job requests, and its trace. Part of node_prepare. */
int node_open_records(struct node *n, struct err *e);
/* Adds rows to a file as record_write() does, and creates the file if it is not open. */
int node_record(struct node *n, enum artifact_id a, const void *rows, size_t size, size_t n_rows,
                struct err *e);
int node_flush_records(struct node *n, struct err *e);
int node_sync_records(struct node *n, struct err *e); /* to disk: they survive a power failure */
/* The node's progress until now; a server's steps are its rounds. */
struct report_progress node_progress(const struct node *n);
/* Reports the progress, after all rows about it are in their files. */
int node_report_progress(struct node *n, struct err *e);
void node_close_trace(struct node *n);               /* no effect without a trace */
int node_record_comm(struct node *n, struct err *e); /* rows of comm.csv for each completed round */
/* Writes rows of eval.csv, and of the files for metrics, about the test set that n->metrics has measured;
 * accuracy NAN: there is none. */
int node_record_evaluation(struct node *n, double loss, double accuracy, struct err *e);
/* A row of samples.csv, of n->sample. */
int node_record_sample(struct node *n, struct err *e);
/* A rule's model may be another vector than params: node_take_model copies the present model, node_swap_model
 * swaps the copy with params, and its next call swaps them back. No event may be passed in between. */
void node_take_model(struct node *n);
void node_swap_model(struct node *n);
/* Writes the model last copied. `test_loss` NAN: the file has none. The file is synced at the job's end. */
int node_write_model(struct node *n, const char *name, double test_loss, struct err *e);
/* Handles SIGTERM, and SIGUSR1, which asks for a checkpoint of all nodes (exchange/save_vote.h). */
void node_handle_stop_signals(void);
/* Follows these signals; call between two messages. A node of a job folder whose job writes checkpoints ends
 * by SIGTERM when all nodes have written one more, or after NODE_SAVE_S; another node at once.
 * ERR_CANCELLED: it is to end now. */
enum { NODE_SAVE_S = 20 }; /* Slurm kills 30 s after SIGTERM, unless its KillWait is another */
int node_heed_signals(struct node *n, struct err *e);
/* Does it write a checkpoint before it ends? Known once it is connected. */
bool node_saves_at_end(const struct node *n);
/* Have NODE_SAVE_S passed since SIGTERM? */
bool node_is_late(void);
/* Of an error that has ended the worker: a peer that is lost when the node has written the checkpoint with
 * which it is to end has ended for the same reason. Returns e->code. */
int node_explain_stop(const struct node *n, struct err *e);
/* Handles SIGURG, by which the agent requests the model: line `model` of docs/protocol.md, section 2. Once,
 * in main. (The default action ignores that signal, so that an older runner continues.) */
void node_handle_snapshot_signal(void);
/* Call between two steps of a worker, or two messages of a server: writes the model if it has been requested,
 * at most once a second, and a large model less often. If the model cannot be written, the reason is reported
 * and the job continues. Returns whether a model was requested. */
bool node_snapshot(struct node *n);
/* Changes to the node's folder, which file names are relative to: a codec runs in this process, and may
 * have called chdir. */
int node_enter_folder(const struct node *n, struct err *e);
int node_write_checkpoint(struct node *n, uint64_t step, struct err *e);

#endif
