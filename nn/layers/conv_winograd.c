/* conv_winograd -- convolution with 3 x 3 windows in a quarter of the multiplications (Winograd 1980; Lavin
 * and Gray 2016, F(4 x 4, 3 x 3)). For a tile of 4 x 4 results y, their input d (6 x 6) and the window w,
 * each for one channel and one filter:
 *
 *     v = B^T d B     u = G w G^T     m = sum over channels of v * u, value by value     y = A^T m A + bias
 *
 * Each of the 36 points is a separate matrix product: m (tiles, filters) = v (tiles, c) u (c, filters). The
 * gradients are the derivatives of these formulas:
 *
 *     dm = A dy A^T     du = v^T dm     dw = G^T du G     dv = dm u^T     dd = B dv B^T
 *
 * A, B and G belong to the points 0, +-sqrt(1/2), +-sqrt(2) and infinity. The paper's 0, +-1, +-2 and
 * infinity take as many operations, but their rounding errors are four times as large; those of this choice
 * are twice those of the plain sum. */
#include <string.h>

#include "nn/kernels/lanes.h"
#include "nn/kernels/matmul.h"
#include "nn/layers/conv.h"
#include "shared/base/compiler.h"

enum {
    WINDOW = 3,
    RESULT = 4, /* rows and columns of a tile of y */
    TILE = 6,   /* of its input */
    POINTS = TILE * TILE,
    TILES = 72,         /* at a time: enough rows for fast products, few enough for the caches */
    APART = 16,         /* floats between points; at powers of two they would share a few sets of a cache */
    FEW = 16,           /* least channels, and least filters, ... */
    WHOLE = 8,          /* ... a multiple of this, and so of LANES on every machine */
    PAIRS_MIN = 512,    /* pairs of a channel and a filter */
    PAIRS_MAX = 1 << 18 /* above, u is not small beside the images */
};

static const float root = 1.41421356f, half_root = 0.707106781f;

static size_t tile_cols(const struct layer_spec *s)
{
    return ((size_t)s->out.dim[1] + RESULT - 1) / RESULT;
}

/* Of one sample. */
static size_t tiles_of(const struct layer_spec *s)
{
    return ((size_t)s->out.dim[0] + RESULT - 1) / RESULT * tile_cols(s);
}

/* With fewer channels or filters, or with more than a third of the tiles' values outside of the image, the
 * other paths are as fast (docs/notes/engine.md has the figures). */
bool conv_winograd_takes(const struct layer_spec *s)
{
    const struct window_spec *w = &s->window;
    size_t c = (size_t)s->in.dim[2], filters = (size_t)s->out.dim[2];
    size_t computed = tiles_of(s) * RESULT * RESULT, wanted = (size_t)s->out.dim[0] * (size_t)s->out.dim[1];

    return w->rows == WINDOW && w->cols == WINDOW && w->row_stride == 1 && w->col_stride == 1 &&
           c % WHOLE == 0 && filters % WHOLE == 0 && c >= FEW && filters >= FEW && c * filters >= PAIRS_MIN &&
           c * filters <= PAIRS_MAX && 2 * computed <= 3 * wanted;
}

struct winograd_space {      /* offsets in `work`, and the distance between the points of each */
    size_t u, du, v, m, end; /* u, du (c, filters), v (tiles, c), m (tiles, filters) */
    size_t u_step, v_step, m_step;
};

static struct winograd_space space_of(const struct layer_spec *s)
{
    size_t c = (size_t)s->in.dim[2], filters = (size_t)s->out.dim[2];
    struct winograd_space at = {
        .u_step = c * filters + APART, .v_step = TILES * c + APART, .m_step = TILES * filters + APART};

    at.du = at.u + POINTS * at.u_step;
    at.v = at.du + POINTS * at.u_step;
    at.m = at.v + POINTS * at.v_step;
    at.end = at.m + POINTS * at.m_step;
    return at;
}

static size_t conv_winograd_work(const struct layer_spec *s)
{
    return space_of(s).end;
}

/* Transforms one column or row. */
typedef void transform_1d(const lanes *from, lanes *to);

/* Input transform, B^T. */
INLINE void input_transform(const lanes *d, lanes *v)
{
    lanes even = d[4] - 2 * d[2], odd = half_root * d[3] - root * d[1];
    lanes even_2 = d[4] - 0.5f * d[2], odd_2 = root * d[3] - half_root * d[1];

    v[0] = d[0] - 2.5f * d[2] + d[4];
    v[1] = even + odd;
    v[2] = even - odd;
    v[3] = even_2 + odd_2;
    v[4] = even_2 - odd_2;
    v[5] = d[1] - 2.5f * d[3] + d[5];
}

/* Its transpose, B. */
INLINE void input_transform_t(const lanes *v, lanes *d)
{
    lanes even = v[1] + v[2], odd = v[1] - v[2], even_2 = v[3] + v[4], odd_2 = v[3] - v[4];

    d[0] = v[0];
    d[1] = v[5] - root * odd - half_root * odd_2;
    d[2] = -2.5f * v[0] - 2 * even - 0.5f * even_2;
    d[3] = half_root * odd + root * odd_2 - 2.5f * v[5];
    d[4] = v[0] + even + even_2;
    d[5] = v[5];
}

/* Filter transform, G. */
INLINE void filter_transform(const lanes *w, lanes *u)
{
    lanes even = (-2 / 3.0f) * (w[0] + 0.5f * w[2]), odd = (-2 / 3.0f) * half_root * w[1];
    lanes even_2 = (1 / 6.0f) * (w[0] + 2 * w[2]), odd_2 = (1 / 6.0f) * root * w[1];

    u[0] = w[0];
    u[1] = even + odd;
    u[2] = even - odd;
    u[3] = even_2 + odd_2;
    u[4] = even_2 - odd_2;
    u[5] = w[2];
}

/* Its transpose, G^T. */
INLINE void filter_transform_t(const lanes *u, lanes *w)
{
    lanes even = (-2 / 3.0f) * (u[1] + u[2]), odd = (-2 / 3.0f) * half_root * (u[1] - u[2]);
    lanes even_2 = (1 / 6.0f) * (u[3] + u[4]), odd_2 = (1 / 6.0f) * root * (u[3] - u[4]);

    w[0] = u[0] + even + even_2;
    w[1] = odd + odd_2;
    w[2] = 0.5f * even + 2 * even_2 + u[5];
}

/* Output transform, A^T. */
INLINE void output_transform(const lanes *m, lanes *y)
{
    lanes even = m[1] + m[2], odd = half_root * (m[1] - m[2]);
    lanes even_2 = m[3] + m[4], odd_2 = root * (m[3] - m[4]);

    y[0] = m[0] + even + even_2;
    y[1] = odd + odd_2;
    y[2] = 0.5f * even + 2 * even_2;
    y[3] = 0.5f * odd + 2 * odd_2 + m[5];
}

/* Its transpose, A. */
INLINE void output_transform_t(const lanes *y, lanes *m)
{
    lanes even = y[0] + 0.5f * y[2], odd = half_root * (y[1] + 0.5f * y[3]);
    lanes even_2 = y[0] + 2 * y[2], odd_2 = root * (y[1] + 2 * y[3]);

    m[0] = y[0];
    m[1] = even + odd;
    m[2] = even - odd;
    m[3] = even_2 + odd_2;
    m[4] = even_2 - odd_2;
    m[5] = y[3];
}

/* Offsets of the values of a square: a tile in an image, or the points of v, u or m. */
struct square {
    int at[POINTS]; /* -1: outside of the image */
};

/* Applies `one` to the columns of the square `from`, then to the rows of the result, with one channel or
 * filter per lane. Stores the result in the square `to`, or adds it to `to` if `adds`, or stores its sum
 * with `plus` if that is not NULL. The sizes, `one` and `adds` are constants in every call. */
INLINE void transform_square(transform_1d *one, size_t n_from, size_t n_to, const float *from,
                             const struct square *f, float *to, const struct square *t, bool adds,
                             const float *plus)
{
    lanes half[TILE][TILE], in[TILE], out[TILE], v;

    for (size_t k = 0; k < n_from; k++) {
        _Pragma("GCC unroll 6") for (size_t i = 0; i < n_from; i++)
        {
            in[i] = (lanes){0};
            if (f->at[i * n_from + k] >= 0)
                LANES_READ(in[i], from + f->at[i * n_from + k]);
        }
        one(in, out);
        _Pragma("GCC unroll 6") for (size_t i = 0; i < n_to; i++) half[i][k] = out[i];
    }
    for (size_t i = 0; i < n_to; i++) {
        one(half[i], out);
        _Pragma("GCC unroll 6") for (size_t k = 0; k < n_to; k++)
        {
            int at = t->at[i * n_to + k];

            if (at < 0)
                continue;
            if (adds || plus) {
                LANES_READ(v, adds ? to + at : plus);
                out[k] += v;
            }
            LANES_WRITE(to + at, out[k]);
        }
    }
}

/* Finds tile p of the batch, `n` x `n` pixels of an image whose first tile begins at (-top, -left). Returns
 * the index of its sample. */
static size_t find_tile(struct square *square, const struct layer_spec *s, size_t p, int n,
                        const struct shape *image, int top, int left)
{
    size_t tile = p % tiles_of(s);
    int row = (int)(tile / tile_cols(s)) * RESULT - top, col = (int)(tile % tile_cols(s)) * RESULT - left;

    for (int i = 0; i < n * n; i++) {
        int r = row + i / n, k = col + i % n;
        bool is_inside = r >= 0 && r < image->dim[0] && k >= 0 && k < image->dim[1];

        square->at[i] = is_inside ? (r * image->dim[1] + k) * image->dim[2] : -1;
    }
    return p / tiles_of(s);
}

static struct square points(size_t step, size_t n)
{
    struct square s;

    for (size_t i = 0; i < n * n; i++)
        s.at[i] = (int)(i * step);
    return s;
}

/* u = G w G^T, or dw = G^T du G */
FAST static void transform_weights(const struct layer *l, const struct winograd_space *at, bool back)
{
    size_t n = (size_t)(l->spec->in.dim[2] * l->spec->out.dim[2]);
    const struct square w = points(n, WINDOW), u = points(at->u_step, TILE);

    for (size_t k = 0; k < n; k += LANES)
        if (back)
            transform_square(filter_transform_t, TILE, WINDOW, l->work + at->du + k, &u,
                             l->grads[CONV_WEIGHT] + k, &w, false, NULL);
        else
            transform_square(filter_transform, WINDOW, TILE, l->params[CONV_WEIGHT] + k, &w,
                             l->work + at->u + k, &u, false, NULL);
}

/* v = B^T d B, of n tiles from `first` on */
FAST static void transform_x(const struct layer *l, const struct winograd_space *at, const float *x,
                             size_t first, size_t n)
{
    const struct layer_spec *s = l->spec;
    const struct square v = points(at->v_step, TILE);
    size_t c = (size_t)s->in.dim[2];

    for (size_t p = 0; p < n; p++) {
        struct square d;
        const float *image = x + (size_t)s->n_in *
                                     find_tile(&d, s, first + p, TILE, &s->in, s->window.top, s->window.left);

        for (size_t k = 0; k < c; k += LANES)
            transform_square(input_transform, TILE, TILE, image + k, &d, l->work + at->v + p * c + k, &v,
                             false, NULL);
    }
}

/* dx += B dv B^T, because tiles overlap; a sample's dx is cleared at its first tile. */
FAST static void collect_dx(const struct layer *l, const struct winograd_space *at, float *dx, size_t first,
                            size_t n)
{
    const struct layer_spec *s = l->spec;
    const struct square v = points(at->v_step, TILE);
    size_t c = (size_t)s->in.dim[2];

    for (size_t p = 0; p < n; p++) {
        struct square d;
        float *image = dx + (size_t)s->n_in *
                                find_tile(&d, s, first + p, TILE, &s->in, s->window.top, s->window.left);

        if ((first + p) % tiles_of(s) == 0)
            memset(image, 0, (size_t)s->n_in * sizeof *image);
        for (size_t k = 0; k < c; k += LANES)
            transform_square(input_transform_t, TILE, TILE, l->work + at->v + p * c + k, &v, image + k, &d,
                             true, NULL);
    }
}

/* y = A^T m A + bias */
FAST static void collect_y(const struct layer *l, const struct winograd_space *at, size_t first, size_t n)
{
    const struct layer_spec *s = l->spec;
    const struct square m = points(at->m_step, TILE);
    size_t filters = (size_t)s->out.dim[2];

    for (size_t p = 0; p < n; p++) {
        struct square y;
        float *image = l->y + (size_t)s->n_out * find_tile(&y, s, first + p, RESULT, &s->out, 0, 0);

        for (size_t k = 0; k < filters; k += LANES)
            transform_square(output_transform, TILE, RESULT, l->work + at->m + p * filters + k, &m, image + k,
                             &y, false, l->params[CONV_BIAS] + k);
    }
}

/* dm = A dy A^T */
FAST static void transform_dy(const struct layer *l, const struct winograd_space *at, const float *dy,
                              size_t first, size_t n)
{
    const struct layer_spec *s = l->spec;
    const struct square m = points(at->m_step, TILE);
    size_t filters = (size_t)s->out.dim[2];

    for (size_t p = 0; p < n; p++) {
        struct square y;
        const float *image = dy + (size_t)s->n_out * find_tile(&y, s, first + p, RESULT, &s->out, 0, 0);

        for (size_t k = 0; k < filters; k += LANES)
            transform_square(output_transform_t, RESULT, TILE, image + k, &y,
                             l->work + at->m + p * filters + k, &m, false, NULL);
    }
}

static size_t chunk_from(size_t first, size_t end)
{
    return end - first < TILES ? end - first : TILES;
}

static void conv_winograd_forward(const struct layer *l, const float *x, int n)
{
    const struct winograd_space at = space_of(l->spec);
    int c = l->spec->in.dim[2], filters = l->spec->out.dim[2];
    size_t end = (size_t)n * tiles_of(l->spec);

    transform_weights(l, &at, false);
    for (size_t first = 0, k; first < end; first += k) {
        k = chunk_from(first, end);
        transform_x(l, &at, x, first, k);
        for (size_t i = 0; i < POINTS; i++)
            matmul(false, false, (int)k, filters, c, l->work + at.v + i * at.v_step,
                   l->work + at.u + i * at.u_step, 0, l->work + at.m + i * at.m_step);
        collect_y(l, &at, first, k);
    }
}

static void conv_winograd_backward(const struct layer *l, const float *x, const float *dy, float *dx,
                                   const struct pass *p)
{
    const struct winograd_space at = space_of(l->spec);
    int c = l->spec->in.dim[2], filters = l->spec->out.dim[2];
    size_t n = (size_t)p->n, end = n * tiles_of(l->spec);

    if (dx)
        transform_weights(l, &at, false);
    for (size_t first = 0, k; first < end; first += k) {
        k = chunk_from(first, end);
        pass_pause(p);
        transform_x(l, &at, x, first, k);
        transform_dy(l, &at, dy, first, k);
        for (size_t i = 0; i < POINTS; i++)
            matmul(true, false, c, filters, (int)k, l->work + at.v + i * at.v_step,
                   l->work + at.m + i * at.m_step, first > 0 ? 1 : 0, l->work + at.du + i * at.u_step);
        if (!dx)
            continue;
        for (size_t i = 0; i < POINTS; i++)
            matmul(false, true, (int)k, c, filters, l->work + at.m + i * at.m_step,
                   l->work + at.u + i * at.u_step, 0, l->work + at.v + i * at.v_step);
        collect_dx(l, &at, dx, first, k);
    }
    transform_weights(l, &at, true);
    memset(l->grads[CONV_BIAS], 0, (size_t)filters * sizeof(float));
    matmul_add_rows(l->grads[CONV_BIAS], dy, n * (size_t)l->spec->n_out / (size_t)filters, (size_t)filters);
}

const struct conv_path conv_winograd = {
    .work = conv_winograd_work, .forward = conv_winograd_forward, .backward = conv_winograd_backward};
