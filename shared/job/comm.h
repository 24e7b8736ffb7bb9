/* comm -- what a node's communication costs: the phases of its work, and the counts and seconds of the `comm`
 * object of a job. The phases are also columns of train.csv and kinds of the trace. */
#ifndef PSGD_COMM_H
#define PSGD_COMM_H

#include <jansson.h>
#include <stdint.h>

/* The first N_STEP_PHASES make up a step; the others are between steps. */
enum phase {
    PHASE_COMPUTE, /* local work: batch, forward, backward, checks, records */
    PHASE_ENCODE,  /* the codec writes its messages */
    PHASE_SEND,    /* the messages are passed to the mesh */
    PHASE_WAIT,    /* for other nodes; the mesh sends and receives meanwhile */
    PHASE_DECODE,  /* the codec reads messages */
    PHASE_APPLY,   /* the model is updated: the codec's apply and adopt, the optimizer */
    N_STEP_PHASES,
    PHASE_EVALUATE = N_STEP_PHASES, /* the test set */
    PHASE_CHECKPOINT,
    N_PHASES
};

extern const char *const phase_names[N_PHASES]; /* "compute", ... */

struct comm {
    uint64_t sent_messages, recv_messages;
    uint64_t raw_bytes;              /* sent, before compression and headers */
    uint64_t sent_bytes, recv_bytes; /* on the wire */
    double seconds[N_STEP_PHASES];
};

void comm_add(struct comm *sum, const struct comm *c);
/* Returns the fraction of the time that is spent in exchanges: in all phases but computing and applying. NAN:
 * no time is known. */
double comm_share(const struct comm *c);
/* sent_messages, ..., compression_ratio (raw to sent; null if nothing was sent), compute_s, ..., share.
 * NULL: no memory. */
json_t *comm_json(const struct comm *c);
/* Updates the counts and seconds from the JSON object `o` (NULL: changes nothing). Keeps the values of
 * members that are missing, negative or not numbers. */
void comm_update(struct comm *c, const json_t *o);

#endif
