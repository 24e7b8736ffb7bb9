/* check -- tests a codec against its contract (codecs/codec.h): each check runs whole jobs of a few nodes
 * in simulated time, with the codec's calls watched (watch.h).
 *
 * A check is a function that returns 0 if the codec passes, CHECK_IS_NOT_FOR_IT with the reason in *e if it
 * does not apply to this codec, ERR_CODEC with the violation, or the code of an error of the check itself. */
#ifndef PSGD_CONFORM_CHECK_H
#define PSGD_CONFORM_CHECK_H

#include "conform/watch.h"
#include "shared/plugin/codec_checks.h"
#include "sim/sim.h"

enum {
    CHECK_IS_NOT_FOR_IT = 1,
    CHECK_PARAMS = 101,
    CHECK_WORKERS = 5,
    CHECK_NODES = 6, /* most workers and servers of one job */
    CHECK_STEPS = 12
};
#define CHECK_LEARN_RATE 0.125 /* a power of 2: a step has only one rounding */

struct conform_check {
    const char *folder;  /* of codec.so */
    const char *options; /* the codec's parameters */
    int every;           /* local steps; 0: the check's choice */
    uint64_t seed;       /* runs only this part of the check, codec_check_page.seed; 0: all parts */
    uint64_t n_parts;    /* of a check with numbered parts: their number in the largest job */
    uint64_t n_mutations;
    struct codec_check_page *page;
    const struct codec_plugin *plugin; /* the codec's own */
    struct settings set;
    struct simulation how;
    struct sim sim;
};

typedef int check_body(struct conform_check *k, struct err *e);

/* The jobs that a check runs. */
enum check_sync {
    CHECK_SSGD,   /* it tests a property that only ssgd has */
    CHECK_EITHER, /* in ssgd, or in asgd if the codec does not support ssgd */
    CHECK_BOTH    /* in all modes that the codec supports */
};

/* Runs `body` in each such job that the codec supports, without and with servers; k->sim is open. */
int check_jobs(struct conform_check *k, uint64_t n_steps, enum check_sync in, check_body *body,
               struct err *e);

/* Whether the open job combines contributions by their mean: formulas and convergence are checked only
 * then. */
bool check_is_of_mean(const struct conform_check *k);

/* Runs the open job from its beginning, with messages and steps timed by this seed. ERR_CODEC: the codec
 * refuses the present `set` or `how`. */
int check_run(struct conform_check *k, uint64_t timing, struct err *e);
/* Checks that all nodes ended without an error. ERR_CODEC: the message has the first node that did not, and
 * its error. */
int check_ended(const struct conform_check *k, struct err *e);
/* Called with each gradient before the codec gets it; NULL: none. */
typedef void check_gradient(void *owner, const struct workload_batch *b, const float *params,
                            const float *grads);
void check_receives_gradients(struct conform_check *k, check_gradient *receive, void *owner);

/* Named as in codec_checks. */
check_body check_ends, check_timing, check_equal, check_result, check_cost, check_converges, check_malformed,
    check_memory, check_restore, check_loss;

#endif
