/* options -- the command line. One table (options.c) gives parsing, --help, the echo at the start and what
 * run.json has of it (options_record.c), where a resumed job finds it. */
#ifndef PSGD_SUBMIT_OPTIONS_H
#define PSGD_SUBMIT_OPTIONS_H

#include <jansson.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "shared/args.h"
#include "shared/err.h"
#include "shared/settings.h"
#include "shared/simulation.h"

/* The verbs that take an option, as bits. */
enum {
    FOR_SUBMIT = 1,
    FOR_LIST = 2,
    FOR_STATUS = 4,
    FOR_WAIT = 8,
    FOR_LOGS = 16,
    FOR_CANCEL = 32,
    FOR_FETCH = 64,
    FOR_DATA = 128,
    FOR_MODEL = 256,
    FOR_CODECS = 512,
    FOR_SIMULATE = 1024,
    FOR_AGENTS = FOR_SUBMIT | FOR_LIST | FOR_STATUS | FOR_WAIT | FOR_LOGS | FOR_CANCEL | FOR_FETCH,
    FOR_ALL = 2047
};

struct options {
    struct settings settings; /* what of it stands on the command line; the rest are defaults */
    char codec[PATH_MAX], server_codec[PATH_MAX];
    char optimizer[24];
    char model[PATH_MAX];
    char data[PATH_MAX];
    char block_assignment[8];
    char workers[PATH_MAX], token_file[PATH_MAX];
    bool no_queue, insecure_no_tls, detach, retrieve, image_classification;
    int input;
    double bandwidth_mbps, agent_timeout_s, timeout_s; /* timeout_s 0: none */
    char output[PATH_MAX], csv_style[8];
    bool json, quiet, no_color, help, version;
    int verbose;
    bool follow;
    int node;
    bool has_node, has_learn_rate, has_momentum, has_weight_decay, has_partition;
    char reason[201]; /* as much as an agent takes */
    char to[PATH_MAX], mirror[512];
    char format[8]; /* that a model is converted to */
    char trace[PATH_MAX];
    char init_from[PATH_MAX], resume[PATH_MAX];
    struct simulation simulation;
    int servers, steps; /* of a simulation: parameter servers, steps of an epoch with stand-in gradients */
    char check[16];     /* of a codec's test: only this one, ... */
    uint64_t part;      /* ... and of it only this part; 0: all */
    uint64_t mutations; /* of messages */
    bool has_mutations;
    struct args_found args; /* what was given, and the words that are no options */
};

/* argv: the verb, which is passed over, and what follows it; the strings stay argv's (shared/args.h). With
 * --resume, what the earlier job's run.json says of the job and of its list of workers takes the place of the
 * defaults. ERR_USAGE; ERR_CONFIG: of that file; ERR_NOT_FOUND: it, or a file it names, is not there. */
int options_parse(struct options *o, unsigned verb, int argc, char **argv, struct err *e);

/* The part of --help that lists the options of a verb. */
void options_help(FILE *f, unsigned verb);

/* Everything a job takes as an object of texts, for run.json. Paths are absolute there. */
json_t *options_json(const struct options *o);

/* The same with console_more, --name <description value>, one a line. */
void options_echo(const struct options *o);

#endif
