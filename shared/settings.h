/* settings -- what a job is: one document, made by job_submit, kept by the agent, read by the runner.
 * One table (settings.c) gives reading, writing, limits and the list in run.json. All nodes of a job read the
 * same bytes, so that they agree on seed, blocks and rounds without another word. */
#ifndef PSGD_SETTINGS_H
#define PSGD_SETTINGS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "shared/err.h"

enum {
    NODES_MAX = 4096, /* workers, and servers: the list of them that starts a node has to fit into 1 MiB */
    SIMULATED_NODES_MAX = 10000,
    TIME_LIMIT_MAX_S = 31 * 86400
};

/* The words that a field may have: settings.c reads the document by them, and job_submit its options. */
#define SYNC_CHOICES             "ssgd|asgd"
#define BLOCK_ASSIGNMENT_CHOICES "iid|dup"
#define OPTIMIZER_CHOICES        "sgd|momentum|nesterov|adam|adamw|adagrad|adadelta|rmsprop|gradient_decay"
#define ON_NONFINITE_CHOICES     "stop|skip"
#define MATH_CHOICES             "auto|openblas"
#define ALLREDUCE_CHOICES        "auto|ring|halving-doubling|tree|direct"
#define ON_NODE_LOSS_CHOICES     "abort|continue"
#define LOCAL_PATH_CHOICES       "auto|off"
#define DATA_TLS_CHOICES         "on|off|auto"

struct settings {
    int version;      /* of this document: 1 */
    char name[64];    /* for people: letters, digits, '-', '_', '.' */
    uint64_t seed;    /* decides initial weights, partition and order of samples, the same on all nodes */
    int node_count;   /* workers, nodes 0 .. node_count-1 */
    int server_count; /* parameter servers in use, nodes -2, -3, ...; 0: serverless */
    char codec[64];   /* the workers' codec */
    char server_codec[64]; /* the servers' codec; the same one unless it was chosen apart */
    char codec_options[512], server_codec_options[512]; /* their parameters: shared/codec_options.h */
    char compress[256], compress_down[256]; /* what workers say, what servers say: codecs/compress/chain.h */
    char sync[8];    /* "ssgd": wait for every word of a round, "asgd": take what has arrived */
    int local_steps; /* steps between exchanges, for rules that exchange every so often; 0: once per epoch */
    int epochs;
    int steps_per_epoch;       /* rows of the partition (partition.h); the same for all nodes, servers too */
    int batch_size;            /* of one block; the global batch is batch_size x number of blocks */
    int redundancy;            /* how many workers hold each block */
    char block_assignment[8];  /* "iid": all r-subsets of the workers, "dup": n/r blocks of r holders each */
    char gradient_descent[16]; /* "sgd", "adam", ...: nn/optimizer.h */
    double learn_rate;
    char schedule[64]; /* of the learning rate: shared/schedule.h */
    int warmup_steps;
    double momentum, weight_decay;
    double clip_norm; /* the gradient that the update uses is at most so long; 0: as long as it is */
    char on_nonfinite
        [8];      /* "stop": a loss or gradient that is not finite ends the job; "skip": it is left out */
    bool non_iid; /* short for partition "label_sorted" */
    char partition[32]; /* how samples come to blocks: shared/partition.h */
    char transform[32]; /* what is done to samples: submit/data/transform.h */
    char dataset[256];  /* "NAME:KEY=VALUE,..." */
    char model[64];
    char math[9];           /* "auto": the library that suits a shape; "openblas": no oneDNN */
    int threads;            /* inside a product; the node takes no more than it has processors */
    char allreduce[20];     /* algorithm of codecs that sum over all workers: "auto", "ring", ... */
    int record_every;       /* a row of train.csv each so many steps */
    double round_timeout_s; /* how long a node waits for one word of a round before the job fails */
    char data_tls[5];       /* are links between nodes encrypted? "auto": those that leave a machine */
    double time_limit_s;    /* how long the job may run */
    char on_node_loss[9];   /* "abort": a lost worker ends the job; "continue": the others go on without it */
    char local_path[5];     /* "auto": nodes of one machine talk through shared memory; "off": never */
    int min_nodes;          /* with continue: fewer workers than these end the job */
    bool trace;             /* each node writes down where its time goes: shared/trace_file.h */
    int checkpoint_every;   /* epochs from one checkpoint to the next; 0: none */
    char starts_from[12];   /* "seed": weights drawn from the seed, "weights": those of package weights,
                               "checkpoint": what a node of another job left there */
};

void settings_default(struct settings *s);
/* ERR_CONFIG with the path of what is wrong, also where fields do not fit each other. */
int settings_parse(struct settings *s, const json_t *doc, struct err *e);
json_t *settings_json(const struct settings *s); /* NULL: no memory */
int settings_check(const struct settings *s, struct err *e);
/* May a job with these settings go on where one with the settings `then` was? Length, name, limits and
 * records may differ. ERR_CONFIG: names what may not, and both values. */
int settings_check_resume(const struct settings *s, const json_t *then, struct err *e);

#endif
