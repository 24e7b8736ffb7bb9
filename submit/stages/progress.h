/* progress -- training progress of the nodes: bars on a terminal, otherwise a line every 10 s or 10 %. */
#ifndef PSGD_SUBMIT_PROGRESS_H
#define PSGD_SUBMIT_PROGRESS_H

#include "submit/stages/submission.h"

struct progress {
    double drawn_at, reported_at; /* clock_now */
    int tenth;                    /* of the slowest node at the last report */
};

void progress_show(struct progress *p, const struct submission *s);

/* "epoch 1 of 2, 35 %, loss 0.412, accuracy 0.901, 1.2 MB sent" */
const char *progress_text(char *out, size_t size, const struct node *n);

#endif
