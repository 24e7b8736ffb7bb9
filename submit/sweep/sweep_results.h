/* sweep_results -- the results of a sweep: mean and deviation of each combination over its runs, and the best
 * combination of each group. A group is the combinations that differ only in the options of --best-of;
 * without it each combination is a group, and of successive halving all are one. */
#ifndef PSGD_SUBMIT_SWEEP_RESULTS_H
#define PSGD_SUBMIT_SWEEP_RESULTS_H

#include "submit/results/compare.h"
#include "submit/sweep/sweep.h"

/* One result over the runs of a combination that have it. */
struct sweep_mean {
    size_t n;
    double mean, deviation; /* NAN without enough runs: 1, and 2 for the deviation, which divides by n - 1 */
};

struct sweep_mean sweep_mean_of(const double *values, size_t n); /* ignores values that are NAN */

/* A combination in a rung of successive halving, when the rung ended. */
struct sweep_rung {
    struct sweep_mean accuracy, bytes_to_target;
    size_t n_reached;
    size_t n_resumed; /* runs that went on from a checkpoint */
    size_t place, of; /* in the order of its group, from 1 */
    bool goes_on;     /* to the next rung */
};

struct sweep_row {
    size_t combination, group;
    struct sweep_rung rungs[SWEEP_RUNGS]; /* (n_rungs): those that it took part in */
    size_t n_rungs;
    bool is_member; /* of the next rung */
    size_t n_runs;
    size_t n_failed; /* runs that have not succeeded; they are in no mean */
    size_t n_diverged;
    size_t n_reached; /* the target */
    size_t n_resumed;
    struct sweep_mean of[N_COMPARE_RESULTS]; /* of the runs of its last rung */
    bool is_best;                            /* of its group */
};

struct sweep_results {
    struct sweep_row *rows; /* (n_rows): of each combination */
    size_t n_rows, n_groups;
    size_t *best; /* (n_groups): the best row of each group, those that reach the target cheapest first */
    bool *is_searched; /* (n_axes): an option of --best-of */
    double target;     /* an accuracy; NAN: none */
    bool target_is_given;
};

/* Sets is_searched, (n_axes), of the options that --best-of names; without it none, but of successive halving
 * all. ERR_USAGE: the sweep does not vary such an option, or it is the seed, over which the means are
 * taken. */
int sweep_find_searched(bool *is_searched, const struct sweep_plan *p, const struct options *o,
                        struct err *e);
/* The number of combinations in the largest group. */
size_t sweep_largest_group(const struct sweep_plan *p, const bool *is_searched);

/* Chooses the best row of each group, of those that took part in most rungs, and their order. If the target
 * was given, the best combination is that of which most runs reach the target; among equal ones that which
 * needs the fewest bytes, then the fewest steps. If these are equal, too, or no target was given, it is that
 * of the highest mean accuracy, then of the lowest mean loss; one with diverged runs is behind those with
 * fewer. ERR_NOMEM. */
int sweep_choose_best(struct sweep_results *r, struct err *e);

/* Gives each member of the last rung its place in the order of sweep_choose_best(), and keeps as members of
 * the next one the better half of each group, rounded down, but one at least, without those of which no run
 * has succeeded. With `is_last` all stay. */
void sweep_choose_members(struct sweep_results *r, bool is_last);

/* Reads the results of the first `n_rungs` rungs. The target is that of --target, else that of
 * --target-accuracy, else the highest accuracy that all runs reached of the best combinations which have not
 * diverged. */
int sweep_results_read(struct sweep_results *r, const struct sweep *s, size_t n_rungs, struct err *e);
void sweep_results_clear(struct sweep_results *r); /* also of {0} */

#endif
