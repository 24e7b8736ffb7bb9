/* phase -- what a node is at, at any moment of its work: the one list behind the columns of train.csv, the
 * job's `comm` object and the trace. The first N_STEP_PHASES make up a step; the others lie between steps. */
#ifndef PSGD_PHASE_H
#define PSGD_PHASE_H

enum phase {
    PHASE_COMPUTE, /* everything of the node's own: batch, forward, backward, checks, records */
    PHASE_ENCODE,  /* the codec writes its messages */
    PHASE_SEND,    /* they are handed to the mesh */
    PHASE_WAIT,    /* for other nodes; the mesh sends and receives meanwhile */
    PHASE_DECODE,  /* the codec takes in messages */
    PHASE_APPLY,   /* their outcome moves the model: the codec's apply and adopt, the optimizer */
    N_STEP_PHASES,
    PHASE_EVALUATE = N_STEP_PHASES, /* the test set */
    PHASE_CHECKPOINT,
    N_PHASES
};

extern const char *const phase_names[N_PHASES]; /* "compute", ... */

#endif
