/* sweep_command -- the commands of a sweep's runs: `submit` or `simulate` with the options that the sweep was
 * given, the values of the combination, and the length of the rung. */
#ifndef PSGD_SUBMIT_SWEEP_COMMAND_H
#define PSGD_SUBMIT_SWEEP_COMMAND_H

#include "submit/sweep/sweep.h"

enum { SWEEP_ARGUMENTS = 4 * ARGS_MAX };

/* The arguments of another job_submit. */
struct sweep_command {
    char *words[SWEEP_ARGUMENTS]; /* ends with NULL */
    size_t n;
    bool has_failed; /* no memory */
};

/* Starts the run anew. `agents`: the list of its lane; "": that of the options. `keeps_checkpoint`: a short
 * run on agents keeps one at its end. */
void sweep_command_anew(struct sweep_command *c, const struct sweep *s, const struct sweep_run *run,
                        const char *folder, const char *agents, bool keeps_checkpoint);
/* Continues, to the length of this run, the one with results in `earlier`. The settings are those of that
 * run. */
void sweep_command_resume(struct sweep_command *c, const struct sweep *s, const struct sweep_run *run,
                          const char *folder, const char *agents, const char *earlier);
/* Waits for a job on agents, and fetches its results. */
void sweep_command_wait(struct sweep_command *c, const struct sweep *s, const char *id, const char *folder);
void sweep_command_clear(struct sweep_command *c);

#endif
