/* comm -- communication counters and times of a node: the `comm` object of jobs. */
#ifndef PSGD_COMM_H
#define PSGD_COMM_H

#include <jansson.h>
#include <stdint.h>

#include "shared/job/phase.h"

struct comm {
    uint64_t sent_messages, recv_messages;
    uint64_t raw_bytes;              /* sent, before compression and headers */
    uint64_t sent_bytes, recv_bytes; /* on the wire */
    double seconds[N_STEP_PHASES];
};

void comm_add(struct comm *sum, const struct comm *c);
/* Returns the fraction of time spent in exchanges: all but computing and applying. NAN: no time is known. */
double comm_share(const struct comm *c);
/* sent_messages, ..., compression_ratio (raw to sent; null if nothing was sent), compute_s, ..., share.
 * NULL: no memory. */
json_t *comm_json(const struct comm *c);
/* Updates the counts and seconds from the JSON object `o` (NULL: changes nothing). Keeps the values of
 * members that are missing, negative or not numbers. */
void comm_update(struct comm *c, const json_t *o);

#endif
