/* stop -- why a job's training ended before all its epochs were done: reported by each worker, shown by
 * agents, and written to run.json. */
#ifndef PSGD_STOP_H
#define PSGD_STOP_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#define STOP_CHOICES "none|max_steps|target_accuracy|patience|codec|finished"
enum stop_reason {
    STOP_NONE,      /* training has not ended early */
    STOP_MAX_STEPS, /* --max-steps, --max-mb or --max-tokens */
    STOP_TARGET_ACCURACY,
    STOP_PATIENCE,
    STOP_CODEC,    /* wants_stop in codec.h */
    STOP_FINISHED, /* no training program has more data */
    N_STOP_REASONS
};

struct stop {
    enum stop_reason reason;
    uint64_t step;
    double loss, accuracy; /* of the evaluation that ended it; NAN: no evaluation did, or it has none */
};

/* {"reason","step","loss","accuracy"}, or null for STOP_NONE. */
json_t *stop_json(const struct stop *s);
/* "its codec ended the training", for the message of a node that ends before its last step. */
const char *stop_what(enum stop_reason reason);
/* Returns false, and leaves *out unchanged, if `o` is not such an object. */
bool stop_parse(struct stop *out, const json_t *o);

#endif
