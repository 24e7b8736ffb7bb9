/* packed -- a batch of sequences laid out step by step, the longest sample first and without the padding:
 *
 *     step 0: a row for each sample    step 1: a row for each sample of at least 2 steps    ...
 *
 * The input of a recurrent layer at a step is then one contiguous block, the samples that continue come
 * first in it, and the blocks of all steps form one matrix (PyTorch's PackedSequence). Without lengths
 * every sample has all steps. */
#ifndef PSGD_PACKED_H
#define PSGD_PACKED_H

#include <stdbool.h>
#include <stddef.h>

#include "nn/layers/layer.h"

struct packed {
    int n, time;   /* samples in the batch; most steps of a sample */
    int n_steps;   /* of the longest sample in the batch */
    int *n_at;     /* (time + 1) rows of each step; 0 from n_steps on */
    size_t *first; /* (time + 1) row where a step begins; first[n_steps] = rows of all steps */
    int *order;    /* (max_batch) the sample of row k of each step */
};

/* Returns the most rows of all steps. More than INT_MAX are returned as INT_MAX, so that sizes computed
 * from it for a batch that net_new() refuses do not overflow. */
size_t packed_rows(int max_batch, int time);

/* A recurrent layer's open and close (layer.h): l->own is its struct packed; its input is (n, time, width).
 * ERR_NOMEM. */
int packed_open(struct layer *l, int max_batch, struct err *e);
void packed_close(struct layer *l);

/* `lengths` (n), clamped to 1 .. time: a reshape before this layer may have left fewer steps than tokens. */
void packed_arrange(struct packed *p, int n, const int *lengths);

/* Copies x (n, time, width) to rows (all, width), `apart` floats from each other; packed_scatter() copies
 * back from contiguous rows and sets the padding of x to 0. */
void packed_gather(const struct packed *p, float *rows, size_t apart, const float *x, size_t width);
void packed_scatter(const struct packed *p, float *x, const float *rows, size_t width);

/* Returns the address in the layer's output of row k of step t: y is (n, time, width), or (n, width) for
 * the last step of each sample. NULL: that row is not in the output. */
float *packed_output(const struct packed *p, float *y, int t, int k, size_t width, bool sequences);
/* dh (width) of that row += its gradient in dy, which has the shape of y. */
void packed_add_above(const struct packed *p, float *dh, float *dy, int t, int k, size_t width,
                      bool sequences);

#endif
