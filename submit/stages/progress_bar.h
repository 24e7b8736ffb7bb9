/* progress_bar -- training progress of the nodes: bars on a terminal, otherwise a line every 10 s or 10 %. */
#ifndef PSGD_SUBMIT_PROGRESS_BAR_H
#define PSGD_SUBMIT_PROGRESS_BAR_H

#include "submit/job/submission.h"

struct progress_bar {
    double drawn_at, reported_at; /* clock_now */
    int tenth;                    /* of the slowest node at the last report */
    double began_at, began;       /* when the slowest node's progress, 0..1, was first seen; 0: not yet */
};

void progress_bar_show(struct progress_bar *p, const struct submission *s);

/* The seconds left if the slowest node, with the progress `ratio`, continues at its mean speed since its
 * first report; NAN: not known yet. */
double progress_bar_left(struct progress_bar *p, double ratio, double now);

/* "epoch 1 of 2, 35 %, 4.1 s left, loss 0.412, accuracy 0.901, 1.2 MB sent"; left_s NAN: not known. */
const char *progress_bar_text(char *out, size_t size, const struct job_node *n, double left_s);

/* True if the job waits for one of its nodes, which hangs or is slow. *node: the node that most waiting nodes
 * name; a node that waits follows its peers' waits to their end, so that usually all name the same one. */
bool progress_bar_waits_for(int *node, const struct submission *s);

#endif
