#include <math.h>

#include "nn/kernels/blas.h"
#include "nn/kernels/cpu.h"
#include "nn/layers/conv.h"
#include "shared/base/json.h"
#include "shared/base/rng.h"
#include "tests/lib/layer_check.h"
#include "tests/unit/unit.h"

struct shape_case {
    int h, w, c, filters, rows, cols, row_stride, col_stride;
    bool same;
};

static const struct shape_case shapes[] =
    {
        {28, 28, 1, 3, 3, 3, 1, 1, false},  /* the ConvNet of Ray's tutorial */
        {28, 28, 1, 32, 3, 3, 1, 1, false}, /* LeNet's first */
        {12, 12, 32, 64, 3, 3, 1, 1, false},
        {7, 5, 3, 2, 1, 1, 1, 1, false}, /* a 1x1 window */
        {7, 5, 16, 8, 1, 1, 1, 1, false},
        {7, 5, 3, 2, 1, 1, 2, 3, false}, /* whose stride omits most of the image */
        {6, 9, 2, 5, 6, 9, 1, 1, false}, /* as large as the image */
        {1, 1, 1, 1, 1, 1, 1, 1, false},
        {9, 9, 4, 4, 2, 2, 3, 3, false}, /* gaps between the windows */
        {9, 8, 1, 7, 2, 3, 4, 1, false},
        {8, 8, 3, 6, 2, 2, 1, 1, true}, /* an even window: the odd zero is appended */
        {8, 7, 8, 16, 4, 2, 1, 1, true},
        {7, 9, 1, 4, 5, 3, 2, 2, true},
        {7, 9, 2, 9, 5, 3, 2, 1, true},
        {3, 2, 2, 3, 7, 7, 1, 1, true}, /* larger than the image */
        {10, 10, 4, 33, 3, 3, 1, 1, true},
        {5, 40, 1, 5, 3, 3, 1, 1, false}, /* rows of more than one block, and of exactly one */
        {4, 18, 2, 3, 3, 3, 1, 1, false},
        {32, 32, 3, 16, 5, 5, 1, 1, true},
        {6, 6, 64, 8, 3, 3, 1, 1, true},
        {40, 40, 33, 2, 7, 7, 2, 2, false}, /* several chunks of columns */
        {9, 11, 4, 2, 2, 2, 3, 1, false},   /* rows omitted, but no columns */
        {9, 11, 3, 8, 4, 3, 2, 1, true},
        {16, 9, 1, 13, 16, 2, 1, 1, false},
        {3, 8, 4, 4, 1, 1, 1, 1, false},
        {6, 6, 16, 32, 3, 3, 1, 1, false},  /* one tile of 4 x 4 */
        {12, 9, 32, 24, 3, 3, 1, 1, false}, /* some that end outside */
        {11, 13, 24, 32, 3, 3, 1, 1, true}, /* and begin there */
        {4, 4, 256, 16, 3, 3, 1, 1, true},
        {8, 8, 4, 16, 1, 1, 1, 2, false}, /* oneDNN's dW of these is wrong on AVX2, */
        {12, 6, 5, 9, 1, 1, 2, 1, true},
        {8, 8, 16, 24, 1, 1, 2, 2, false}, /* and right of this one */
        {4, 2, 1, 3, 2, 3, 1, 2, true},    /* y of these is wrong with "brg" of oneDNN 3 */
        {8, 3, 1, 4, 3, 4, 1, 3, true},
};

enum { MAX_BATCH = 5 };

struct fixture {
    struct layer_spec spec;
    struct layer l;
    size_t n_x, n_y, n_w, n_b; /* of the whole batch; of the parameters */
    float *x, *dy, *dx;
};

/* Values that are not written must not be right by accident. */
static void spoil(float *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        p[i] = NAN;
}

static void spoil_results(struct fixture *t)
{
    spoil(t->l.y, t->n_y);
    spoil(t->dx, t->n_x);
    spoil(t->l.grads[CONV_WEIGHT], t->n_w);
    spoil(t->l.grads[CONV_BIAS], t->n_b);
    spoil(t->l.work, layer_conv2d.work(&t->spec, MAX_BATCH));
}

static void set_up(struct fixture *t, const struct shape_case *s)
{
    char text[200];
    json_t *doc;
    struct err e;
    struct rng r;

    *t = (struct fixture){.spec.in = {.n_dims = 3, .dim = {s->h, s->w, s->c}}};
    snprintf(text, sizeof text,
             "{\"kind\": \"conv2d\", \"filters\": %d, \"kernel\": [%d, %d], \"stride\": [%d, %d], "
             "\"padding\": \"%s\"}",
             s->filters, s->rows, s->cols, s->row_stride, s->col_stride, s->same ? "same" : "valid");
    assert_ok(json_parse(&doc, text, strlen(text), "layer", &e));
    assert_ok(layer_spec_parse(&t->spec, doc, "", &e));
    json_decref(doc);
    rng_init(&r, 1, 2, 3);
    t->n_x = (size_t)t->spec.n_in * MAX_BATCH;
    t->n_y = (size_t)t->spec.n_out * MAX_BATCH;
    t->n_w = tensor_spec_count(&t->spec.tensors[CONV_WEIGHT]);
    t->n_b = tensor_spec_count(&t->spec.tensors[CONV_BIAS]);
    t->l = (struct layer){.ops = &layer_conv2d, .spec = &t->spec};
    t->l.params[CONV_WEIGHT] = unit_normals(t->n_w, &r);
    t->l.params[CONV_BIAS] = unit_normals(t->n_b, &r);
    t->l.grads[CONV_WEIGHT] = unit_normals(t->n_w, &r);
    t->l.grads[CONV_BIAS] = unit_normals(t->n_b, &r);
    t->l.y = unit_normals(t->n_y, &r);
    t->l.work = unit_normals(layer_conv2d.work(&t->spec, MAX_BATCH), &r);
    t->x = unit_normals(t->n_x, &r);
    t->dy = unit_normals(t->n_y, &r);
    t->dx = unit_normals(t->n_x, &r);
    assert_ok(layer_conv2d.open(&t->l, MAX_BATCH, &e));
    spoil_results(t);
}

static void tear_down(struct fixture *t)
{
    layer_conv2d.close(&t->l);
    assert_null(t->l.own);
    for (int k = 0; k < 2; k++) {
        free(t->l.params[k]);
        free(t->l.grads[k]);
    }
    free(t->l.y);
    free(t->l.work);
    free(t->x);
    free(t->dy);
    free(t->dx);
}

/* The formula of nn/layers/conv.h and its derivatives, product by product. Adds to dw, db and dx. */
static void naive(const struct fixture *t, int n, double *y, double *dw, double *db, double *dx)
{
    const struct layer_spec *s = &t->spec;
    const struct window_spec *w = &s->window;
    int c = s->in.dim[2], filters = s->out.dim[2];
    int pixels = s->out.dim[0] * s->out.dim[1];

    for (int p = 0; p < n * pixels; p++)
        for (int f = 0; f < filters; f++) {
            int row = p % pixels / s->out.dim[1] * w->row_stride - w->top;
            int col = p % pixels % s->out.dim[1] * w->col_stride - w->left;
            double d = (double)t->dy[p * filters + f];

            y[p * filters + f] = (double)t->l.params[CONV_BIAS][f];
            db[f] += d;
            for (int i = 0; i < w->rows * w->cols * c; i++) {
                int at_row = row + i / c / w->cols, at_col = col + i / c % w->cols;
                int in = ((p / pixels * s->in.dim[0] + at_row) * s->in.dim[1] + at_col) * c + i % c;

                if (at_row < 0 || at_row >= s->in.dim[0] || at_col < 0 || at_col >= s->in.dim[1])
                    continue;
                y[p * filters + f] += (double)t->x[in] * (double)t->l.params[CONV_WEIGHT][i * filters + f];
                dw[i * filters + f] += (double)t->x[in] * d;
                dx[in] += (double)t->l.params[CONV_WEIGHT][i * filters + f] * d;
            }
        }
}

/* The largest difference, relative to the largest value. */
static double off_by(const float *is, const double *should, size_t n)
{
    double off = 0, size = 0;

    for (size_t i = 0; i < n; i++) {
        double d = fabs((double)is[i] - should[i]);

        off = d <= off ? off : d; /* also true if it is NaN */
        size = fmax(size, fabs(should[i]));
    }
    return off / (size > 0 ? size : 1);
}

#define assert_all_near(is, should, n)                                                                       \
    do {                                                                                                     \
        double off_ = off_by(is, should, n);                                                                 \
        if (!(off_ < 1e-5))                                                                                  \
            fail_msg("%s, shape %zu, batch of %d: " #is " is off by %g", name, i, batch, off_);              \
    } while (0)

/* Of each shape with one sample and with MAX_BATCH: all tests have the same images and weights of a shape. */
static struct naive_results {
    double *y, *dw, *db, *dx;
} known[N_OF(shapes)][2];

static const struct naive_results *naive_of(const struct fixture *t, size_t i, int batch)
{
    struct naive_results *k = &known[i][batch > 1];

    if (!k->y) {
        k->y = calloc((size_t)(t->spec.n_out * batch), sizeof *k->y);
        k->dx = calloc((size_t)(t->spec.n_in * batch), sizeof *k->dx);
        k->dw = calloc(t->n_w, sizeof *k->dw);
        k->db = calloc(t->n_b, sizeof *k->db);
        assert_true(k->y && k->dx && k->dw && k->db);
        naive(t, batch, k->y, k->dw, k->db, k->dx);
    }
    return k;
}

static int forget_naive(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_OF(shapes); i++)
        for (int k = 0; k < 2; k++) {
            free(known[i][k].y);
            free(known[i][k].dw);
            free(known[i][k].db);
            free(known[i][k].dx);
        }
    return 0;
}

/* Compares the results of one forward and backward pass for the first samples with the naive loop. */
static void expect_right(const struct fixture *t, const char *name, size_t i, int batch)
{
    const struct naive_results *k = naive_of(t, i, batch);

    assert_all_near(t->l.y, k->y, (size_t)(t->spec.n_out * batch));
    assert_all_near(t->l.grads[CONV_WEIGHT], k->dw, t->n_w);
    assert_all_near(t->l.grads[CONV_BIAS], k->db, t->n_b);
    assert_all_near(t->dx, k->dx, (size_t)(t->spec.n_in * batch));
}

/* Runs one algorithm on all shapes that it supports, with one sample and with the maximum. Returns the
 * number of shapes. */
static int check_path(const char *name, const struct conv_path *path, const struct conv_path *down,
                      bool (*takes)(const struct layer *l))
{
    int n_taken = 0;

    for (size_t i = 0; i < N_OF(shapes); i++) {
        struct fixture t;

        set_up(&t, &shapes[i]);
        n_taken += takes(&t.l);
        for (int batch = 1; takes(&t.l) && batch <= MAX_BATCH; batch += MAX_BATCH - 1) {
            spoil_results(&t);
            path->forward(&t.l, t.x, batch);
            if (path->backward)
                path->backward(&t.l, t.x, t.dy, t.dx, &(struct pass){.n = batch, .is_training = true});
            else {
                path->weight_gradient(&t.l, t.x, t.dy, batch);
                down->input_gradient(&t.l, t.dy, t.dx, batch);
            }
            expect_right(&t, name, i, batch);
        }
        tear_down(&t);
    }
    return n_taken;
}

static bool takes_all(const struct layer *l)
{
    (void)l;
    return true;
}

static bool is_direct(const struct layer *l)
{
    return conv_direct_takes(l->spec);
}

static bool is_winograd(const struct layer *l)
{
    return conv_winograd_takes(l->spec);
}

static bool is_onednn(const struct layer *l)
{
    return l->own != NULL;
}

TEST(matrix_products_match_the_naive_loop)
{
    assert_int_equal(check_path("columns", &conv_columns, &conv_columns, takes_all), N_OF(shapes));
}

TEST(the_direct_loop_matches_the_naive_loop)
{
    assert_true(check_path("direct", &conv_direct, &conv_columns, is_direct) >= 10);
}

TEST(winograd_tiles_match_the_naive_loop)
{
    assert_int_equal(check_path("Winograd", &conv_winograd, NULL, is_winograd), 5);
}

TEST(onednn_matches_the_naive_loop)
{
    int n = check_path("oneDNN", &conv_onednn, &conv_onednn, is_onednn);

    print_message("oneDNN takes %d of %zu shapes\n", n, N_OF(shapes));
    if (!blas_allows_onednn())
        assert_int_equal(n, 0);
    else if (cpu_has_avx2())
        assert_true(n >= 10);
}

TEST(onednn_is_not_used_for_1x1_windows_where_it_writes_out_of_bounds)
{
    static const struct shape_case overrun[] = {{8, 6, 10, 11, 1, 1, 2, 1, false},
                                                {12, 6, 1, 16, 1, 1, 1, 2, true},
                                                {3, 3, 15, 1, 1, 1, 3, 3, false}};

    for (size_t i = 0; i < N_OF(overrun); i++) {
        struct fixture t;

        set_up(&t, &overrun[i]);
        assert_false(is_onednn(&t.l));
        tear_down(&t);
    }
}

static void run_layer(struct fixture *t, const float *x, float *dx, int n)
{
    struct pass p = {.n = n, .is_training = true};

    layer_conv2d.forward(&t->l, x, &p);
    layer_conv2d.backward(&t->l, x, t->dy, dx, &p);
}

TEST(the_layer_matches_the_naive_loop_with_every_algorithm)
{
    for (size_t i = 0; i < N_OF(shapes); i++)
        for (int batch = 1; batch <= MAX_BATCH; batch += MAX_BATCH - 1) {
            struct fixture t;

            set_up(&t, &shapes[i]);
            run_layer(&t, t.x, t.dx, batch);
            expect_right(&t, "the layer", i, batch);
            tear_down(&t);
        }
}

TEST(few_channels_and_filters_use_the_direct_loop)
{
    struct layer_spec s = {.in.dim = {28, 28, 1}, .out.dim = {26, 26, 3}, .window = {3, 3, 1, 1, 0, 0}};

    assert_true(conv_direct_takes(&s));
    s.in.dim[2] = 64;
    assert_false(conv_direct_takes(&s));
    s.in.dim[2] = 1;
    s.out.dim[2] = 64;
    assert_false(conv_direct_takes(&s));
    s.out.dim[2] = 3;
    s.window.col_stride = 2; /* adjacent outputs are not adjacent in the image */
    assert_false(conv_direct_takes(&s));
    s.window.col_stride = 1;
    s.window.cols = 4096; /* the padding of each row */
    assert_false(conv_direct_takes(&s));
}

/* Cases in which it is faster by docs/engine.md. */
TEST(winograd_tiles_are_used_for_3x3_windows_that_fill_them)
{
    struct layer_spec s = {.in.dim = {26, 26, 32}, .out.dim = {24, 24, 64}, .window = {3, 3, 1, 1, 0, 0}};

    assert_true(conv_winograd_takes(&s));
    s.out.dim[1] = 1; /* a quarter of each tile */
    assert_false(conv_winograd_takes(&s));
    s.out.dim[1] = 24;
    s.window.col_stride = 2;
    assert_false(conv_winograd_takes(&s));
    s.window.col_stride = 1;
    s.window.rows = 5;
    assert_false(conv_winograd_takes(&s));
    s.window.rows = 3;
    s.in.dim[2] = 36; /* not a multiple of a vector */
    assert_false(conv_winograd_takes(&s));
    s.in.dim[2] = 8;
    assert_false(conv_winograd_takes(&s));
    s.in.dim[2] = 1 << 16; /* its work space would be larger than any images */
    assert_false(conv_winograd_takes(&s));
}

TEST(the_same_images_give_the_same_bits)
{
    for (size_t i = 0; i < N_OF(shapes); i++) {
        struct fixture a, t;

        set_up(&a, &shapes[i]);
        set_up(&t, &shapes[i]);
        run_layer(&a, a.x, a.dx, MAX_BATCH);
        for (int again = 0; again < 3; again++) {
            spoil_results(&t);
            run_layer(&t, t.x, t.dx, MAX_BATCH);
            assert_memory_equal(a.l.y, t.l.y, a.n_y * sizeof(float));
            assert_memory_equal(a.dx, t.dx, a.n_x * sizeof(float));
            assert_memory_equal(a.l.grads[CONV_WEIGHT], t.l.grads[CONV_WEIGHT], a.n_w * sizeof(float));
            assert_memory_equal(a.l.grads[CONV_BIAS], t.l.grads[CONV_BIAS], a.n_b * sizeof(float));
        }
        tear_down(&a);
        tear_down(&t);
    }
}

/* The last batch of a file is short. */
TEST(a_smaller_batch_leaves_the_other_rows_unchanged)
{
    for (size_t i = 0; i < N_OF(shapes); i++) {
        struct fixture t;

        set_up(&t, &shapes[i]);
        run_layer(&t, t.x, t.dx, 2);
        for (size_t k = 0; k < t.n_y; k++)
            assert_true(isnan(t.l.y[k]) == (k >= 2 * (size_t)t.spec.n_out));
        for (size_t k = 0; k < t.n_x; k++)
            assert_true(isnan(t.dx[k]) == (k >= 2 * (size_t)t.spec.n_in));
        tear_down(&t);
    }
}

TEST(the_first_layer_computes_no_input_gradient)
{
    struct fixture t;

    set_up(&t, &shapes[2]);
    run_layer(&t, t.x, NULL, MAX_BATCH);
    for (size_t k = 0; k < t.n_w; k++)
        assert_true(isfinite(t.l.grads[CONV_WEIGHT][k]));
    for (size_t k = 0; k < t.n_x; k++)
        assert_true(isnan(t.dx[k]));
    tear_down(&t);
}

TEST(a_nan_reaches_each_window_that_covers_it)
{
    static const size_t one_of_each_path[] = {0, 1, 2, 14};

    for (size_t i = 0; i < N_OF(one_of_each_path); i++) {
        struct fixture t;
        bool seen = false;

        set_up(&t, &shapes[one_of_each_path[i]]);
        t.x[0] = NAN;
        run_layer(&t, t.x, t.dx, 1);
        for (int k = 0; k < t.spec.n_out; k++)
            seen = seen || isnan(t.l.y[k]);
        assert_true(seen);
        tear_down(&t);
    }
}

#define CONV(filters, kernel, stride, padding)                                                               \
    "{\"kind\": \"conv2d\", \"filters\": " filters ", \"kernel\": " kernel ", \"stride\": " stride           \
    ", \"padding\": \"" padding "\"}"
#define TANH     ", {\"kind\": \"tanh\"}, "
#define AVG_POOL ", {\"kind\": \"avg_pool\", \"size\": 2, \"padding\": \"same\"}"
#define CLASSES  ", {\"kind\": \"flatten\"}, {\"kind\": \"dense\", \"units\": 3}"

/* Through the whole engine: order of layers, shared gradients and work space. */
TEST(gradients_agree_with_central_differences)
{
    static const char *const nets[] = {
        CONV("4", "3", "1", "valid") CLASSES,
        CONV("8", "[2, 3]", "1", "same") TANH CONV("16", "3", "2", "valid") CLASSES,
        CONV("3", "2", "1", "valid") TANH CONV("2", "3", "1", "valid") AVG_POOL CLASSES,
    };

    check_gradients("[6, 5, 2]", nets, N_OF(nets), 4, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matrix_products_match_the_naive_loop),
        cmocka_unit_test(the_direct_loop_matches_the_naive_loop),
        cmocka_unit_test(winograd_tiles_match_the_naive_loop),
        cmocka_unit_test(onednn_matches_the_naive_loop),
        cmocka_unit_test(onednn_is_not_used_for_1x1_windows_where_it_writes_out_of_bounds),
        cmocka_unit_test(the_layer_matches_the_naive_loop_with_every_algorithm),
        cmocka_unit_test(few_channels_and_filters_use_the_direct_loop),
        cmocka_unit_test(winograd_tiles_are_used_for_3x3_windows_that_fill_them),
        cmocka_unit_test(the_same_images_give_the_same_bits),
        cmocka_unit_test(a_smaller_batch_leaves_the_other_rows_unchanged),
        cmocka_unit_test(the_first_layer_computes_no_input_gradient),
        cmocka_unit_test(a_nan_reaches_each_window_that_covers_it),
        cmocka_unit_test(gradients_agree_with_central_differences),
    };

    return cmocka_run_group_tests(tests, NULL, forget_naive);
}
