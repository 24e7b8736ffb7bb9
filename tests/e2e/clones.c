/* What loops behind FAST (nn/fast.h) make of the same numbers, as bytes: for each instruction set the test
 * compiles them anew and compares. Odd sizes, so that whole vectors and what is left over both occur. */
#include <stdio.h>

#include "nn/init.h"
#include "nn/layer.h"
#include "nn/loss.h"
#include "nn/optimizer.h"

enum { ROWS = 7, WIDTH = 61, N = ROWS * WIDTH };

static float x[N], dy[N], y[N], dx[N], work[N + ROWS], params[2][WIDTH], grads[2][WIDTH];

static void put(const void *values, size_t size)
{
    fwrite(values, 1, size, stdout);
}

static void put_layer(const struct layer_ops *ops)
{
    const struct layer_spec spec = {.in = {2, {1, WIDTH}},
                                    .n_in = WIDTH,
                                    .n_out = WIDTH,
                                    .norm.epsilon = 1e-5f,
                                    .tensors = {{.shape = {WIDTH}}, {.shape = {WIDTH}}}};
    const struct layer l = {
        .spec = &spec, .y = y, .work = work, .params = {params[0], params[1]}, .grads = {grads[0], grads[1]}};
    const struct pass p = {.n = ROWS, .is_training = true};

    ops->forward(&l, x, &p);
    ops->backward(&l, x, dy, dx, &p);
    put(y, sizeof y);
    put(dx, sizeof dx);
    put(grads, sizeof grads);
}

static void put_loss(enum loss_kind kind)
{
    int32_t labels[ROWS];
    size_t n_right = 0;
    double loss;

    for (int i = 0; i < ROWS; i++)
        labels[i] = i * 5;
    loss = loss_of(kind, x, &(struct truth){.labels = labels}, ROWS, WIDTH, dx, &n_right);
    put(&loss, sizeof loss);
    put(dx, sizeof dx);
}

static int put_optimizer(const char *kind)
{
    const struct optimizer_config cfg = {.kind = kind, .momentum = 0.9f, .weight_decay = 0.01f};
    struct optimizer *o;
    double norm;
    struct err e;

    if (optimizer_new(&o, &cfg, N, &e) < 0)
        return -1;
    for (int t = 0; t < 5; t++)
        optimizer_step(o, y, x, 0.1f, 0.7f);
    norm = gradient_norm(y, N);
    put(y, sizeof y);
    put(&norm, sizeof norm);
    optimizer_free(o);
    return 0;
}

int main(void)
{
    static const struct layer_ops *const layers[] = {&layer_tanh, &layer_relu,    &layer_sigmoid,
                                                     &layer_gelu, &layer_softmax, &layer_layer_norm};
    static const char *const optimizers[] = {"sgd",   "momentum", "nesterov", "adam",
                                             "adamw", "adagrad",  "rmsprop",  "adadelta"};
    static float q[WIDTH * WIDTH];
    struct tensor_spec matrix = {.n_dims = 2, .init = INIT_ORTHOGONAL};
    struct rng r;

    rng_init(&r, 1, 2, 3);
    for (int i = 0; i < N; i++)
        x[i] = rng_normal(&r);
    for (int i = 0; i < WIDTH; i++)
        params[0][i] = params[1][i] = rng_normal(&r);
    for (size_t k = 0; k < sizeof layers / sizeof *layers; k++) {
        for (int i = 0; i < N; i++)
            dy[i] = rng_normal(&r);
        put_layer(layers[k]);
    }
    for (int kind = 0; kind < N_LOSS_KINDS; kind++)
        put_loss((enum loss_kind)kind);
    for (size_t k = 0; k < sizeof optimizers / sizeof *optimizers; k++)
        if (put_optimizer(optimizers[k]) < 0)
            return 1;
    for (size_t cols = WIDTH; cols > 0; cols /= 4) {
        matrix.shape[0] = WIDTH;
        matrix.shape[1] = matrix.fan_out = cols;
        init_tensor(q, &matrix, &r);
        put(q, sizeof q);
    }
    return 0;
}
