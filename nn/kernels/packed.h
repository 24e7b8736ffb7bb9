/* packed -- a batch of sequences laid out step by step, the longest sample first and without the padding:
 *
 *     step 0: a row for each sample    step 1: for each sample of 2 steps and more    ...
 *
 * so that what a recurrent layer needs at a step is one block without gaps, the samples that go on stand
 * first in it, and the blocks of all steps together are one matrix (PyTorch's PackedSequence). Without
 * lengths every sample has every step. */
#ifndef PSGD_PACKED_H
#define PSGD_PACKED_H

#include <stdbool.h>
#include <stddef.h>

#include "nn/layers/layer.h"

struct packed {
    int n, time;   /* samples at work; steps of the longest possible one */
    int n_steps;   /* of the longest one at work */
    int *n_at;     /* (time + 1) rows of each step; 0 from n_steps on */
    size_t *first; /* (time + 1) row where a step begins; first[n_steps] = rows of all steps */
    int *order;    /* (max_batch) which sample row k of a step belongs to */
};

/* Rows of all steps at most. More than INT_MAX count as INT_MAX: packed_open() refuses them, so what is
 * computed from this before cannot overflow. */
size_t packed_rows(int max_batch, int time);

/* A recurrent layer's open and close (layer.h): l->own is its packed; what comes to it is (n, time, width).
 * ERR_CONFIG: more rows than a matrix may have. ERR_NOMEM. */
int packed_open(struct layer *l, int max_batch, struct err *e);
void packed_close(struct layer *l);

/* `lengths` (n), cut to 1 .. time: a reshape below may have left fewer steps than there were tokens. */
void packed_arrange(struct packed *p, int n, const int *lengths);

/* rows (all, width), `apart` from each other, from x (n, time, width). And back, from rows without gaps; the
 * padding of x becomes 0. */
void packed_gather(const struct packed *p, float *rows, size_t apart, const float *x, size_t width);
void packed_scatter(const struct packed *p, float *x, const float *rows, size_t width);

/* Where the layer's output has row k of step t: y is (n, time, width), or (n, width) for the last step of
 * each sample; NULL: nowhere. */
float *packed_output(const struct packed *p, float *y, int t, int k, size_t width, bool sequences);
/* dh (width) of that row += what comes from above, out of dy, which is shaped as y. */
void packed_add_above(const struct packed *p, float *dh, float *dy, int t, int k, size_t width,
                      bool sequences);

#endif
