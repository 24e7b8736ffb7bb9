/* Activations: y = f(x) value by value, in place. Each derivative is a function of y, so x need not be kept.
 * A value that is not a number stays one: the loss must show it. */
#include "nn/layer.h"
#include "nn/vecmath.h"

static size_t count(const struct layer *l, int n)
{
    return (size_t)n * (size_t)l->spec.n_out;
}

static void tanh_forward(const struct layer *l, const float *x, int n)
{
    for (size_t i = 0, m = count(l, n); i < m; i++)
        l->y[i] = tanh_f32(x[i]);
}

/* dx = dy (1 - y^2) */
static void tanh_backward(const struct layer *l, const float *x, const float *dy, float *dx, int n)
{
    (void)x;
    for (size_t i = 0, m = dx ? count(l, n) : 0; i < m; i++)
        dx[i] = dy[i] * (1 - l->y[i] * l->y[i]);
}

static void relu_forward(const struct layer *l, const float *x, int n)
{
    for (size_t i = 0, m = count(l, n); i < m; i++)
        l->y[i] = x[i] < 0 ? 0 : x[i];
}

/* dx = dy where y > 0; the derivative at 0 is taken as 0 */
static void relu_backward(const struct layer *l, const float *x, const float *dy, float *dx, int n)
{
    (void)x;
    for (size_t i = 0, m = dx ? count(l, n) : 0; i < m; i++)
        dx[i] = l->y[i] > 0 ? dy[i] : 0;
}

static void sigmoid_forward(const struct layer *l, const float *x, int n)
{
    for (size_t i = 0, m = count(l, n); i < m; i++)
        l->y[i] = logistic_f32(x[i]);
}

/* dx = dy y (1 - y) */
static void sigmoid_backward(const struct layer *l, const float *x, const float *dy, float *dx, int n)
{
    (void)x;
    for (size_t i = 0, m = dx ? count(l, n) : 0; i < m; i++)
        dx[i] = dy[i] * l->y[i] * (1 - l->y[i]);
}

const struct layer_ops layer_tanh = {
    .in_place = true, .reads_y = true, .forward = tanh_forward, .backward = tanh_backward};
const struct layer_ops layer_relu = {
    .in_place = true, .reads_y = true, .forward = relu_forward, .backward = relu_backward};
const struct layer_ops layer_sigmoid = {
    .in_place = true, .reads_y = true, .forward = sigmoid_forward, .backward = sigmoid_backward};
