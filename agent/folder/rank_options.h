/* rank_options -- the command line of one process of a job folder, `job_runner --job DIR`. */
#ifndef PSGD_RANK_OPTIONS_H
#define PSGD_RANK_OPTIONS_H

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>

#include "shared/base/args.h"
#include "shared/base/err.h"

struct rank_options {
    char job[PATH_MAX];
    int rank, size;   /* -1: by the launcher's variables */
    char host[256];   /* at which the other nodes reach this one; "": its name, or its address */
    char launch[256]; /* "": by the launcher's variables */
    double timeout_s;
    /* The socket of the training program that has started this process (shared/trainer/trainer_wire.h); 0:
     * none, the node starts its program. */
    int program_fd;
    char trainer_python[PATH_MAX];
    int job_memory_gib; /* -1: a fraction of the machine's */
    bool is_collected;  /* what has started this process collects the results, as psgd-run does */
    bool wants_help, wants_version;
    struct args_found found;
};

/* ERR_USAGE. */
int rank_options_parse(struct rank_options *out, int argc, char **argv, struct err *e);
void rank_options_usage(FILE *f);

/* For docs/reference/. */
extern const struct args rank_options_table;
extern const char rank_exit_help[];

#endif
