/* submit_options -- the command line. One table (options_table.c) defines parsing, --help, the echo at the
 * start and the options in run.json (options_record.c), where a resumed job finds them. */
#ifndef PSGD_SUBMIT_SUBMIT_OPTIONS_H
#define PSGD_SUBMIT_SUBMIT_OPTIONS_H

#include <jansson.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "shared/base/args.h"
#include "shared/base/err.h"
#include "shared/job/settings.h"
#include "shared/job/simulation.h"

/* The verbs that take an option, as bits; an enum would have room for 31. */
#define FOR_SUBMIT   (UINT64_C(1) << 0)
#define FOR_LIST     (UINT64_C(1) << 1)
#define FOR_STATUS   (UINT64_C(1) << 2)
#define FOR_WAIT     (UINT64_C(1) << 3)
#define FOR_LOGS     (UINT64_C(1) << 4)
#define FOR_CANCEL   (UINT64_C(1) << 5)
#define FOR_FETCH    (UINT64_C(1) << 6)
#define FOR_DATA     (UINT64_C(1) << 7)
#define FOR_MODEL    (UINT64_C(1) << 8)
#define FOR_CODECS   (UINT64_C(1) << 9)
#define FOR_SIMULATE (UINT64_C(1) << 10)
#define FOR_JOIN     (UINT64_C(1) << 11)
#define FOR_DOCTOR   (UINT64_C(1) << 12)
#define FOR_WHY      (UINT64_C(1) << 13)
#define FOR_RERUN    (UINT64_C(1) << 14)
#define FOR_JOINED   (UINT64_C(1) << 15)
#define FOR_PREDICT  (UINT64_C(1) << 16)
#define FOR_LAUNCH   (UINT64_C(1) << 17) /* with FOR_SUBMIT: its own options */
#define FOR_RUN      (UINT64_C(1) << 18)
#define FOR_SNAPSHOT (UINT64_C(1) << 19)
#define FOR_EXPORT   (UINT64_C(1) << 20)
#define FOR_REPORT   (UINT64_C(1) << 21)
#define FOR_BROWSE   (UINT64_C(1) << 22)
#define FOR_COMPARE  (UINT64_C(1) << 23)
#define FOR_QUEUE    (UINT64_C(1) << 24)
#define FOR_SWEEP    (UINT64_C(1) << 25) /* with FOR_SUBMIT and FOR_SIMULATE: its own options */
#define FOR_PLOT     (UINT64_C(1) << 26)
#define FOR_PLAIN    (UINT64_C(1) << 27) /* no options of its own */
#define FOR_PACK     (UINT64_C(1) << 28)
#define FOR_RANKS    (UINT64_C(1) << 29) /* with FOR_PACK: its own options */
#define FOR_SLURM    (UINT64_C(1) << 30) /* with FOR_SUBMIT: of a job without agents, by Slurm */
#define FOR_GENERATE (UINT64_C(1) << 31)
#define FOR_ALL      UINT64_MAX
#define FOR_AGENTS                                                                                           \
    (FOR_SUBMIT | FOR_LIST | FOR_STATUS | FOR_WAIT | FOR_LOGS | FOR_CANCEL | FOR_FETCH | FOR_DOCTOR |        \
     FOR_WHY | FOR_RERUN | FOR_JOINED | FOR_RUN | FOR_SNAPSHOT | FOR_BROWSE | FOR_GENERATE)
#define FOR_JOB (FOR_SUBMIT | FOR_SIMULATE | FOR_PACK) /* those of a job that a simulation also supports */

enum { RETRIES_MAX = 100 };

#define OPTIONS_WORKERS "worker.json" /* --workers, unless it or PSGD_WORKERS names another list */

/* By what job_submit authenticates agents, and agents their user. "": not given. */
struct credentials {
    char token_file[PATH_MAX];
    char ca[PATH_MAX]; /* certificates of CAs: an agent's must be of one of them, with the agent's name */
    char cert[PATH_MAX], key[PATH_MAX]; /* this user's certificate and key, for agents with --client-ca */
    bool insecure_no_tls;               /* where no pin is known, send everything unencrypted */
};

/* How a model of language goes on with a text (nn/generator.h). */
struct generation {
    char prompt[8192];
    int tokens, top_k;
    double temperature, top_p;
    uint64_t seed;
};

struct options {
    struct settings settings; /* set from the command line; the rest are defaults */
    char codec[PATH_MAX], server_codec[PATH_MAX];
    char optimizer[40];
    char model[PATH_MAX];
    char data[PATH_MAX];
    char exec[PATH_MAX];    /* an executor's file: the job runs it instead of training; "": it trains */
    char trainer[PATH_MAX]; /* file or folder of a training program of the user's; "": psgd trains */
    char main[128];         /* the file in that folder that is run; "": main.py */
    char trainer_python[PATH_MAX]; /* interpreter by which it is started here */
    int block_assignment;          /* BLOCKS_IID, BLOCKS_DUP, or 2 for dpa, another name of it */
    char workers[PATH_MAX];        /* "": worker_hosts are given */
    char ps_hosts[PATH_MAX], worker_hosts[PATH_MAX];
    char job_name[8]; /* of launch: ps or worker; "": this is no task of a cluster */
    int task_index;
    double task_timeout_s;
    struct credentials credentials;
    int require_isolation; /* enum isolation; -1: not given */
    int priority;          /* of a job among those that wait in the queue */
    bool has_priority;
    double queue_space_gib; /* of the files of all jobs in the queue */
    bool no_queue, detach, retrieve, image_classification;
    int input;
    uint64_t max_mb, max_tokens; /* mini-batches, and tokens, of all workers; 0: no limit */
    double bandwidth_mbps, agent_timeout_s, timeout_s; /* timeout_s 0: none */
    int retries;                                       /* attempts after the first one */
    char retry_on[256];                                /* list of names: options_retry_on() */
    char output[PATH_MAX], csv_style[16];
    bool is_to_stdout; /* what a verb writes to a file goes to standard output */
    bool tensorboard;
    char mlflow[PATH_MAX]; /* the folder of its file store; "": none */
    bool json, quiet, no_color, help, version;
    int verbose;
    bool follow, connect;
    int port; /* of browse; 0: a free one */
    bool no_open;
    bool all; /* of list */
    int node;
    bool has_node, has_gradient_descent, has_learn_rate, has_momentum, has_weight_decay, has_beta1, has_beta2,
        has_epsilon, has_adamw_rate, has_partition, has_csv_style;
    char plot_x[8], plot_y[64], plot_file[8], log_x[8]; /* of plot */
    char png[PATH_MAX], svg[PATH_MAX];
    int plot_width, plot_height; /* in characters, of a picture in pixels; 0: not given */
    double target;               /* accuracy that the runs are compared by */
    bool has_target;
    char reason[201]; /* an agent's limit */
    char to[PATH_MAX], mirror[512];
    char format[16]; /* target of model convert, of export */
    char split[8];   /* half of the data set that predict takes: train or test */
    struct generation generation;
    char sample_prompt
        [512]; /* of the job: the text that the model goes on with at each evaluation; "": none */
    char trace[PATH_MAX];
    char init_from[PATH_MAX], resume[PATH_MAX];
    struct simulation simulation;
    char measured[PATH_MAX]; /* of a simulation: the file of measured times; "": none */
    int servers;             /* parameter servers of a simulation, or of a job without agents */
    char kubernetes[256];    /* of pack: the image in which pods of Kubernetes run the job; "": not there */
    char volume[PATH_MAX];   /* ... and its volume: "CLAIM", "CLAIM/PATH" in it, or "/PATH" of all nodes */
    char name_space[64];     /* ... "": kubectl's */
    int pod_memory_gib;      /* ... 0: no limit */
    char slurm[1024];        /* options of sbatch, by which the job is submitted; "": on agents */
    int program_fd;          /* of run-ranks: the socket of --trainer, which runs already; 0: none */
    int rank, size;          /* of run-ranks; -1: by the launcher's variables */
    char host[256];          /* of run-ranks: at which the other nodes reach this one */
    int steps;               /* of a simulation: steps of an epoch with stand-in gradients */
    char check[16];          /* codec test: only this check, ... */
    uint64_t part;           /* ... and only the part of it with this seed; 0: all */
    uint64_t mutations;      /* number of mutated messages */
    bool has_mutations;
    char config[PATH_MAX];
    const char *tags[ARGS_OPERANDS + 1]; /* as sets */
    char note[256];
    bool simulate; /* of sweep */
    int repeat;
    int budget;        /* combinations that are drawn at random; 0: all are run */
    char parallel[12]; /* of a sweep: runs at once, N or auto; "": one */
    char search[12];   /* of a sweep; "": random with a budget, else grid */
    char best_of[256]; /* "KEY,KEY": options of which a sweep shows the best value only; "": none */
    const char *sets[ARGS_OPERANDS + 1]; /* KEY=VALUE; point into argv; ends with NULL */
    char trainer_sha256[65];             /* of its package in the job that is repeated or resumed; "": none */
    char rerun_of[48];                   /* the job that is submitted again; "": none */
    bool all_are_workers;                /* also the servers and spares of the list: doctor's test job */
    const struct preset *preset;         /* that --codec named, which is replaced; NULL: none */
    struct args_found args;              /* the options that were given, and the operands */
    json_t *document; /* of --config or --resume, into which items of lists and operands point; NULL: none */
};

/* argv[0] is the verb and is skipped; the strings stay owned by argv (shared/base/args.h). With --resume, the
 * options and worker list in the earlier job's run.json replace the defaults; with --config those of a file.
 * --set KEY=VALUE is the same as --KEY=VALUE. ERR_USAGE; ERR_CONFIG: run.json or the file is invalid;
 * ERR_NOT_FOUND: one of them, or a file it names, does not exist. */
int options_parse(struct options *o, uint64_t verb, int argc, char **argv, struct err *e);
/* Is the argument one of the flags that every verb takes and that only change what is printed, as --json, or
 * several short ones, as -qv? */
bool options_is_message_flag(const char *arg);
/* Frees the memory of options that options_parse() has filled, also after an error. A copy of the struct
 * shares that memory, and is not cleared. */
void options_clear(struct options *o);

/* The options of a job that is submitted again: those of its run.json, or of its record in the index, changed
 * by --set, and those given beside it. `folder`: its results, which may have the source of its codec.
 * ERR_USAGE: --set names no option of a job; ERR_NOT_FOUND: a file of the job is gone. */
int options_rerun(struct options *o, const struct options *given, const json_t *doc, const char *folder,
                  struct err *e);

/* Sets the options of `verb` that describe a job to what its run.json records (`texts`), except those that
 * are given. A data set of another kind than the job's is not read from the job's --data. ERR_NOT_FOUND: a
 * file is gone. */
int options_take_of_job(struct options *o, uint64_t verb, const json_t *texts, struct err *e);

/* Sets the options of `verb` to what a record of a job has of them (options_json()); those of the job itself
 * only with `has_job`. Files that they name need not be there: some are written when the job has ended. */
int options_take_record(struct options *o, uint64_t verb, const json_t *texts, bool has_job, struct err *e);

/* Was the option that sets the member at `offset` given, with another value than its default, on this command
 * line or in the run.json of a job that is submitted again? Options of a preset (presets.h), and those that a
 * resumed job takes from the earlier one, were not. */
bool options_is_chosen(const struct options *o, size_t offset);
void options_name(char out[ARGS_NAME], size_t offset); /* the name of that option */

/* The name of the file that a verb writes, for messages. */
const char *options_output(const struct options *o);

/* Does --retry-on name this reason of a failure (shared/job/reason.h)? Only reasons that another attempt may
 * not meet have a name there: an error of a codec or of a setting fails each attempt. */
bool options_retry_on(const struct options *o, const char *reason);

/* Turns an error of a setting, "/block_ratio: text" as shared/job/settings.h has it, into one of its option,
 * "--block-ratio: text"; that of a setting without an option becomes "settings: /KEY: text". Returns
 * e->code. */
int options_setting_error(struct err *e);

/* The part of --help that lists the options of a verb. */
void options_help(FILE *f, uint64_t verb);

/* All options of a job as an object of strings, for run.json, with absolute paths. */
json_t *options_json(const struct options *o);
/* Removes the lists of agents from these texts: those of a job without agents. */
void options_drop_lists(json_t *texts);

/* Prints the options of a job that were given with another value than the default, "--name=value" each, with
 * console_more. */
void options_echo(const struct options *o);
/* If --codec names a preset, prints the options that it stands for. */
void options_echo_preset(const struct options *o);

#endif
