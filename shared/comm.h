/* comm -- what a node has said and heard so far, and where its time went: the `comm` object of jobs. */
#ifndef PSGD_COMM_H
#define PSGD_COMM_H

#include <jansson.h>
#include <stdint.h>

#include "shared/phase.h"

struct comm {
    uint64_t sent_messages, recv_messages;
    uint64_t raw_bytes;              /* said, before compression and headers */
    uint64_t sent_bytes, recv_bytes; /* on the wire */
    double seconds[N_STEP_PHASES];
};

void comm_add(struct comm *sum, const struct comm *c);
/* Share of the time that goes into exchanging: all but computing and applying. NAN: no time was told. */
double comm_share(const struct comm *c);
/* sent_messages, ..., compression_ratio (raw to sent; null where nothing was), compute_s, ..., share. NULL:
 * no memory. */
json_t *comm_json(const struct comm *c);
/* Takes what stands in `o` (NULL: nothing) of the counts and seconds. What is not there, is below 0 or is no
 * number stays as it was known. */
void comm_update(struct comm *c, const json_t *o);

#endif
