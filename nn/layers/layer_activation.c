/* Activations: y = f(x) elementwise, in place if the derivative is a function of y. NaN stays NaN, so that
 * the loss shows it. */
#include <string.h>

#include "nn/kernels/parallel.h"
#include "nn/kernels/vecmath.h"
#include "nn/layers/layer.h"
#include "shared/base/compiler.h"

static size_t activation_count(const struct layer *l, const struct pass *p)
{
    return (size_t)p->n * (size_t)l->spec->n_out;
}

FAST static void tanh_forward(const struct layer *l, const float *x, const struct pass *p)
{
    for (size_t i = 0, m = activation_count(l, p); i < m; i++)
        l->y[i] = tanh_f32(x[i]);
}

/* dx = dy (1 - y^2) */
FAST static void tanh_backward(const struct layer *l, const float *x, float *dy, float *dx,
                               const struct pass *p)
{
    (void)x;
    for (size_t i = 0, m = dx ? activation_count(l, p) : 0; i < m; i++)
        dx[i] = dy[i] * (1 - l->y[i] * l->y[i]);
}

FAST static void relu_forward(const struct layer *l, const float *x, const struct pass *p)
{
    for (size_t i = 0, m = activation_count(l, p); i < m; i++)
        l->y[i] = x[i] < 0 ? 0 : x[i];
}

/* dx = dy where y > 0; the derivative at 0 is taken as 0 */
FAST static void relu_backward(const struct layer *l, const float *x, float *dy, float *dx,
                               const struct pass *p)
{
    (void)x;
    for (size_t i = 0, m = dx ? activation_count(l, p) : 0; i < m; i++) {
        float d = dy[i]; /* loaded for any y: not every machine can vectorize a conditional load */

        dx[i] = l->y[i] > 0 ? d : 0;
    }
}

FAST static void leaky_relu_forward(const struct layer *l, const float *x, const struct pass *p)
{
    const float slope = l->spec->sloped.slope;

    for (size_t i = 0, m = activation_count(l, p); i < m; i++)
        l->y[i] = x[i] < 0 ? slope * x[i] : x[i];
}

/* dx = dy where y > 0, else slope dy */
FAST static void leaky_relu_backward(const struct layer *l, const float *x, float *dy, float *dx,
                                     const struct pass *p)
{
    const float slope = l->spec->sloped.slope;

    (void)x;
    for (size_t i = 0, m = dx ? activation_count(l, p) : 0; i < m; i++)
        dx[i] = l->y[i] > 0 ? dy[i] : slope * dy[i];
}

/* y = c + slope (x - c), c = max(-1, min(x, 1)). With slope 0, Collobert et al. 2011, "Natural Language
 * Processing (Almost) from Scratch", section 3.2. HTanh of Parallel-SGD has 0.01 x outside, which jumps at
 * both ends; and its 0.01 becomes a truth value, so that it is the identity. */
FAST static void hard_tanh_forward(const struct layer *l, const float *x, const struct pass *p)
{
    const float slope = l->spec->sloped.slope;

    for (size_t i = 0, m = activation_count(l, p); i < m; i++) {
        float low = x[i] < -1 ? -1 : x[i];
        float c = low > 1 ? 1 : low;

        l->y[i] = c + slope * (x[i] - c);
    }
}

/* dx = dy where |y| < 1, else slope dy */
FAST static void hard_tanh_backward(const struct layer *l, const float *x, float *dy, float *dx,
                                    const struct pass *p)
{
    const float slope = l->spec->sloped.slope;

    (void)x;
    for (size_t i = 0, m = dx ? activation_count(l, p) : 0; i < m; i++) {
        float flat = slope * dy[i];

        dx[i] = l->y[i] > -1 && l->y[i] < 1 ? dy[i] : flat;
    }
}

FAST static void sigmoid_forward(const struct layer *l, const float *x, const struct pass *p)
{
    for (size_t i = 0, m = activation_count(l, p); i < m; i++)
        l->y[i] = logistic_f32(x[i]);
}

/* dx = dy y (1 - y) */
FAST static void sigmoid_backward(const struct layer *l, const float *x, float *dy, float *dx,
                                  const struct pass *p)
{
    (void)x;
    for (size_t i = 0, m = dx ? activation_count(l, p) : 0; i < m; i++)
        dx[i] = dy[i] * l->y[i] * (1 - l->y[i]);
}

/* Hendrycks and Gimpel 2016, with their approximation: y = x/2 (1 + tanh(u)), u = sqrt(2/pi) (x + 0.044715
 * x^3). Not in place: the derivative is not a function of y. Both are computed from |x|, at most GELU_FLAT,
 * where tanh is 1 in float: then no x^3 overflows. */
static const float gelu_a = 0.79788456080286536f, gelu_b = 0.044715f;
#define GELU_FLAT 5.2f

static inline float gelu_tanh(float c)
{
    return tanh_f32_upward(gelu_a * (c + gelu_b * c * c * c));
}

struct gelu_pass {
    const float *x, *dy;
    float *y, *dx; /* dx may be dy */
};

FAST static void gelu_values(void *arg, int k, size_t from, size_t to)
{
    const struct gelu_pass *pass = arg;
    const float *restrict x = pass->x;
    float *restrict y = pass->y;

    (void)k;
    for (size_t i = from; i < to; i++) {
        float a = absolute_f32(x[i]);

        y[i] = 0.5f * (x[i] + a * gelu_tanh(limited_f32(a, a > GELU_FLAT, GELU_FLAT)));
    }
}

static void gelu_forward(const struct layer *l, const float *x, const struct pass *p)
{
    const size_t n = activation_count(l, p);

    parallel_for_values(n, n, gelu_values, &(struct gelu_pass){.x = x, .y = l->y});
}

/* y' = 1/2 + (t + |x| (1 - t^2) u') / 2 with the sign of x, t = tanh(u(|x|)), u' = sqrt(2/pi) (1 + 3 *
 * 0.044715 x^2) */
FAST static void gelu_gradients(void *arg, int k, size_t from, size_t to)
{
    const struct gelu_pass *pass = arg;
    const float *restrict x = pass->x, *dy = pass->dy;
    float *dx = pass->dx;

    (void)k;
    for (size_t i = from; i < to; i++) {
        float a = absolute_f32(x[i]);
        float c = limited_f32(a, a > GELU_FLAT, GELU_FLAT);
        float t = gelu_tanh(c);
        float du = gelu_a * (1 + 3 * gelu_b * c * c);

        dx[i] = dy[i] * (0.5f + with_sign_of(0.5f * (t + c * (1 - t * t) * du), x[i]));
    }
}

static void gelu_backward(const struct layer *l, const float *x, float *dy, float *dx, const struct pass *p)
{
    const size_t n = dx ? activation_count(l, p) : 0;

    parallel_for_values(n, n, gelu_gradients, &(struct gelu_pass){.x = x, .dy = dy, .dx = dx});
}

/* y = e^(x - max) / sum over the last dimension */
FAST static void softmax_forward(const struct layer *l, const float *x, const struct pass *p)
{
    size_t k = (size_t)l->spec->in.dim[l->spec->in.n_dims - 1];

    for (size_t row = 0, n = activation_count(l, p) / k; row < n; row++) {
        const float *in = x + row * k;
        float *out = l->y + row * k;
        float top = in[0], sum = 0;

        for (size_t j = 1; j < k; j++)
            top = in[j] > top ? in[j] : top;
        for (size_t j = 0; j < k; j++)
            out[j] = exp_f32(in[j] - top);
        for (size_t j = 0; j < k; j++)
            sum += out[j];
        for (size_t j = 0; j < k; j++)
            out[j] /= sum;
    }
}

/* dx_j = y_j (dy_j - sum_i dy_i y_i) */
FAST static void softmax_backward(const struct layer *l, const float *x, float *dy, float *dx,
                                  const struct pass *p)
{
    size_t k = (size_t)l->spec->in.dim[l->spec->in.n_dims - 1];

    (void)x;
    for (size_t row = 0, n = dx ? activation_count(l, p) / k : 0; row < n; row++) {
        const float *y = l->y + row * k;
        const float *d = dy + row * k;
        float dot = 0;

        for (size_t j = 0; j < k; j++)
            dot += d[j] * y[j];
        for (size_t j = 0; j < k; j++)
            dx[row * k + j] = y[j] * (d[j] - dot);
    }
}

const struct layer_ops layer_linear = {.is_view = true};
const struct layer_ops layer_tanh = {.in_place = true,
                                     .reads_y = true,
                                     .forward = tanh_forward,
                                     .backward = tanh_backward,
                                     .step = layer_one_step};
const struct layer_ops layer_relu = {.in_place = true,
                                     .reads_y = true,
                                     .forward = relu_forward,
                                     .backward = relu_backward,
                                     .step = layer_one_step};
const struct layer_ops layer_leaky_relu = {.in_place = true,
                                           .reads_y = true,
                                           .forward = leaky_relu_forward,
                                           .backward = leaky_relu_backward,
                                           .step = layer_one_step};
const struct layer_ops layer_hard_tanh = {.in_place = true,
                                          .reads_y = true,
                                          .forward = hard_tanh_forward,
                                          .backward = hard_tanh_backward,
                                          .step = layer_one_step};
const struct layer_ops layer_sigmoid = {.in_place = true,
                                        .reads_y = true,
                                        .forward = sigmoid_forward,
                                        .backward = sigmoid_backward,
                                        .step = layer_one_step};
const struct layer_ops layer_gelu = {
    .back_in_place = true, .forward = gelu_forward, .backward = gelu_backward, .step = layer_one_step};
const struct layer_ops layer_softmax = {.in_place = true,
                                        .reads_y = true,
                                        .forward = softmax_forward,
                                        .backward = softmax_backward,
                                        .step = layer_one_step};
