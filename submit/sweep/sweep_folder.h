/* sweep_folder -- the folder of a sweep: its options, and the results and the log of each run. */
#ifndef PSGD_SUBMIT_SWEEP_FOLDER_H
#define PSGD_SUBMIT_SWEEP_FOLDER_H

#include "submit/sweep/sweep_plan.h"

struct sweep {
    const struct options *opt;
    struct sweep_plan plan;
    char folder[PATH_MAX]; /* absolute: runs/NAME, logs/NAME.log, sweep.json, sweep.csv; measured.json */
    char program[PATH_MAX];
    json_t *base; /* ["--epochs=2", ...]: the options of all runs */
    int lock;     /* the folder, locked: one sweep at a time; -1: not open */
};

/* Finds the options of all runs, and the folder's path. ERR_USAGE: an option that such a sweep has not. */
int sweep_open(struct sweep *s, struct err *e);
/* Makes the folder, or goes on with one: ERR_CONFLICT: it has other files, a sweep with other options, or
 * one that is under way. */
int sweep_begin(struct sweep *s, struct err *e);
void sweep_close(struct sweep *s);

/* The options given that the verb takes, without those of the sweep itself, as `base`. The caller owns it. */
json_t *sweep_options(const struct options *o, unsigned verb);

/* The path `sub`/NAME`ending` of a run: "runs" and "", its results; "logs" and ".log". */
int sweep_path(char out[PATH_MAX], const struct sweep *s, const char *sub, const char *ending,
               size_t combination, size_t repeat, struct err *e);
/* The folder of a run's results. */
int sweep_run_folder(char out[PATH_MAX], const struct sweep *s, size_t combination, size_t repeat,
                     struct err *e);

#endif
