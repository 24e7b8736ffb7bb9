/* sweep_inputs -- are the files that a run was made from what they were? */
#ifndef PSGD_SUBMIT_SWEEP_INPUTS_H
#define PSGD_SUBMIT_SWEEP_INPUTS_H

#include <jansson.h>
#include <limits.h>
#include <stdbool.h>

/* Finds one that has changed, from the document run.json of the run. Codecs, model and initial weights are
 * compared by their checksums. The data set and `config`, the file of --config ("": none), of which run.json
 * has no checksum, have changed if they were written after the run had begun. A file that is not there has
 * not changed: no run could replace the old one. */
bool sweep_inputs_changed(char file[PATH_MAX], const json_t *run, const char *config);

#endif
