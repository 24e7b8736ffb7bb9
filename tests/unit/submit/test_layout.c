#include "submit/data/layout.h"

#include "submit/data/data_open.h"
#include "tests/unit/unit.h"

static int check(struct shape wanted, struct shape found, struct err *e)
{
    return layout_check("model \"m\"", &wanted, &found, false, e);
}

#define SHAPE(n, ...) ((struct shape){.n_dims = n, .dim = {__VA_ARGS__}})

TEST(shapes_of_the_same_samples_are_taken_for_each_other_and_no_others)
{
    static const struct {
        struct shape wanted, found;
        bool is_same;
    } pairs[] = {
        {{3, {32, 32, 3}}, {3, {32, 32, 3}}, true},
        {{3, {32, 32, 3}}, {3, {3, 32, 32}}, false},
        {{3, {1, 28, 28}}, {3, {28, 28, 1}}, false},
        {{3, {28, 28, 1}}, {3, {28, 1, 28}}, false},
        {{3, {14, 56, 1}}, {3, {28, 28, 1}}, false},
        {{3, {28, 28, 1}}, {1, {784}}, true},
        {{1, {784}}, {3, {28, 28, 1}}, true},
        {{1, {784}}, {3, {1, 28, 28}}, true},
        {{2, {28, 28}}, {3, {28, 28, 1}}, true},
        {{2, {32, 96}}, {3, {32, 32, 3}}, true},
        {{2, {96, 32}}, {3, {32, 32, 3}}, false},
        {{3, {28, 28, 1}}, {2, {28, 28}}, true},
        {{2, {20, 5}}, {2, {20, 5}}, true},
        {{2, {20, 5}}, {2, {5, 20}}, false},
        {{2, {20, 5}}, {1, {100}}, true},
        {{1, {40}}, {1, {40}}, true},
    };

    for (size_t i = 0; i < N_OF(pairs); i++) {
        struct err e = {0};

        assert_int_equal(check(pairs[i].wanted, pairs[i].found, &e), pairs[i].is_same ? 0 : ERR_CONFIG);
    }
}

TEST(a_refusal_names_both_shapes_and_how_an_array_is_turned)
{
    struct err e = {0};

    assert_int_equal(check(SHAPE(3, 32, 32, 3), SHAPE(3, 3, 32, 32), &e), ERR_CONFIG);
    assert_string_equal(e.text, "model \"m\" takes samples of (32, 32, 3) (rows, columns, channels), and the "
                                "data set has (3, 32, 32) (rows, columns, channels)");
    assert_non_null(strstr(e.hint, "channels last: numpy.transpose(x, (0, 2, 3, 1))"));
    assert_int_equal(check(SHAPE(2, 20, 5), SHAPE(2, 5, 20), &e), ERR_CONFIG);
    assert_error_has("(20, 5) (time, values)");
    assert_non_null(strstr(e.hint, "numpy.transpose(x, (0, 2, 1))"));
    assert_int_equal(check(SHAPE(2, 96, 32), SHAPE(3, 32, 32, 3), &e), ERR_CONFIG);
    assert_string_equal(e.hint, "");
}

TEST(a_model_refuses_images_of_another_layout)
{
    static int32_t label;
    struct model_spec m = {.name = "m", .in = SHAPE(3, 32, 32, 3), .n_in = 3072, .n_out = 10};
    struct dataset d = {
        .shape = SHAPE(3, 3, 32, 32), .x_type = TENSOR_U8, .n_classes = 10, .train_y = &label};
    struct err e = {0};

    assert_int_equal(data_fits_model(&m, &d, &e), ERR_CONFIG);
    assert_error_has("(32, 32, 3)");
    d.shape = m.in;
    assert_ok(data_fits_model(&m, &d, &e));
}

TEST(targets_of_the_logistic_loss_are_from_0_to_1)
{
    float train[] = {0, 1, .5f, 1}, test[] = {-1, 1};
    struct model_spec m = {
        .name = "m", .in = SHAPE(1, 3), .n_in = 3, .n_out = 2, .loss = LOSS_SIGMOID_CROSS_ENTROPY};
    struct dataset d = {.shape = SHAPE(1, 3),
                        .x_type = TENSOR_F32,
                        .n_targets = 2,
                        .n_train = 2,
                        .n_test = 1,
                        .train_t = train,
                        .test_t = test};
    struct err e = {0};

    assert_int_equal(data_fits_model(&m, &d, &e), ERR_CONFIG);
    assert_error_has("targets are from 0 to 1, and a target of test sample 1 is -1");
    assert_non_null(strstr(e.hint, "(y > 0)"));
    test[0] = 0;
    assert_ok(data_fits_model(&m, &d, &e));
    train[3] = 1.5f;
    assert_int_equal(data_fits_model(&m, &d, &e), ERR_CONFIG);
    assert_error_has("a target of training sample 2 is 1.5");
    m.loss = LOSS_MSE;
    assert_ok(data_fits_model(&m, &d, &e));
}

TEST(targets_that_are_read_as_classes_are_refused_with_the_option_for_targets)
{
    static int32_t label;
    struct model_spec m = {.name = "m", .in = SHAPE(1, 3), .n_in = 3, .n_out = 1, .loss = LOSS_MSE};
    struct dataset d = {.shape = SHAPE(1, 3), .x_type = TENSOR_F32, .n_classes = 80, .train_y = &label};
    struct err e = {0};

    assert_int_equal(data_fits_model(&m, &d, &e), ERR_CONFIG);
    assert_error_has("ends with 1 output, the data set has 80 classes");
    assert_non_null(strstr(e.hint, "target= for label=, and convert a NumPy array with y.astype(\"f4\")"));
    m.n_out = 10;
    assert_int_equal(data_fits_model(&m, &d, &e), ERR_CONFIG);
    assert_string_equal(e.hint, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shapes_of_the_same_samples_are_taken_for_each_other_and_no_others),
        cmocka_unit_test(a_refusal_names_both_shapes_and_how_an_array_is_turned),
        cmocka_unit_test(a_model_refuses_images_of_another_layout),
        cmocka_unit_test(targets_of_the_logistic_loss_are_from_0_to_1),
        cmocka_unit_test(targets_that_are_read_as_classes_are_refused_with_the_option_for_targets),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
