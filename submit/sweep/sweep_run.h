/* sweep_run -- one run of a sweep, by another job_submit: a crash of it ends that run only. */
#ifndef PSGD_SUBMIT_SWEEP_RUN_H
#define PSGD_SUBMIT_SWEEP_RUN_H

#include "submit/sweep/sweep_folder.h"

enum { SWEEP_WHY = 256, SWEEP_ARGUMENTS = 4 * ARGS_MAX };
enum sweep_state { SWEEP_SUCCEEDED, SWEEP_FAILED };

/* The arguments of another job_submit. */
struct sweep_words {
    char *of[SWEEP_ARGUMENTS]; /* ends with NULL */
    size_t n;
    bool has_failed; /* no memory */
};

/* Sets `w` to the command of a run: program, verb and options. */
void sweep_words_of_run(struct sweep_words *w, const struct sweep *s, size_t combination, size_t repeat,
                        const char *folder);
void sweep_words_clear(struct sweep_words *w);

/* Has a run succeeded before, and are all its results there? */
bool sweep_has_run(const struct sweep *s, size_t combination, size_t repeat);
/* Runs it; what an earlier attempt left is watched to its end if it still runs on agents, else removed. Where
 * its end cannot be known now, as when its agents are not reached, it is left, and the run fails: no run has
 * two jobs. ERR_CANCELLED: a signal. Its failure is *state and, in `why`, the error line of its log. */
int sweep_run(enum sweep_state *state, char why[SWEEP_WHY], const struct sweep *s, size_t combination,
              size_t repeat, struct err *e);

#endif
