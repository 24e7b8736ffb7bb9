/* language -- the results of a run of a model of language in the units of texts. */
#ifndef PSGD_SUBMIT_LANGUAGE_H
#define PSGD_SUBMIT_LANGUAGE_H

#include <jansson.h>

struct language_results { /* NAN: not known, or the run is not of text */
    double perplexity;    /* exp(loss): of the last evaluation on the test set, the mean over the workers */
    double bits_per_byte; /* that loss in bits, divided by the bytes of text of a token of the test set */
    double tokens;        /* in the steps of all workers together, as --max-tokens counts them */
    double tokens_per_s;  /* of the job's time */
};

/* `run`: a run.json, or that of a running job. */
void language_measure(struct language_results *out, const json_t *run);

#endif
