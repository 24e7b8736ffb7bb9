/* stop -- why a job's training ended although its epochs were not all done: stated by each worker, shown by
 * agents, and written to run.json. */
#ifndef PSGD_STOP_H
#define PSGD_STOP_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#define STOP_CHOICES "none|max_steps|target_accuracy|patience|codec"
enum stop_reason {
    STOP_NONE,      /* it has not ended early */
    STOP_MAX_STEPS, /* --max-steps, or --max-mb */
    STOP_TARGET_ACCURACY,
    STOP_PATIENCE,
    STOP_CODEC, /* wants_stop in codec.h */
    N_STOP_REASONS
};

struct stop {
    enum stop_reason reason;
    uint64_t step;
    double loss, accuracy; /* of the evaluation that decided it; NAN: none did, or it has none */
};

/* {"reason","step","loss","accuracy"}, or null for STOP_NONE. */
json_t *stop_json(const struct stop *s);
/* "its codec has ended it", of a node that has ended before its last step. */
const char *stop_what(enum stop_reason reason);
/* False: not such an object; *out is then unchanged. */
bool stop_parse(struct stop *out, const json_t *o);

#endif
