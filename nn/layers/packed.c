#include "nn/layers/packed.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/compiler.h"

size_t packed_rows(int max_batch, int time)
{
    size_t rows = (size_t)max_batch * (size_t)time;

    return rows < INT_MAX ? rows : INT_MAX;
}

int packed_open(struct layer *l, int max_batch, struct err *e)
{
    int time = l->spec->in.dim[0];
    struct packed *p;

    p = calloc(1, sizeof *p);
    l->own = p;
    if (!p)
        goto no_memory;
    p->time = time;
    p->n_at = calloc((size_t)time + 1, sizeof *p->n_at);
    p->first = calloc((size_t)time + 1, sizeof *p->first);
    p->order = calloc((size_t)max_batch, sizeof *p->order);
    if (!p->n_at || !p->first || !p->order)
        goto no_memory;
    return 0;
no_memory:
    packed_close(l);
    return err_set(e, ERR_NOMEM, "no memory for the order of %d sequences", max_batch);
}

void packed_close(struct layer *l)
{
    struct packed *p = l->own;

    if (!p)
        return;
    free(p->n_at);
    free(p->first);
    free(p->order);
    free(p);
    l->own = NULL;
}

static int steps_of(const struct packed *p, const int *lengths, int i)
{
    if (!lengths || lengths[i] > p->time)
        return p->time;
    return lengths[i] < 1 ? 1 : lengths[i];
}

/* Counting sort. It is stable: the same batch gives the same bits. */
void packed_arrange(struct packed *p, int n, const int *lengths)
{
    int *ended = p->n_at; /* [len]: samples of len steps, then samples of more steps, then next index in
                           * `order` */

    memset(ended, 0, ((size_t)p->time + 1) * sizeof *ended);
    for (int i = 0; i < n; i++)
        ended[steps_of(p, lengths, i)]++;
    for (int t = p->time, longer = 0; t >= 0; t--) {
        int here = ended[t];

        ended[t] = longer;
        longer += here;
    }
    for (int i = 0; i < n; i++)
        p->order[ended[steps_of(p, lengths, i)]++] = i;
    /* [len] is now the end of the samples of len steps, which is the beginning of those of len - 1. */
    for (int t = 0; t < p->time; t++)
        p->n_at[t] = ended[t + 1];
    p->n_at[p->time] = 0;
    p->n = n;
    p->n_steps = 0;
    p->first[0] = 0;
    while (p->n_steps < p->time && p->n_at[p->n_steps] > 0) {
        p->first[p->n_steps + 1] = p->first[p->n_steps] + (size_t)p->n_at[p->n_steps];
        p->n_steps++;
    }
}

void packed_gather(const struct packed *p, float *rows, size_t apart, const float *x, size_t width)
{
    for (int t = 0; t < p->n_steps; t++)
        for (int k = 0; k < p->n_at[t]; k++, rows += apart)
            memcpy(rows, x + ((size_t)p->order[k] * (size_t)p->time + (size_t)t) * width,
                   width * sizeof *rows);
}

void packed_scatter(const struct packed *p, float *x, const float *rows, size_t width)
{
    for (int t = 0; t < p->time; t++)
        for (int k = 0; k < p->n; k++) {
            float *to = x + ((size_t)p->order[k] * (size_t)p->time + (size_t)t) * width;

            if (k < p->n_at[t])
                memcpy(to, rows + (p->first[t] + (size_t)k) * width, width * sizeof *to);
            else
                memset(to, 0, width * sizeof *to);
        }
}

float *packed_output(const struct packed *p, float *y, int t, int k, size_t width, bool sequences)
{
    size_t sample = (size_t)p->order[k];

    if (sequences)
        return y + (sample * (size_t)p->time + (size_t)t) * width;
    return k < p->n_at[t + 1] ? NULL : y + sample * width;
}

FAST void packed_add_above(const struct packed *p, float *dh, float *dy, int t, int k, size_t width,
                           bool sequences)
{
    const float *restrict from = packed_output(p, dy, t, k, width, sequences);
    float *restrict to = dh;

    for (size_t j = 0; from && j < width; j++)
        to[j] += from[j];
}
