/* trainer_describe -- starts a training program on this machine, before it is sent anywhere, and asks it for
 * its tensors, their values and the number of its batches; it is then ended before its first step. So a
 * program that fails, fails at once and with its own last lines, all nodes start from the same values, and
 * servers need no program. A program that runs already, because a launcher has started it, is asked over its
 * socket, and then goes on. */
#ifndef PSGD_SUBMIT_TRAINER_DESCRIBE_H
#define PSGD_SUBMIT_TRAINER_DESCRIBE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "shared/job/model_spec.h"
#include "shared/job/settings.h"
#include "shared/trainer/trainer_package.h"

struct describe_how {
    int program_fd;     /* the socket of a program that runs already, not taken; 0: it is started */
    const char *folder; /* of the unpacked program, whose working directory it becomes */
    const char *temp;   /* a folder for temporary files */
    const struct trainer_main *main;
    const char *python;         /* the interpreter of a program in Python */
    const struct settings *set; /* of the job: arguments, partition, seed, nodes */
    bool is_simulated;          /* the program must be a function of a client */
    uint32_t flags;             /* TRAINER_TAKES_GRADIENTS, TRAINER_IS_RESUMED: as in the job */
    double deadline;            /* clock_now; 0: none */
    double timeout_s;           /* of --timeout, for its message */
};

struct trainer_description {
    json_t *model;          /* the document (shared/job/model_spec.h). Owned */
    struct model_spec spec; /* the same, parsed */
    float *values;          /* (spec.n_params). Owned */
    uint64_t n_batches;     /* of an epoch; 0: the program has not said */
    bool is_function;       /* it has no loop of its own */
    bool gives_gradients;   /* and it makes no updates: psgd divides its rows into batches */
};

/* ERR_TRAINER: the program cannot be started, fails, ends without psgd's calls, or breaks their rules; its
 * last lines are printed. ERR_TIMEOUT, ERR_CANCELLED; ERR_NOMEM. *out is empty then. */
int trainer_describe(struct trainer_description *out, const struct describe_how *how, struct err *e);
void trainer_description_clear(struct trainer_description *d);

#endif
