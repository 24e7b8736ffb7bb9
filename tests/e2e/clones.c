/* The results of loops marked FAST (shared/base/compiler.h) and of lanes (nn/kernels/lanes.h) on the same
 * numbers, as bytes: the test compiles them anew for each instruction set and for both numbers of lanes,
 * and compares. Odd sizes, so that both whole vectors and remainders occur. */
#include <stdio.h>

#include "codecs/compress/loops.h"
#include "nn/init.h"
#include "nn/kernels/narrow.h"
#include "nn/kernels/transpose.h"
#include "nn/layers/conv.h"
#include "nn/layers/layer.h"
#include "nn/loss.h"
#include "nn/optimizer.h"
#include "runner/base/vector.h"

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

static int put_optimizer(enum optimizer_kind kind)
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

/* 17 output columns: a block and one more; 5 filters: a group and one more. */
static void put_convolution(void)
{
    enum { HEIGHT = 7, COLS = 19, CHANNELS = 2, FILTERS = 5, WINDOW = 3 };
    enum { N_IN = HEIGHT * COLS * CHANNELS, N_OUT = (HEIGHT - 2) * (COLS - 2) * FILTERS };
    static float in[N_IN], out[N_OUT], w[WINDOW * WINDOW * CHANNELS * FILTERS], b[FILTERS], space[1 << 14];
    const struct layer_spec spec = {
        .in = {3, {HEIGHT, COLS, CHANNELS}},
        .out = {3, {HEIGHT - 2, COLS - 2, FILTERS}},
        .n_in = N_IN,
        .n_out = N_OUT,
        .window = {.rows = WINDOW, .cols = WINDOW, .row_stride = 1, .col_stride = 1},
        .tensors = {{.n_dims = 4, .shape = {WINDOW, WINDOW, CHANNELS, FILTERS}},
                    {.n_dims = 1, .shape = {FILTERS}}}};
    const struct layer l = {.spec = &spec, .y = out, .work = space, .params = {x, x + 100}, .grads = {w, b}};

    for (size_t i = 0; i < N_IN; i++)
        in[i] = x[i % N];
    conv_direct.forward(&l, in, 1);
    put(out, sizeof out);
    conv_direct.weight_gradient(&l, in, out, 1);
    put(w, sizeof w);
    put(b, sizeof b);
}

/* 11 channels: whole lanes and some more. */
static void put_pool(void)
{
    const struct layer_spec spec = {.in = {3, {6, 6, 11}},
                                    .out = {3, {3, 3, 11}},
                                    .n_in = 6 * 6 * 11,
                                    .n_out = 3 * 3 * 11,
                                    .window = {.rows = 2, .cols = 2, .row_stride = 2, .col_stride = 2}};
    const struct layer l = {.spec = &spec, .y = y, .work = work};
    const struct pass p = {.n = 1, .is_training = true};

    layer_max_pool.forward(&l, x, &p);
    layer_max_pool.backward(&l, x, dy, dx, &p);
    put(y, sizeof y);
    put(dx, sizeof dx);
}

/* Narrow ones where the processor has fused operations. */
static void put_products(void)
{
    enum { M = 19, K = 21 };
    static float c[M * NARROW_COLS];

    for (int n = 1; n <= NARROW_COLS; n++)
        for (int a_t = 0; a_t < 2; a_t++)
            if (narrow_matmul(a_t, false, M, n, K, x, dy, 0, c))
                put(c, (size_t)(M * n) * sizeof *c);
    transpose(c, TRANSPOSE_ROWS, x, TRANSPOSE_COLS, TRANSPOSE_ROWS, TRANSPOSE_COLS);
    put(c, TRANSPOSE_ROWS * TRANSPOSE_COLS * sizeof *c);
}

static void put_vectors(struct rng *r)
{
    const float *const in[] = {x, dy, y};
    struct random_lanes lanes;
    double sums[3];
    uint16_t half[N];
    uint8_t q[N];

    vector_sum(dx, in, 3, N, 0.3f);
    put(dx, sizeof dx);
    sums[0] = loops_portable.dot(x, dy, N);
    loops_portable.sums_by_sign(x, N, &sums[1], &sums[2]);
    put(sums, sizeof sums);
    loops_portable.to_fp16(half, x, N);
    put(half, sizeof half);
    random_lanes_init(&lanes, r);
    loops_portable.round_random(q, x, N, 3, 20, &lanes);
    put(q, sizeof q);
    put(&lanes, sizeof lanes);
}

int main(void)
{
    static const struct layer_ops *const layers[] = {&layer_tanh,      &layer_relu, &layer_sigmoid,
                                                     &layer_hard_tanh, &layer_gelu, &layer_softmax,
                                                     &layer_layer_norm};
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
    put_convolution();
    put_pool();
    put_products();
    put_vectors(&r);
    for (int kind = 0; kind < N_LOSS_KINDS; kind++)
        put_loss((enum loss_kind)kind);
    for (enum optimizer_kind k = 0; k < N_OPTIMIZERS; k++)
        if (put_optimizer(k) < 0)
            return 1;
    for (size_t cols = WIDTH; cols > 0; cols /= 4) {
        matrix.shape[0] = WIDTH;
        matrix.shape[1] = matrix.fan_out = cols;
        init_tensor(q, &matrix, &r);
        put(q, sizeof q);
    }
    return 0;
}
