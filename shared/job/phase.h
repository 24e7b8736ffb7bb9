/* phase -- phases of a node's work: the common list for the columns of train.csv, the job's `comm` object
 * and the trace. The first N_STEP_PHASES make up a step; the others are between steps. */
#ifndef PSGD_PHASE_H
#define PSGD_PHASE_H

enum phase {
    PHASE_COMPUTE, /* local work: batch, forward, backward, checks, records */
    PHASE_ENCODE,  /* the codec writes its messages */
    PHASE_SEND,    /* passes them to the mesh */
    PHASE_WAIT,    /* for other nodes; the mesh sends and receives meanwhile */
    PHASE_DECODE,  /* the codec reads messages */
    PHASE_APPLY,   /* updates the model: the codec's apply and adopt, the optimizer */
    N_STEP_PHASES,
    PHASE_EVALUATE = N_STEP_PHASES, /* the test set */
    PHASE_CHECKPOINT,
    N_PHASES
};

extern const char *const phase_names[N_PHASES]; /* "compute", ... */

#endif
