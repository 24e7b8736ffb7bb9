/* sweep -- a sweep: its folder, and its runs. Each run is the command `submit` or `simulate` in a process of
 * its own, so that a crash ends that run only. The same command continues a sweep: a run that has succeeded
 * is not run again unless its files have changed. */
#ifndef PSGD_SUBMIT_SWEEP_H
#define PSGD_SUBMIT_SWEEP_H

#include <jansson.h>
#include <limits.h>

#include "submit/files/job_id.h"
#include "submit/sweep/sweep_plan.h"

struct sweep {
    const struct options *opt;
    struct sweep_plan plan;
    char folder[PATH_MAX]; /* absolute: runs/NAME, logs/NAME.log, sweep.json, sweep.csv; measured.json */
    char program[PATH_MAX];
    json_t *base;      /* ["--epochs=2", ...]: the options of all runs; owned */
    bool *begins_anew; /* (n_combinations): its rule keeps no checkpoints, so a longer run starts again */
    size_t n_lanes;    /* runs at once */
    int lock;          /* descriptor of the locked folder: one sweep at a time; -1: not open */
};

/* Finds the options of all runs, and the path of the folder. ERR_USAGE: an option is for the other kind of
 * runs (jobs on agents, or simulations). */
int sweep_open(struct sweep *s, struct err *e);
/* Creates the folder, or continues the sweep in it. ERR_CONFLICT: it has other files, a sweep with other
 * options, or one that still runs. */
int sweep_begin(struct sweep *s, struct err *e);
void sweep_close(struct sweep *s);

/* The path `sub`/NAME`ending` of a run in the folder of the sweep. */
int sweep_run_path(char out[PATH_MAX], const struct sweep *s, const char *sub, const char *ending,
                   const struct sweep_run *run, struct err *e);
/* The folder of a run's results. */
int sweep_run_folder(char out[PATH_MAX], const struct sweep *s, const struct sweep_run *run, struct err *e);

/* The state of a run in its folder. */
struct sweep_earlier {
    bool is_done;        /* the run has succeeded, and all its results are there */
    bool has_ended;      /* by its run.json, with whatever result */
    char id[JOB_ID_MAX]; /* of a job on agents that may still run, or have more results; "": none */
};

void sweep_find_earlier(struct sweep_earlier *earlier, const struct sweep *s, const char *folder);
/* True if the run has succeeded, and all its results are there. */
bool sweep_has_succeeded(const struct sweep *s, const struct sweep_run *run);

/* True if a file that the run used has changed since; `file`: the first such file. `run` is the run's
 * run.json. Codecs, model and initial weights are compared by their checksums. The data set, the files of a
 * training program, and `config`, the file of --config ("": none), have no checksum in run.json: they have
 * changed if they were written after the run began. A missing file has not changed: no run could replace the
 * results. */
bool sweep_inputs_changed(char file[PATH_MAX], const json_t *run, const char *config);
/* Removes the results of a run that has succeeded if a file that it used has changed. */
int sweep_drop_stale(const struct sweep *s, const struct sweep_run *run, struct err *e);

#endif
