/* lstm, gru and mean_over_time. */
#include <limits.h>

#include "nn/layers/packed.h"
#include "tests/lib/layer_check.h"

#define EMBED     "{\"kind\": \"embedding\", \"vocab\": 9, \"units\": 3, \"init_scale\": 1}"
#define DENSE(n)  "{\"kind\": \"dense\", \"units\": " #n "}"
#define LSTM(n)   "{\"kind\": \"lstm\", \"units\": " #n "}"
#define LSTM_T(n) "{\"kind\": \"lstm\", \"units\": " #n ", \"sequences\": true}"
#define GRU(n)    "{\"kind\": \"gru\", \"units\": " #n "}"
#define GRU_T(n)  "{\"kind\": \"gru\", \"units\": " #n ", \"sequences\": true}"
#define MEAN      "{\"kind\": \"mean_over_time\"}"
#define TANH      "{\"kind\": \"tanh\"}"
#define DROPOUT   "{\"kind\": \"dropout\"}"
#define COMMA     ", "
enum { TIME = 5, IN = 3, UNITS = 4, MAX_BATCH = 6 };

TEST(gradients_agree_with_central_differences)
{
    static const char *const nets[] = {
        LSTM(4),
        LSTM(5) COMMA DENSE(4),
        LSTM_T(3),
        LSTM_T(3) COMMA LSTM(4),
        LSTM_T(3) COMMA TANH COMMA LSTM_T(2) COMMA DENSE(4), /* another layer works in place on its output */
        LSTM_T(4) COMMA MEAN,
        LSTM_T(4) COMMA DROPOUT COMMA MEAN COMMA DENSE(3),
        GRU(4),
        GRU(5) COMMA DENSE(4),
        GRU_T(3),
        GRU_T(3) COMMA GRU(4),
        GRU_T(3) COMMA TANH COMMA LSTM_T(2) COMMA GRU_T(3) COMMA DENSE(4),
        GRU_T(4) COMMA MEAN,
    };

    check_gradients("[5, 3]", nets, N_OF(nets), MAX_BATCH, true);
    check_gradients("[1, 3]", nets, N_OF(nets), MAX_BATCH, true); /* one step: nothing is recurrent */
}

TEST(gradients_agree_where_texts_have_different_lengths)
{
    static const char *const nets[] = {
        EMBED COMMA LSTM(4),
        EMBED COMMA LSTM_T(3) COMMA DENSE(4),
        EMBED COMMA LSTM_T(3) COMMA LSTM(4),
        EMBED COMMA LSTM_T(4) COMMA MEAN,
        EMBED COMMA GRU(4),
        EMBED COMMA GRU_T(3) COMMA DENSE(4),
        EMBED COMMA GRU_T(3) COMMA GRU_T(4) COMMA MEAN,
        EMBED COMMA MEAN,
        /* Half as many steps as there are tokens. */
        EMBED COMMA "{\"kind\": \"reshape\", \"shape\": [3, 6]}" COMMA LSTM_T(4) COMMA MEAN,
    };

    check_gradients("[6]", nets, N_OF(nets), 8, true);
}

static double logistic(double x)
{
    return 1 / (1 + exp(-x));
}

/* a (width) = v (in) W (in, width) + b, with W and b the next tensors at *w. */
static void affine(double *a, const double *v, int in, int width, const float *w, const float *b)
{
    for (int j = 0; j < width; j++) {
        a[j] = (double)b[j];
        for (int i = 0; i < in; i++)
            a[j] += v[i] * (double)w[i * width + j];
    }
}

/* One step of each kind in double, as in the papers. */
static void naive_lstm(double h[UNITS], double c[UNITS], const double x[IN], const float *params)
{
    static const float zeros[4 * UNITS];
    const float *u = params + IN * 4 * UNITS, *b = u + UNITS * 4 * UNITS;
    double a[4 * UNITS], q[4 * UNITS];

    affine(a, x, IN, 4 * UNITS, params, b);
    affine(q, h, UNITS, 4 * UNITS, u, zeros);
    for (int k = 0; k < UNITS; k++) {
        double i = logistic(a[k] + q[k]);
        double f = logistic(a[UNITS + k] + q[UNITS + k]);
        double g = tanh(a[2 * UNITS + k] + q[2 * UNITS + k]);
        double o = logistic(a[3 * UNITS + k] + q[3 * UNITS + k]);

        c[k] = f * c[k] + i * g;
        h[k] = o * tanh(c[k]);
    }
}

static void naive_gru(double h[UNITS], double unused[UNITS], const double x[IN], const float *params)
{
    const float *u = params + IN * 3 * UNITS, *b = u + UNITS * 3 * UNITS;
    double a[3 * UNITS], q[3 * UNITS];

    (void)unused;
    affine(a, x, IN, 3 * UNITS, params, b);
    affine(q, h, UNITS, 3 * UNITS, u, b + 3 * UNITS);
    for (int k = 0; k < UNITS; k++) {
        double r = logistic(a[k] + q[k]);
        double z = logistic(a[UNITS + k] + q[UNITS + k]);
        double n = tanh(a[2 * UNITS + k] + r * q[2 * UNITS + k]);

        h[k] = (1 - z) * n + z * h[k];
    }
}

static const struct {
    const char *last, *all;
    void (*step)(double h[UNITS], double c[UNITS], const double x[IN], const float *params);
} kinds[] = {{LSTM(4), LSTM_T(4), naive_lstm}, {GRU(4), GRU_T(4), naive_gru}};

TEST(each_step_matches_the_naive_loop)
{
    for (size_t kind = 0; kind < N_OF(kinds); kind++) {
        struct check last, all;
        const float *y, *ys;

        check_open(&last, "[5, 3]", kinds[kind].last, MAX_BATCH);
        check_open(&all, "[5, 3]", kinds[kind].all, MAX_BATCH);
        check_fill(&last);
        check_fill(&all);
        y = net_forward(last.net, last.x, MAX_BATCH);
        ys = net_forward(all.net, last.x, MAX_BATCH);
        for (int i = 0; i < MAX_BATCH; i++) {
            double h[UNITS] = {0}, c[UNITS] = {0};

            for (int t = 0; t < TIME; t++) {
                double x[IN];

                for (int k = 0; k < IN; k++)
                    x[k] = (double)last.x[(i * TIME + t) * IN + k];
                kinds[kind].step(h, c, x, net_params(last.net));
                assert_near(ys + (i * TIME + t) * UNITS, h, UNITS, 1e-6);
            }
            assert_near(y + i * UNITS, h, UNITS, 1e-6);
        }
        check_close(&last);
        check_close(&all);
    }
}

/* The last token of each text is read, the padding after it is not, and the order of the batch is kept. */
TEST(a_text_ends_at_its_last_token)
{
    for (size_t kind = 0; kind < N_OF(kinds); kind++) {
        enum { WIDTH = 6, N = 8 };
        char layers[256];
        struct check last, all;
        const float *y, *ys, *params;

        snprintf(layers, sizeof layers, "%s, %s", EMBED, kinds[kind].last);
        check_open(&last, "[6]", layers, N);
        snprintf(layers, sizeof layers, "%s, %s", EMBED, kinds[kind].all);
        check_open(&all, "[6]", layers, N);
        check_fill(&last);
        check_fill(&all);
        params = net_params(last.net);
        y = net_forward(last.net, last.x, N);
        ys = net_forward(all.net, last.x, N);
        for (int i = 0; i < N; i++) {
            double h[UNITS] = {0}, c[UNITS] = {0};

            for (int t = 0; t <= i % WIDTH; t++) {
                double x[IN];

                for (int k = 0; k < IN; k++)
                    x[k] = (double)params[(int)last.x[i * WIDTH + t] * IN + k];
                kinds[kind].step(h, c, x, params + 9 * IN);
                assert_near(ys + (i * WIDTH + t) * UNITS, h, UNITS, 1e-6);
            }
            assert_near(y + i * UNITS, h, UNITS, 1e-6);
            for (int k = (i % WIDTH + 1) * UNITS; k < WIDTH * UNITS; k++)
                assert_true(ys[i * WIDTH * UNITS + k] == 0);
        }
        check_close(&last);
        check_close(&all);
    }
}

TEST(a_window_of_a_stream_has_no_padding)
{
    for (size_t kind = 0; kind < N_OF(kinds); kind++) {
        enum { WIDTH = 6, N = 8 };
        char layers[256];
        struct check all;
        const float *ys;
        struct err e;

        snprintf(layers, sizeof layers, "%s, %s", EMBED, kinds[kind].all);
        check_open(&all, "[6]", layers, N);
        net_free(all.net);
        all.spec.loss = LOSS_TOKEN_CROSS_ENTROPY;
        assert_ok(net_new(&all.net, &all.spec, N, &e));
        check_fill(&all);
        ys = net_forward(all.net, all.x, N);
        for (int i = 0; i < N; i++) {
            double h[UNITS] = {0}, c[UNITS] = {0};

            for (int t = 0; t < WIDTH; t++) {
                double x[IN];

                for (int k = 0; k < IN; k++)
                    x[k] = (double)net_params(all.net)[(int)all.x[i * WIDTH + t] * IN + k];
                kinds[kind].step(h, c, x, net_params(all.net) + 9 * IN);
                assert_near(ys + (i * WIDTH + t) * UNITS, h, UNITS, 1e-6);
            }
        }
        check_close(&all);
    }
}

/* Made with torch 1.13 in double precision: nn.LSTM and nn.GRU(3, 2) on (2, 4, 3), cross entropy of the last
 * h, labels 0 and 1, parameters and inputs of check_number(). */
static const struct {
    const char *layer;
    double y[4], loss, dot, square; /* of the gradient: with check_number(0 ..), with itself */
} torch[] = {
    {LSTM(2), {0.084847343, 0.180060255, 0.126329167, 0.169329950}, 0.706882150, 0.004610198, 0.004018914},
    {GRU(2), {-0.321134452, -0.095591959, -0.281441115, 0.109655774}, 0.664430690, -0.028173117, 0.039063920},
};

TEST(outputs_and_gradients_match_pytorch)
{
    for (size_t i = 0; i < N_OF(torch); i++) {
        struct check c;
        double dot = 0, square = 0;

        check_open(&c, "[4, 3]", torch[i].layer, 2);
        check_numbers(&c);
        c.labels[1] = 1;
        assert_near(net_forward(c.net, c.x, 2), torch[i].y, 4, 1e-6);
        assert_true(fabs(check_train(&c, 2) - torch[i].loss) < 1e-6);
        check_dots(&c, &dot, &square);
        assert_true(fabs(dot - torch[i].dot) < 1e-6 && fabs(square - torch[i].square) < 1e-6);
        check_close(&c);
    }
}

TEST(the_mean_over_time_excludes_the_padding)
{
    struct check c;
    const float *y, *w;

    check_open(&c, "[6]", EMBED COMMA MEAN, 8);
    check_fill(&c);
    w = net_params(c.net);
    y = net_forward(c.net, c.x, 8);
    for (int i = 0; i < 8; i++) {
        double mean[IN] = {0};
        int len = i % 6 + 1;

        for (int t = 0; t < len; t++)
            for (int k = 0; k < IN; k++)
                mean[k] += (double)w[(int)c.x[i * 6 + t] * IN + k] / len;
        assert_near(y + i * IN, mean, IN, 1e-6);
    }
    check_close(&c);
}

TEST(a_text_of_padding_only_has_one_token)
{
    struct check c;
    const float *y;

    check_open(&c, "[6]", EMBED COMMA MEAN, 1);
    check_fill(&c);
    memset(c.x, 0, 6 * sizeof *c.x);
    y = net_forward(c.net, c.x, 1);
    for (int k = 0; k < IN; k++)
        assert_true(y[k] == net_params(c.net)[k]);
    check_close(&c);
}

/* The previous batch leaves nothing behind: neither its order nor its states. */
TEST(a_batch_does_not_depend_on_the_previous_one)
{
    static const char *const nets[] = {EMBED COMMA LSTM_T(3) COMMA LSTM(4),
                                       EMBED COMMA GRU_T(3) COMMA GRU(4)};

    for (size_t i = 0; i < N_OF(nets); i++) {
        struct check c;
        float fresh[512];
        size_t bytes;

        check_open(&c, "[6]", nets[i], 8);
        check_fill(&c);
        bytes = net_n_params(c.net) * sizeof *fresh;
        assert_true(bytes <= sizeof fresh);
        check_train(&c, 3);
        memcpy(fresh, net_grads(c.net), bytes);
        check_train(&c, 8);
        assert_memory_not_equal(fresh, net_grads(c.net), bytes);
        check_train(&c, 3);
        assert_memory_equal(fresh, net_grads(c.net), bytes);
        check_close(&c);
    }
}

TEST(the_bundled_models_match_their_names)
{
    static const struct {
        const char *name;
        size_t n_params;
        int vocab;
    } models[] = {
        {"lstm-rows", 28 * 512 + 128 * 512 + 512 + 1290, 0},
        {"lstm-text", 10000 * 32 + 32 * 256 + 64 * 256 + 256 + 130, 10000},
        {"lstm-imdb", 10000 * 1024 + 2 * 1024 * 4096 + 4096 + 2050, 10000},
    };

    for (size_t i = 0; i < N_OF(models); i++) {
        struct model_spec m;
        struct net *net;
        char path[256];
        json_t *doc;
        struct err e;

        snprintf(path, sizeof path, "nn/models/%s.json", models[i].name);
        assert_ok(json_read(&doc, path, 1 << 16, &e));
        assert_ok(model_spec_parse(&m, doc, &e));
        json_decref(doc);
        assert_string_equal(m.name, models[i].name);
        assert_int_equal(m.n_params, models[i].n_params);
        assert_int_equal(model_spec_vocab(&m), models[i].vocab);
        assert_ok(net_new(&net, &m, 2, &e));
        net_free(net);
        model_spec_clear(&m);
    }
}

/* The classes differ only in the first of 12 steps. */
TEST(lstm_and_gru_learn_to_remember_the_first_step)
{
    static const char *const nets[] = {LSTM(8) COMMA DENSE(2), GRU(8) COMMA DENSE(2)};
    enum { N = 32 };

    for (size_t i = 0; i < N_OF(nets); i++) {
        struct check c;
        double loss = 0;

        check_open(&c, "[12, 3]", nets[i], N);
        check_fill(&c);
        net_init(c.net, 1);
        for (int k = 0; k < N; k++)
            c.labels[k] = c.x[k * 36] > 0;
        for (int step = 0; step < 600; step++) {
            loss = check_train(&c, N);
            for (size_t k = 0; k < net_n_params(c.net); k++)
                net_params(c.net)[k] -= 0.5f * net_grads(c.net)[k];
        }
        if (!(loss < 0.05))
            fail_msg("%s: loss %g", nets[i], loss);
        check_close(&c);
    }
}

TEST(batches_with_more_steps_than_a_matrix_has_rows_are_refused)
{
    static const char *const nets[] = {LSTM_T(3),
                                       "{\"kind\": \"dense\", \"positionwise\": true, \"units\": 2}"};
    struct net *net;

    assert_int_equal(packed_rows(1 << 10, 1 << 22), INT_MAX);
    for (size_t i = 0; i < N_OF(nets); i++) {
        struct check c;
        struct err e;

        check_open(&c, "[1024, 3]", nets[i], 1);
        assert_int_equal(net_new(&net, &c.spec, 1 << 21, &e), ERR_CONFIG);
        assert_error_has("model \"m\" has 1024 steps or pixels a sample, and a batch of 2097152 samples");
        check_close(&c);
    }
}

TEST(a_nan_is_propagated)
{
    for (size_t kind = 0; kind < N_OF(kinds); kind++) {
        struct check c;

        check_open(&c, "[5, 3]", kinds[kind].last, 2);
        check_fill(&c);
        c.x[4] = NAN;
        assert_true(isnan(check_train(&c, 2)));
        assert_false(gradient_is_finite(net_grads(c.net), net_n_params(c.net)));
        check_close(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_agree_with_central_differences),
        cmocka_unit_test(gradients_agree_where_texts_have_different_lengths),
        cmocka_unit_test(each_step_matches_the_naive_loop),
        cmocka_unit_test(a_text_ends_at_its_last_token),
        cmocka_unit_test(a_window_of_a_stream_has_no_padding),
        cmocka_unit_test(outputs_and_gradients_match_pytorch),
        cmocka_unit_test(the_mean_over_time_excludes_the_padding),
        cmocka_unit_test(a_text_of_padding_only_has_one_token),
        cmocka_unit_test(a_batch_does_not_depend_on_the_previous_one),
        cmocka_unit_test(the_bundled_models_match_their_names),
        cmocka_unit_test(batches_with_more_steps_than_a_matrix_has_rows_are_refused),
        cmocka_unit_test(lstm_and_gru_learn_to_remember_the_first_step),
        cmocka_unit_test(a_nan_is_propagated),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
