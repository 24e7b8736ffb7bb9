#include <math.h>

#include "nn/layers/layer.h"
#include "shared/base/json.h"
#include "shared/base/rng.h"
#include "tests/lib/layer_check.h"

struct shape_case {
    int h, w, c, rows, cols, row_stride, col_stride;
    bool same;
};

static const struct shape_case shapes[] = {
    {26, 26, 3, 3, 3, 3, 3, false},  /* the ConvNet of Ray's tutorial: two rows and columns are omitted */
    {24, 24, 64, 2, 2, 2, 2, false}, /* LeNet */
    {7, 5, 1, 3, 3, 1, 1, false},    /* windows that overlap */
    {7, 5, 8, 3, 2, 2, 1, true},     /* and extend over the edge */
    {6, 6, 9, 2, 2, 1, 1, true},     /* an even window: the odd zero is appended */
    {5, 7, 17, 5, 7, 5, 7, false},   /* as large as the image */
    {3, 2, 4, 7, 7, 2, 2, true},     /* larger */
    {9, 9, 7, 2, 1, 4, 3, false},    /* gaps between the windows */
    {4, 4, 13, 1, 1, 1, 1, false},   /* one pixel */
    {1, 1, 2, 1, 1, 1, 1, true},     {10, 3, 16, 4, 3, 4, 3, true},
};

enum { MAX_BATCH = 4 };

struct fixture {
    struct layer_spec spec;
    struct layer l;
    size_t n_x, n_y;
    float *x, *dy, *dx;
};

static void set_up(struct fixture *t, const char *kind, const struct layer_ops *ops,
                   const struct shape_case *s)
{
    char text[200];
    json_t *doc;
    struct err e;
    struct rng r;

    *t = (struct fixture){.spec.in = {.n_dims = 3, .dim = {s->h, s->w, s->c}}};
    snprintf(text, sizeof text,
             "{\"kind\": \"%s\", \"size\": [%d, %d], \"stride\": [%d, %d], \"padding\": \"%s\"}", kind,
             s->rows, s->cols, s->row_stride, s->col_stride, s->same ? "same" : "valid");
    assert_ok(json_parse(&doc, text, strlen(text), "layer", &e));
    assert_ok(layer_spec_parse(&t->spec, doc, "", &e));
    json_decref(doc);
    rng_init(&r, 1, 2, 3);
    t->n_x = (size_t)t->spec.n_in * MAX_BATCH;
    t->n_y = (size_t)t->spec.n_out * MAX_BATCH;
    t->l = (struct layer){.ops = ops, .spec = &t->spec};
    t->l.y = unit_normals(t->n_y, &r);
    t->l.work = unit_normals(ops->work ? ops->work(&t->spec, MAX_BATCH) : 1, &r);
    t->x = unit_normals(t->n_x, &r);
    t->dy = unit_normals(t->n_y, &r);
    t->dx = unit_normals(t->n_x, &r);
}

static void tear_down(struct fixture *t)
{
    free(t->l.y);
    free(t->l.work);
    free(t->x);
    free(t->dy);
    free(t->dx);
}

static void run_layer(struct fixture *t, int n)
{
    struct pass p = {.n = n, .is_training = true};

    for (size_t i = 0; i < t->n_y; i++)
        t->l.y[i] = NAN;
    for (size_t i = 0; i < t->n_x; i++)
        t->dx[i] = NAN;
    t->l.ops->forward(&t->l, t->x, &p);
    t->l.ops->backward(&t->l, t->x, t->dy, t->dx, &p);
}

/* The values of x covered by window `out`, counted through the batch, in order; returns how many. */
static int covered(const struct fixture *t, int out, int at[256])
{
    const struct layer_spec *s = &t->spec;
    int c = s->in.dim[2], pixel = out / c % (s->out.dim[0] * s->out.dim[1]);
    int n = 0;

    for (int i = 0; i < s->window.rows * s->window.cols; i++) {
        int row = pixel / s->out.dim[1] * s->window.row_stride - s->window.top + i / s->window.cols;
        int col = pixel % s->out.dim[1] * s->window.col_stride - s->window.left + i % s->window.cols;

        if (row >= 0 && row < s->in.dim[0] && col >= 0 && col < s->in.dim[1])
            at[n++] = out / s->n_out * s->n_in + (row * s->in.dim[1] + col) * c + out % c;
    }
    assert_true(n > 0);
    return n;
}

static void expect_all_near(const float *is, const double *should, size_t n, size_t shape)
{
    for (size_t i = 0; i < n; i++)
        if (!(fabs((double)is[i] - should[i]) < 1e-5))
            fail_msg("shape %zu, value %zu: %g, not %g", shape, i, (double)is[i], should[i]);
}

/* With one sample and with the maximum, against the definition at the top of layer_pool.c. */
static void check_all(const char *kind, const struct layer_ops *ops, bool is_max)
{
    for (size_t i = 0; i < N_OF(shapes); i++)
        for (int n = 1; n <= MAX_BATCH; n += MAX_BATCH - 1) {
            struct fixture t;
            double *y, *dx;
            int at[256];

            set_up(&t, kind, ops, &shapes[i]);
            y = calloc(t.n_y, sizeof *y);
            dx = calloc(t.n_x, sizeof *dx);
            assert_true(y && dx);
            for (int out = 0; out < n * t.spec.n_out; out++) {
                int m = covered(&t, out, at), best = at[0];

                for (int k = 0; k < m; k++) {
                    best = t.x[at[k]] > t.x[best] ? at[k] : best;
                    y[out] += (double)t.x[at[k]] / m;
                    dx[at[k]] += is_max ? 0 : (double)t.dy[out] / m;
                }
                if (is_max) {
                    y[out] = (double)t.x[best];
                    dx[best] += (double)t.dy[out];
                }
            }
            run_layer(&t, n);
            expect_all_near(t.l.y, y, (size_t)(n * t.spec.n_out), i);
            expect_all_near(t.dx, dx, (size_t)(n * t.spec.n_in), i);
            for (size_t k = (size_t)(n * t.spec.n_out); k < t.n_y; k++)
                assert_true(isnan(t.l.y[k]));
            free(y);
            free(dx);
            tear_down(&t);
        }
}

TEST(max_pool_matches_the_naive_loop)
{
    check_all("max_pool", &layer_max_pool, true);
}

TEST(avg_pool_matches_the_naive_loop)
{
    check_all("avg_pool", &layer_avg_pool, false);
}

TEST(padding_is_never_the_maximum)
{
    struct fixture t;

    set_up(&t, "max_pool", &layer_max_pool, &shapes[3]);
    for (size_t i = 0; i < t.n_x; i++)
        t.x[i] = -1 - fabsf(t.x[i]);
    run_layer(&t, MAX_BATCH);
    for (size_t i = 0; i < t.n_y; i++)
        assert_true(t.l.y[i] <= -1);
    tear_down(&t);
}

TEST(padding_does_not_count_in_a_mean)
{
    struct fixture t;

    set_up(&t, "avg_pool", &layer_avg_pool, &shapes[3]);
    for (size_t i = 0; i < t.n_x; i++)
        t.x[i] = 3;
    run_layer(&t, MAX_BATCH);
    for (size_t i = 0; i < t.n_y; i++)
        assert_true(fabsf(t.l.y[i] - 3) < 1e-6f);
    tear_down(&t);
}

/* Many activations are exactly 0 after a relu. */
TEST(the_first_of_equal_values_gets_the_gradient)
{
    for (size_t i = 0; i < N_OF(shapes); i++) {
        struct fixture t;
        double *dx;
        int at[256];

        set_up(&t, "max_pool", &layer_max_pool, &shapes[i]);
        dx = calloc(t.n_x, sizeof *dx);
        assert_non_null(dx);
        for (size_t k = 0; k < t.n_x; k++)
            t.x[k] = 0;
        for (int out = 0; out < MAX_BATCH * t.spec.n_out; out++) {
            covered(&t, out, at);
            dx[at[0]] += (double)t.dy[out];
        }
        run_layer(&t, MAX_BATCH);
        expect_all_near(t.dx, dx, t.n_x, i);
        free(dx);
        tear_down(&t);
    }
}

TEST(a_nan_wins_at_any_position)
{
    static const struct shape_case whole[] = {{3, 3, 3, 3, 3, 3, 3, false}, {3, 3, 8, 3, 3, 3, 3, false}};

    for (size_t i = 0; i < N_OF(whole); i++)
        for (size_t where = 0; where < 9; where++) {
            struct fixture t;

            set_up(&t, "max_pool", &layer_max_pool, &whole[i]);
            t.x[where * (size_t)whole[i].c] = NAN;
            run_layer(&t, MAX_BATCH);
            assert_true(isnan(t.l.y[0]));
            assert_true(isfinite(t.l.y[1]));
            tear_down(&t);
        }
}

/* relu works in place on the output of a pool: the backward pass must not depend on it. */
TEST(the_backward_pass_does_not_read_the_output)
{
    struct fixture a, b;
    struct pass p = {.n = MAX_BATCH, .is_training = true};

    set_up(&a, "max_pool", &layer_max_pool, &shapes[0]);
    set_up(&b, "max_pool", &layer_max_pool, &shapes[0]);
    run_layer(&a, MAX_BATCH);
    layer_max_pool.forward(&b.l, b.x, &p);
    memset(b.l.y, 0, b.n_y * sizeof *b.l.y);
    layer_max_pool.backward(&b.l, b.x, b.dy, b.dx, &p);
    assert_memory_equal(a.dx, b.dx, a.n_x * sizeof *a.dx);
    tear_down(&a);
    tear_down(&b);
}

/* Both orders must agree: for windows that overlap and that do not, that omit values, and that output no
 * fewer values. */
TEST(max_pool_and_relu_commute)
{
    static const char *const pools[] = {
        "\"size\": 2",
        "\"size\": [3, 2], \"stride\": [2, 1]",
        "\"size\": 2, \"stride\": 3",
        "\"size\": 3, \"stride\": 1, \"padding\": \"same\"",
    };
    static const char form[] =
        "{\"kind\": \"conv2d\", \"filters\": 3, \"kernel\": 2}, %s{\"kind\": \"max_pool\", %s}, "
        "%s{\"kind\": \"flatten\"}, {\"kind\": \"dense\", \"units\": 4}";
    static const char relu[] = "{\"kind\": \"relu\"}, ";

    for (size_t i = 0; i < N_OF(pools); i++) {
        struct check before, behind;
        char layers[512];

        snprintf(layers, sizeof layers, form, relu, pools[i], "");
        check_open(&before, "[8, 7, 2]", layers, MAX_BATCH);
        snprintf(layers, sizeof layers, form, "", pools[i], relu);
        check_open(&behind, "[8, 7, 2]", layers, MAX_BATCH);
        check_fill(&before);
        check_fill(&behind);
        assert_true(check_train(&before, MAX_BATCH) == check_train(&behind, MAX_BATCH));
        assert_int_equal(net_n_params(before.net), net_n_params(behind.net));
        for (size_t k = 0; k < net_n_params(before.net); k++)
            assert_true(net_grads(before.net)[k] == net_grads(behind.net)[k]);
        check_close(&before);
        check_close(&behind);
    }
}

TEST(a_first_layer_computes_no_input_gradient)
{
    static const struct layer_ops *const kinds[] = {&layer_max_pool, &layer_avg_pool};
    static const char *const names[] = {"max_pool", "avg_pool"};

    for (size_t i = 0; i < N_OF(kinds); i++) {
        struct pass p = {.n = MAX_BATCH, .is_training = true};
        struct fixture t;

        set_up(&t, names[i], kinds[i], &shapes[0]);
        kinds[i]->forward(&t.l, t.x, &p);
        kinds[i]->backward(&t.l, t.x, t.dy, NULL, &p);
        assert_true(isfinite(t.l.y[0]));
        tear_down(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(max_pool_matches_the_naive_loop),
        cmocka_unit_test(avg_pool_matches_the_naive_loop),
        cmocka_unit_test(padding_is_never_the_maximum),
        cmocka_unit_test(padding_does_not_count_in_a_mean),
        cmocka_unit_test(the_first_of_equal_values_gets_the_gradient),
        cmocka_unit_test(a_nan_wins_at_any_position),
        cmocka_unit_test(the_backward_pass_does_not_read_the_output),
        cmocka_unit_test(max_pool_and_relu_commute),
        cmocka_unit_test(a_first_layer_computes_no_input_gradient),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
