/* settings -- the settings of a job: one document, written by job_submit, stored by the agent, read by the
 * runner. One table (settings.c) defines type, range and choices of each, and whether a job that resumes
 * another may change it: for reading, writing, run.json and job_submit's options. All nodes of a job read
 * the same bytes, so that they agree on seed, blocks and rounds without further messages. */
#ifndef PSGD_SETTINGS_H
#define PSGD_SETTINGS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "shared/base/err.h"
#include "shared/job/allreduce_kinds.h"
#include "shared/job/blocks.h"
#include "shared/job/combine_path_kinds.h"
#include "shared/job/data_place.h"
#include "shared/job/optimizer_kind.h"
#include "shared/job/placement.h"
#include "shared/job/transport_kinds.h"

enum {
    NODES_MAX = 4096, /* workers, and servers: the list of them, sent to start a node, must fit 1 MiB */
    SIMULATED_NODES_MAX = 10000,
    TIME_LIMIT_MAX_S = 31 * 86400
};

/* Settings with choices, for the document (settings.c) and for job_submit's options: each list is in the
 * order of its enum. */
#define SYNC_CHOICES "ssgd|asgd"
enum sync { SYNC_SSGD, SYNC_ASGD };

#define FEED_CHOICES "own|shared"
enum feed_kind { FEED_OWN, FEED_SHARED };

#define ON_NONFINITE_CHOICES "stop|skip"
enum on_nonfinite { NONFINITE_STOPS, NONFINITE_SKIPS };

#define MATH_CHOICES "auto|openblas"
enum math { MATH_AUTO, MATH_OPENBLAS };

#define ON_NODE_LOSS_CHOICES "abort|continue"
enum on_node_loss { NODE_LOSS_ABORTS, NODE_LOSS_CONTINUES };

#define LOCAL_PATH_CHOICES "auto|off"
enum use_local_path { LOCAL_PATH_AUTO, LOCAL_PATH_OFF };

#define DATA_TLS_CHOICES "on|off|auto"
enum data_tls { DATA_TLS_ON, DATA_TLS_OFF, DATA_TLS_AUTO };

#define STARTS_FROM_CHOICES "seed|weights|checkpoint"
enum starts_from { STARTS_FROM_SEED, STARTS_FROM_WEIGHTS, STARTS_FROM_CHECKPOINT };

struct json_field;

struct settings {
    int version;           /* of this document: 1 */
    char name[64];         /* for people: letters, digits, '-', '_', '.' */
    uint64_t seed;         /* of initial weights, partition and order of samples, on all nodes */
    int node_count;        /* workers, nodes 0 .. node_count-1 */
    int server_count;      /* parameter servers in use, nodes -2, -3, ...; 0: serverless */
    char codec[64];        /* the workers' codec */
    char server_codec[64]; /* the servers' codec; the workers' unless chosen separately */
    char codec_options[512], server_codec_options[512]; /* their parameters: shared/plugin/codec_options.h */
    /* Of workers' and of servers' messages: codecs/compress/chain_list.h. */
    char compress[2048], compress_down[2048];
    enum sync sync;  /* ssgd: wait for every contribution of a round, asgd: use those that have arrived */
    int local_steps; /* steps between exchanges, for rules with local steps; 0: once per epoch */
    int epochs;
    int max_steps;       /* of each worker; 0: those of all epochs */
    int steps_per_epoch; /* rows of the partition (partition.h); the same for all nodes, servers too */
    int batch_size;      /* samples of one pass */
    int accumulate;      /* passes whose mean gradient is that of a block in a step */
    int redundancy;      /* number of workers that hold each block */
    enum block_assignment block_assignment;
    char block_ratio[256]; /* blocks of each worker: "2,1,1"; "": by the assignment */
    enum feed_kind feed;   /* shared: workers have all samples; the first server assigns mini-batches */
    enum optimizer_kind optimizer; /* gradient_descent in the document */
    double learn_rate;
    char schedule[64]; /* of the learning rate: shared/job/schedule.h */
    int warmup_steps;
    double momentum, weight_decay;
    double beta1, beta2, epsilon; /* of optimizers that have them; else 0 */
    double adamw_rate;            /* muon: learn_rate of the tensors that adamw updates; else 0 */
    enum decay_of decay_of;
    double clip_norm; /* maximum norm of the gradient of an update; 0: no limit */
    /* After a loss or gradient that is not finite: fail, or skip the update. */
    enum on_nonfinite on_nonfinite;
    bool non_iid;       /* short for partition "label_sorted" */
    char partition[32]; /* rule that assigns samples to blocks: shared/job/partition.h */
    char transform[32]; /* of samples: submit/data/transform.h */
    char dataset[256];  /* "NAME:KEY=VALUE,..." */
    /* The file that each node reads where it is, and its fingerprint: data_place.h; "": job_submit sends
     * it. */
    char data_on_agent[DATA_PATH_MAX], data_fingerprint[DATA_FINGERPRINT];
    char model[64];
    enum math math;                      /* auto: the best library for each shape; openblas: no oneDNN */
    int threads;                         /* inside a product; at most the node's processors */
    enum placement placement;            /* which parameter server holds which parameters */
    enum combine_path_kind path;         /* of the contributions of rules that combine */
    char aggregate[24];                  /* in place of their mean: shared/job/aggregate.h */
    enum overlap overlap;                /* number of exchanges by which a combination is delayed */
    double participate;                  /* share of the workers that take part in a round of such a rule */
    enum collective_algorithm allreduce; /* of codecs that sum over all workers */
    int record_every;                    /* steps per row of train.csv */
    double target_accuracy;              /* accuracy on the test set at which the job ends; 0: none */
    int patience;            /* one bad evaluation (exchange/stop_rule.h) more ends the job; 0: none does */
    bool shares_evaluations; /* all nodes get the mean of the workers' evaluations, for their codecs */
    bool divides_test;       /* over the workers: shared/job/test_part.h */
    int eval_every;          /* steps between evaluations within an epoch; 0: at its end only */
    double round_timeout_s;  /* longest wait for one contribution of a round before the job fails */
    enum transport_kind transport; /* of messages between nodes */
    enum data_tls data_tls; /* encryption of links between nodes; auto: of those that leave a machine */
    double time_limit_s;    /* longest duration of the job */
    enum on_node_loss on_node_loss; /* abort: a lost worker ends the job; continue: the others go on */
    enum use_local_path local_path; /* auto: nodes of one machine use shared memory; off: never */
    int min_nodes;                  /* with continue: the job ends with fewer workers */
    bool trace;                     /* each node records a trace of its time: shared/records/trace_file.h */
    int checkpoint_every;           /* epochs from one checkpoint to the next; 0: none */
    int checkpoint_steps;           /* the same in steps; at most one of the two is not 0 */
    bool executor;     /* the job runs the executor `codec`, and trains nothing (codecs/executor.h) */
    char trainer[256]; /* file of the program that trains on each worker (shared/trainer/); "": psgd does */
    char arguments[2048];         /* of the executor, or of the trainer, each followed by a line feed */
    enum starts_from starts_from; /* initial weights: drawn from `seed`, or those of the package weights,
                                   * or the state in a checkpoint of another job's node */
};

/* The field at this offset in struct settings; NULL: none. */
const struct json_field *settings_field(size_t offset);
void settings_default(struct settings *s);
/* Sets the optimizer, and its parameters from beta1 to adamw_rate to its own values. */
void settings_set_optimizer(struct settings *s, enum optimizer_kind kind);
/* ERR_CONFIG with the path of the invalid field, also if fields are inconsistent. */
int settings_parse(struct settings *s, const json_t *doc, struct err *e);
json_t *settings_json(const struct settings *s); /* NULL: no memory */
int settings_check(const struct settings *s, struct err *e);
/* The samples of a block in a step; the global batch has those of all blocks. */
size_t settings_block_samples(const struct settings *s);
/* The steps of each worker in the whole job, if nothing ends it early. */
uint64_t settings_steps(const struct settings *s);
bool settings_has_checkpoints(const struct settings *s);
/* The steps of a worker from one checkpoint to the next; 0: the job writes none. */
uint64_t settings_checkpoint_steps(const struct settings *s);
/* Is a checkpoint written after this step (from 1)? */
bool settings_saves_after(const struct settings *s, uint64_t step);
/* The blocks of a job: in its ratio, or by its assignment. ERR_CONFIG, with the field. */
int settings_blocks(struct blocks *b, const struct settings *s, struct err *e);
/* Checks that a job with these settings can resume one with the settings `then`. ERR_CONFIG: the message has
 * the field that differs, and both values. */
int settings_check_resume(const struct settings *s, const json_t *then, struct err *e);

#endif
