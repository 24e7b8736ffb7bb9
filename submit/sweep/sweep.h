/* sweep -- a sweep: its folder, and its runs. Each run is the command `submit` or `simulate` in a process of
 * its own, so that a crash ends that run only. The same command continues a sweep: a run that has succeeded
 * is not run again unless its files have changed. */
#ifndef PSGD_SUBMIT_SWEEP_H
#define PSGD_SUBMIT_SWEEP_H

#include <jansson.h>
#include <limits.h>

#include "submit/sweep/sweep_plan.h"

enum { SWEEP_WHY = 256 };
enum sweep_state { SWEEP_SUCCEEDED, SWEEP_FAILED };

struct sweep {
    const struct options *opt;
    struct sweep_plan plan;
    char folder[PATH_MAX]; /* absolute: runs/NAME, logs/NAME.log, sweep.json, sweep.csv; measured.json */
    char program[PATH_MAX];
    json_t *base; /* ["--epochs=2", ...]: the options of all runs; owned */
    int lock;     /* descriptor of the locked folder: one sweep at a time; -1: not open */
};

/* Finds the options of all runs, and the path of the folder. ERR_USAGE: an option is for the other kind of
 * runs (jobs on agents, or simulations). */
int sweep_open(struct sweep *s, struct err *e);
/* Creates the folder, or continues the sweep in it. ERR_CONFLICT: it has other files, a sweep with other
 * options, or one that still runs. */
int sweep_begin(struct sweep *s, struct err *e);
void sweep_close(struct sweep *s);

/* The folder of a run's results. */
int sweep_run_folder(char out[PATH_MAX], const struct sweep *s, size_t combination, size_t repeat,
                     struct err *e);
/* True if the run has succeeded, and all its results are there. */
bool sweep_has_succeeded(const struct sweep *s, size_t combination, size_t repeat);

/* Reads and checks the job of these options, and runs nothing. */
typedef int sweep_check_job(const struct options *o, struct err *e);

/* Parses the options of all combinations, then calls `check` for each of them that has a run which has not
 * succeeded. Writes nothing. An error names the first wrong combination; its code is that of the run's own
 * command. ERR_CANCELLED: a signal. */
int sweep_check(const struct sweep *s, sweep_check_job *check, struct err *e);

/* True if a file that the run used has changed since; `file`: the first such file. `run` is the run's
 * run.json. Codecs, model and initial weights are compared by their checksums. The data set, the files of a
 * training program, and `config`, the file of --config ("": none), have no checksum in run.json: they have
 * changed if they were written after the run began. A missing file has not changed: no run could replace the
 * results. */
bool sweep_inputs_changed(char file[PATH_MAX], const json_t *run, const char *config);
/* Removes the results of a run that has succeeded if a file that it used has changed. */
int sweep_drop_stale(const struct sweep *s, size_t combination, size_t repeat, struct err *e);

/* Runs it. If an earlier attempt left a job that may still run on agents, waits for that job instead; if its
 * end cannot be known now, because its agents do not answer, the run fails, so that no run has two jobs.
 * Other remains of an earlier attempt are removed. *state: how it ended; `why`: the error line of a failed
 * run's log. ERR_CANCELLED: a signal. */
int sweep_run(enum sweep_state *state, char why[SWEEP_WHY], const struct sweep *s, size_t combination,
              size_t repeat, struct err *e);

#endif
