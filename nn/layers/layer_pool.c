/* max_pool, avg_pool -- x (n, h, w, c) -> y (n, h', w', c): the largest value in each window, or the mean
 * of its values inside the image. Padding is never the largest and does not count in the mean.
 *
 * The gradient of a maximum goes to the first largest value in its window, row by row, whose position
 * forward stores. NaN counts as largest, so that it shows in the loss. */
#include <string.h>

#include "nn/kernels/lanes.h"
#include "nn/layers/layer.h"
#include "shared/base/compiler.h"

/* The part of the image that a window covers. */
struct covered {
    int row, end_row, col, end_col;
};

static struct covered window_at(const struct layer_spec *s, int row, int col)
{
    const struct window_spec *w = &s->window;
    int top = row * w->row_stride - w->top;
    int left = col * w->col_stride - w->left;

    return (struct covered){.row = top > 0 ? top : 0,
                            .end_row = top + w->rows < s->in.dim[0] ? top + w->rows : s->in.dim[0],
                            .col = left > 0 ? left : 0,
                            .end_col = left + w->cols < s->in.dim[1] ? left + w->cols : s->in.dim[1]};
}

/* The positions of the largest values, as offsets in the sample's x. */
static size_t max_work(const struct layer_spec *s, int max_batch)
{
    return (size_t)max_batch * (size_t)s->n_out;
}

/* One window, channels k .. k + n - 1 of c: y and at (n). */
static void max_of(const float *x, const struct covered *w, int width, int c, int k, int n, float *y,
                   int32_t *at)
{
    for (int end = k + n; k < end; k++, y++, at++) {
        int best = (w->row * width + w->col) * c + k;

        for (int i = w->row; i < w->end_row; i++)
            for (int j = w->col; j < w->end_col; j++) {
                int here = (i * width + j) * c + k;

                if (x[here] > x[best] || x[here] != x[here])
                    best = here;
            }
        *y = x[best];
        *at = best;
    }
}

/* The same without branches, for LANES channels, even if fewer are left: the caller guarantees that reads
 * and writes beyond the last one are within its arrays, and that later writes overwrite them. */
INLINE void max_of_lanes(const float *x, const struct covered *w, int width, int c, int k, float *y,
                         int32_t *at)
{
    const int_lanes count = {LANES_COUNT};
    int first = (w->row * width + w->col) * c + k;
    int_lanes best, where = first + count;

    LANES_READ(best, x + first);
    for (int i = w->row; i < w->end_row; i++)
        for (int j = w->col; j < w->end_col; j++) {
            int from = (i * width + j) * c + k;
            lanes v, top;
            int_lanes larger;

            LANES_READ(v, x + from);
            LANES_READ(top, &best);
            larger = (v > top) | (v != v);
            best = LANES_CHOOSE(larger, (int_lanes)v, best);
            where = LANES_CHOOSE(larger, from + count, where);
        }
    LANES_WRITE(y, best);
    LANES_WRITE(at, where);
}

FAST static void max_forward(const struct layer *l, const float *x, const struct pass *p)
{
    const struct layer_spec *s = l->spec;
    int width = s->in.dim[1], c = s->in.dim[2];
    const float *end_x = x + (size_t)p->n * (size_t)s->n_in;
    const float *end_y = l->y + (size_t)p->n * (size_t)s->n_out;
    int32_t *at = (int32_t *)l->work;
    float *y = l->y;

    for (int i = 0; i < p->n; i++, x += s->n_in)
        for (int row = 0; row < s->out.dim[0]; row++)
            for (int col = 0; col < s->out.dim[1]; col++) {
                struct covered w = window_at(s, row, col);
                int last = ((w.end_row - 1) * width + w.end_col - 1) * c;

                for (int k = 0, n; k < c; k += n, y += n, at += n) {
                    n = c - k < LANES ? c - k : LANES;
                    if (end_x - x >= last + k + LANES && end_y - y >= LANES)
                        max_of_lanes(x, &w, width, c, k, y, at);
                    else
                        max_of(x, &w, width, c, k, n, y, at);
                }
            }
}

/* dx[at] += dy; windows may overlap */
static void max_backward(const struct layer *l, const float *x, float *dy, float *dx, const struct pass *p)
{
    const int32_t *at = (const int32_t *)l->work;

    (void)x;
    for (int i = 0; dx && i < p->n; i++, dx += l->spec->n_in) {
        memset(dx, 0, (size_t)l->spec->n_in * sizeof *dx);
        for (int k = 0; k < l->spec->n_out; k++)
            dx[*at++] += *dy++;
    }
}

static float share_of(const struct covered *w)
{
    return 1.0f / (float)((w->end_row - w->row) * (w->end_col - w->col));
}

FAST static void avg_forward(const struct layer *l, const float *x, const struct pass *p)
{
    const struct layer_spec *s = l->spec;
    int width = s->in.dim[1], c = s->in.dim[2];
    float *restrict y = l->y;

    for (int i = 0; i < p->n; i++, x += s->n_in)
        for (int row = 0; row < s->out.dim[0]; row++)
            for (int col = 0; col < s->out.dim[1]; col++, y += c) {
                struct covered w = window_at(s, row, col);
                float share = share_of(&w);

                memset(y, 0, (size_t)c * sizeof *y);
                for (int a = w.row; a < w.end_row; a++)
                    for (int b = w.col; b < w.end_col; b++)
                        for (int k = 0; k < c; k++)
                            y[k] += x[(a * width + b) * c + k];
                for (int k = 0; k < c; k++)
                    y[k] *= share;
            }
}

/* dx += dy / n over each window of n values */
FAST static void avg_backward(const struct layer *l, const float *x, float *dy, float *dx,
                              const struct pass *p)
{
    const struct layer_spec *s = l->spec;
    int width = s->in.dim[1], c = s->in.dim[2];

    (void)x;
    for (int i = 0; dx && i < p->n; i++, dx += s->n_in) {
        memset(dx, 0, (size_t)s->n_in * sizeof *dx);
        for (int row = 0; row < s->out.dim[0]; row++)
            for (int col = 0; col < s->out.dim[1]; col++, dy += c) {
                struct covered w = window_at(s, row, col);
                float share = share_of(&w);

                for (int a = w.row; a < w.end_row; a++)
                    for (int b = w.col; b < w.end_col; b++)
                        for (int k = 0; k < c; k++)
                            dx[(a * width + b) * c + k] += share * dy[k];
            }
    }
}

const struct layer_ops layer_max_pool = {.work = max_work, .forward = max_forward, .backward = max_backward};
const struct layer_ops layer_avg_pool = {.forward = avg_forward, .backward = avg_backward};
