/* Functions that data sets share, and data sets too small for a test file of their own. */
#include "submit/data/data_sets.h"

#include <math.h>

#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/unit.h"

static struct err e;

struct some {
    char text[8];
    int number;
    double share;
    uint64_t seed;
};

static const struct json_field fields[] = {
    {"word", JSON_FIELD_TEXT, JSON_AT(struct some, text), .choices = "one|two"},
    {"number", JSON_FIELD_INT, JSON_AT(struct some, number), .min = 1, .max = 100},
    {"share", JSON_FIELD_DOUBLE, JSON_AT(struct some, share), .min = 0, .max = 1},
    {"seed", JSON_FIELD_U64, JSON_AT(struct some, seed), .required = false},
    {0},
};

TEST(options_are_keys_and_values)
{
    struct some o = {.number = 3};

    assert_ok(data_options(&o, fields, NULL, NULL, &e));
    assert_int_equal(o.number, 3);
    assert_ok(data_options(&o, fields, NULL, "word=two,share=0.25,seed=9007199254740992", &e));
    assert_string_equal(o.text, "two");
    assert_int_equal(o.number, 3);
    assert_true(o.share == 0.25 && o.seed == UINT64_C(1) << 53);
    assert_ok(data_options(&o, fields, "number", "77", &e));
    assert_int_equal(o.number, 77);
}

TEST(malformed_options_are_refused)
{
    static const struct {
        const char *arg, *expected;
    } cases[] = {
        {"", "no options after ':'"},
        {"5", "\"5\" is not KEY=VALUE"},
        {"number=5,", "\"\" is not KEY=VALUE"},
        {"numbr=5", "did you mean \"number\"?"},
        {"number=5,number=6", "\"number\" is given twice"},
        {"number=", "/number: not an integer"},
        {"number=1.5", "/number: not an integer"},
        {"number=101", "/number: 101 is not between 1 and 100"},
        {"share=2", "/share: 2 is not between 0 and 1"},
        {"share=nan", "/share: not a number"},
        {"word=three", "/word: \"three\" is not one of one|two"},
        {"word=\xff", "not UTF-8"},
    };
    struct some o;

    for (size_t i = 0; i < N_OF(cases); i++) {
        assert_int_equal(data_options(&o, fields, NULL, cases[i].arg, &e), ERR_CONFIG);
        assert_error_has(cases[i].expected);
    }
}

TEST(a_test_split_is_neither_empty_nor_everything)
{
    static const struct {
        size_t n;
        double share;
        size_t n_test;
    } cases[] = {{2, 0.001, 1}, {2, 0.999, 1}, {10, 0.25, 3}, {10, 0.999, 9}, {1000, 0.2, 200}};

    for (size_t i = 0; i < N_OF(cases); i++) {
        bool is_test[1000];
        size_t n_test, n = 0;

        assert_ok(dataset_choose_test(is_test, &n_test, cases[i].n, cases[i].share, 1, &e));
        for (size_t k = 0; k < cases[i].n; k++)
            n += is_test[k];
        assert_int_equal(n_test, cases[i].n_test);
        assert_int_equal(n, n_test);
    }
    assert_int_equal(dataset_choose_test(NULL, NULL, 1, 0.5, 1, &e), ERR_CONFIG);
}

TEST(simlin_is_linear_with_the_numbers_of_parallel_sgd)
{
    struct dataset d, again, other;
    double sum = 0, square = 0;
    const float *x;

    assert_ok(dataset_open(&d, "simlin:train=500,test=100,in=64", NULL, &e));
    assert_int_equal(d.n_train, 500);
    assert_int_equal(d.n_test, 100);
    assert_int_equal(d.shape.dim[0], 64);
    assert_int_equal(d.n_targets, 1);
    assert_null(d.train_y);
    x = d.train_x;
    for (size_t i = 0; i < 500 * 64; i++) {
        assert_true(x[i] >= 0 && x[i] < 10);
        sum += (double)x[i];
    }
    assert_true(fabs(sum / (500 * 64) - 5) < 0.1);
    /* y is b + sum of 64 terms x w, x about 5 and w about 1 / 128: 2.5, with a spread of about 0.2 */
    for (size_t i = 0; i < 500; i++)
        square += ((double)d.train_t[i] - 2.5) * ((double)d.train_t[i] - 2.5) / 500;
    assert_true(square < 0.5);
    assert_ok(dataset_open(&again, "simlin:train=500,test=100,in=64,seed=1", NULL, &e));
    assert_ok(dataset_open(&other, "simlin:train=500,test=100,in=64,seed=2", NULL, &e));
    assert_memory_equal(d.test_t, again.test_t, 100 * sizeof(float));
    assert_memory_not_equal(d.test_t, other.test_t, 100 * sizeof(float));
    dataset_clear(&d);
    dataset_clear(&again);
    dataset_clear(&other);
}

/* Differences of samples do not contain b, and 65 of them would determine w; here it is enough that y is
 * additive. */
TEST(simlin_has_the_same_line_in_both_splits)
{
    struct dataset d;
    const float *x, *t;
    double w;

    assert_ok(dataset_open(&d, "simlin:train=2,test=3,in=1", NULL, &e));
    x = d.train_x;
    t = d.train_t;
    w = ((double)t[1] - (double)t[0]) / ((double)x[1] - (double)x[0]);
    assert_true(w >= 0 && w < 1);
    for (int i = 0; i < 3; i++)
        assert_true(fabs((double)d.test_t[i] - (double)t[0] -
                         w * ((double)((float *)d.test_x)[i] - (double)x[0])) < 1e-4);
    dataset_clear(&d);
    assert_int_equal(dataset_open(&d, "simlin:train=10000000,in=65536", NULL, &e), ERR_CONFIG);
    assert_error_has("more than 536870912 values");
    assert_int_equal(dataset_open(&d, "simlin:train=0", NULL, &e), ERR_CONFIG);
}

TEST(simsin_has_the_sine_of_each_input)
{
    struct dataset d;
    const float *x;

    assert_ok(dataset_open(&d, "simsin:train=300,test=20,in=3,amplitude=1.5,period=4", NULL, &e));
    assert_int_equal(d.n_targets, 3);
    x = d.train_x;
    for (size_t i = 0; i < 300 * 3; i++) {
        assert_true(x[i] >= 0 && x[i] < 10);
        assert_true(fabs((double)d.train_t[i] - 1.5 * sin(3.14159265358979 / 2 * (double)x[i])) < 1e-6);
    }
    dataset_clear(&d);
    assert_ok(dataset_open(&d, "simsin:train=1,test=1", NULL, &e)); /* the numbers of Parallel-SGD */
    assert_true(fabs((double)d.test_t[0] - 2 * sin((double)*(float *)d.test_x)) < 1e-5);
    dataset_clear(&d);
    assert_int_equal(dataset_open(&d, "simsin:out=2", NULL, &e), ERR_CONFIG);
    assert_int_equal(dataset_open(&d, "simsin:period=0", NULL, &e), ERR_CONFIG);
    assert_error_has("/period: 0 is not between 1e-06 and 1000000");
}

/* A tenth of the targets has spikes of 100, among noise of deviation 2. */
TEST(noise_is_added_to_the_targets_alone)
{
    enum { N = 20000 };
    struct dataset clean, noisy;
    double sum = 0, square = 0;
    size_t n_up = 0, n_down = 0;

    assert_ok(dataset_open(&clean, "simlin:train=20000,test=5,in=2", NULL, &e));
    assert_ok(dataset_open(&noisy, "simlin:train=20000,test=5,in=2,noise=2,spikes=0.1,spike=100", NULL, &e));
    assert_memory_equal(clean.train_x, noisy.train_x, (size_t)N * 2 * sizeof(float));
    for (size_t i = 0; i < N; i++) {
        double off = (double)noisy.train_t[i] - (double)clean.train_t[i];

        n_up += off > 50;
        n_down += off < -50;
        off -= off > 50 ? 100 : off < -50 ? -100 : 0;
        sum += off / N;
        square += off * off / N;
    }
    assert_true(fabs(sum) < 0.1 && fabs(square - 4) < 0.2); /* 7 and 5 deviations of these means */
    assert_in_range(n_up, 850, 1150);                       /* 1000, deviation 31 */
    assert_in_range(n_down, 850, 1150);
    assert_memory_not_equal(clean.test_t, noisy.test_t, 5 * sizeof(float));
    dataset_clear(&noisy);
    assert_ok(
        dataset_open(&noisy, "simlin:train=20000,test=5,in=2,spikes=0.1,spike=100,sides=one", NULL, &e));
    n_up = 0;
    for (size_t i = 0; i < N; i++) {
        assert_true(noisy.train_t[i] >= clean.train_t[i]);
        n_up += noisy.train_t[i] > clean.train_t[i];
    }
    assert_in_range(n_up, 1790, 2210);
    dataset_clear(&clean);
    dataset_clear(&noisy);
    assert_int_equal(dataset_open(&clean, "simlin:spikes=1.5", NULL, &e), ERR_CONFIG);
}

static void put(const char *dir, const char *name, const void *bytes, size_t len)
{
    char path[256];

    assert_ok(file_join(path, sizeof path, dir, name, &e));
    assert_ok(file_write(path, bytes, len, 0600, &e));
}

TEST(any_four_idx_files_form_a_data_set)
{
    static const uint8_t images[] = {0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 2, 1, 2, 3, 4};
    static const uint8_t labels[] = {0, 0, 8, 1, 0, 0, 0, 2, 25, 3};
    const char *dir = unit_folder();
    char path[256];
    struct dataset d;

    put(dir, "letters-train-images-idx3-ubyte", images, sizeof images);
    put(dir, "letters-train-labels.idx1-ubyte", labels, sizeof labels);
    put(dir, "letters-test-images-idx3-ubyte", images, sizeof images);
    put(dir, "letters-t10k-labels-idx1-ubyte", labels, sizeof labels);
    assert_ok(dataset_open(&d, "idx:prefix=letters-", dir, &e));
    assert_int_equal(d.n_classes, 26);
    assert_int_equal(d.shape.dim[1], 2);
    dataset_clear(&d);
    assert_ok(dataset_open(&d, "idx:prefix=letters-,classes=47", dir, &e));
    assert_int_equal(d.n_classes, 47);
    dataset_clear(&d);
    assert_int_equal(dataset_open(&d, "idx:prefix=letters-,classes=10", dir, &e), ERR_CONFIG);
    assert_error_has("training label 0 is 25, expected 0 to 9");
    assert_int_equal(dataset_open(&d, "idx", dir, &e), ERR_NOT_FOUND);
    assert_error_has("train-images-idx3-ubyte: not found, neither plain nor with .gz");
    /* Kaggle's MNIST: beside train-images.idx3-ubyte is a folder train-images-idx3-ubyte. */
    assert_ok(file_join(path, sizeof path, dir, "letters-train-labels-idx1-ubyte", &e));
    assert_int_equal(mkdir(path, 0700), 0);
    assert_ok(dataset_open(&d, "idx:prefix=letters-", dir, &e));
    dataset_clear(&d);
    assert_ok(file_join(path, sizeof path, dir, "letters-train-labels.idx1-ubyte", &e));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(dataset_open(&d, "idx:prefix=letters-", dir, &e), ERR_NOT_FOUND);
    assert_error_has("letters-train-labels-idx1-ubyte is a folder, expected a file");
    unit_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_are_keys_and_values),
        cmocka_unit_test(malformed_options_are_refused),
        cmocka_unit_test(a_test_split_is_neither_empty_nor_everything),
        cmocka_unit_test(simlin_is_linear_with_the_numbers_of_parallel_sgd),
        cmocka_unit_test(simlin_has_the_same_line_in_both_splits),
        cmocka_unit_test(simsin_has_the_sine_of_each_input),
        cmocka_unit_test(noise_is_added_to_the_targets_alone),
        cmocka_unit_test(any_four_idx_files_form_a_data_set),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
