/* check -- holds a codec against its contract (codecs/codec.h): each check runs whole jobs of a few nodes in
 * simulated time, with the codec behind a watch (watch.h).
 *
 * A check is a function that returns 0 where the codec passes, CHECK_IS_NOT_FOR_IT with the reason in *e
 * where it says nothing about this codec, ERR_CODEC with what is wrong, or the code of an error of its
 * own. */
#ifndef PSGD_SIM_CHECK_H
#define PSGD_SIM_CHECK_H

#include "shared/codec_check.h"
#include "sim/sim.h"
#include "sim/watch.h"

enum {
    CHECK_IS_NOT_FOR_IT = 1,
    CHECK_PARAMS = 101,
    CHECK_WORKERS = 5,
    CHECK_NODES = 6, /* workers and servers of one job, at most */
    CHECK_STEPS = 12
};
#define CHECK_LEARN_RATE 0.125 /* a power of 2: a step is exact but for one rounding */

struct check {
    const char *folder;  /* that holds codec.so */
    const char *options; /* the codec's parameters */
    int every;           /* local steps; 0: the check's choice */
    uint64_t seed;       /* the only part of a check that is to be run, as the page has named it; 0: all */
    uint64_t n_parts;    /* a check that numbers its parts: so many are there in the largest job */
    uint64_t n_mutations;
    struct codec_check_page *page;
    const struct codec_plugin *plugin; /* the codec's own */
    struct settings set;
    struct simulation how;
    struct sim sim;
};

typedef int check_body(struct check *k, struct err *e);

/* In which jobs a check looks. */
enum check_sync {
    CHECK_SSGD,   /* what it asks is promised of ssgd alone */
    CHECK_EITHER, /* in ssgd, or in asgd where the codec has nothing else */
    CHECK_BOTH    /* in all that the codec has */
};

/* Runs `body` in each such job that the codec can be at work in: workers alone and with servers. `body` finds
 * k->sim open. */
int check_jobs(struct check *k, uint64_t n_steps, enum check_sync in, check_body *body, struct err *e);

/* Runs the open job from its beginning, with messages and steps timed by this seed, and no more than that.
 * ERR_CODEC: the codec refuses what `set` or `how` now say. */
int check_run(struct check *k, uint64_t timing, struct err *e);
/* Have all nodes ended well? ERR_CODEC: names the first that did not, and why. */
int check_ended(const struct check *k, struct err *e);
/* Is called with each gradient, before the codec has it; NULL: nobody is. */
typedef void check_gradient(void *owner, const struct trainer_batch *b, const float *params,
                            const float *grads);
void check_receives_gradients(struct check *k, check_gradient *receive, void *owner);

/* By the names of codec_checks. */
check_body check_ends, check_timing, check_result, check_cost, check_converges, check_malformed, check_memory,
    check_restore, check_loss;

#endif
