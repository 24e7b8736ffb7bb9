/* sweep_plan -- the runs of a sweep: the product of the values of each --set, times --repeat seeds. */
#ifndef PSGD_SUBMIT_SWEEP_PLAN_H
#define PSGD_SUBMIT_SWEEP_PLAN_H

#include <stddef.h>

#include "submit/options/submit_options.h"

#define SWEEP_GRID    "grid"
#define SWEEP_RANDOM  "random"
#define SWEEP_HALVING "halving"

enum { SWEEP_AXES = 24, SWEEP_RUNS = 10000, SWEEP_NAME = 224 };
enum { SWEEP_RUNGS = 14 }; /* of successive halving: log2(SWEEP_RUNS) */
enum { SWEEP_LANES = 64 }; /* runs at once */

struct sweep_axis {
    char *key;
    char **values; /* (n) */
    size_t n;
};

struct sweep_plan {
    struct sweep_axis *axes; /* (n_axes), in the order of --set */
    size_t n_axes;
    size_t n_combinations; /* the last axis varies first */
    size_t *drawn;         /* (n_combinations), ascending: those of the product; NULL: all */
    size_t n_repeats;      /* of each, with the seeds first_seed, first_seed + 1, ... */
    uint64_t first_seed;
    bool has_seeds;           /* false: runs keep the seed of the options */
    size_t n_rungs;           /* 1: each run is as long as the options say; more: of successive halving */
    int lengths[SWEEP_RUNGS]; /* (n_rungs) of a run, in epochs or steps, by sweep_halve() */
    bool is_in_steps;
};

/* One run. */
struct sweep_run {
    size_t combination, repeat, rung;
};

/* From the texts KEY=VALUE,VALUE,... or KEY=["VALUE", ...], a JSON array, for values that contain commas.
 * ERR_USAGE: a text is neither, a key is there twice, or there are more than SWEEP_AXES keys or
 * SWEEP_RUNS runs. */
int sweep_plan_make(struct sweep_plan *p, const char *const *sets, int repeat, uint64_t first_seed,
                    struct err *e);
/* Keeps `budget` combinations, drawn at random by the seed, or all if there are no more. A larger budget
 * keeps those of a smaller one, too. ERR_NOMEM. */
int sweep_plan_draw(struct sweep_plan *p, size_t budget, uint64_t seed, struct err *e);
void sweep_plan_clear(struct sweep_plan *p); /* also of {0} */

/* For successive halving: sets the rungs so that the last one has the length `length`, and each one before it
 * half the length of the next, rounded up. Their number is that after which one of `n` combinations is left,
 * which is the size of the largest group, log2(n) rounded up. `is_in_steps`: a length is a number of steps,
 * else of epochs. ERR_USAGE: `length` is too short for so many rungs. */
int sweep_halve(struct sweep_plan *p, size_t n, int length, bool is_in_steps, struct err *e);
/* The option that sets the length of a run: "epochs" or "max-steps". */
const char *sweep_length_option(const struct sweep_plan *p);
const char *sweep_length_name(const struct sweep_plan *p); /* "epochs" or "steps" */
/* True if the run is shorter than the options say, because others of its rung may be better. */
bool sweep_is_short(const struct sweep_plan *p, const struct sweep_run *run);

/* The place of a combination in the product of all values. */
size_t sweep_place(const struct sweep_plan *p, size_t combination);
/* The group of a combination: the place of the one that has the first value of each searched option.
 * `is_searched`: (n_axes). */
size_t sweep_group(const struct sweep_plan *p, const bool *is_searched, size_t combination);
/* The value of an axis in a combination, 0 .. n_combinations-1. */
const char *sweep_value(const struct sweep_plan *p, size_t combination, size_t axis);

/* The name of the folder of a run: "codec=fedavg:every=20_learn_rate=0.1_seed=2". A path is reduced to its
 * last part, and a character that a file name should not contain is replaced; a value that is not there in
 * full is followed by its checksum: "codec=mine.c~3c47d771_seed=1". The name does not depend on other values
 * of the sweep. Behind that of a short run is its length: "learn_rate=0.1_seed=2_epochs=1". */
void sweep_name(char out[SWEEP_NAME], const struct sweep_plan *p, const struct sweep_run *run);

/* The name of the run's job, of the characters that such a name may have, cut to `size`:
 * "codec-fedavg-every-20_learn_rate-0.1_seed-2". */
void sweep_job_name(char *out, size_t size, const struct sweep_plan *p, const struct sweep_run *run);

/* "codec=fedavg, learn_rate=0.1", cut where it is too long. */
void sweep_values_text(char *out, size_t size, const struct sweep_plan *p, size_t combination);

#endif
