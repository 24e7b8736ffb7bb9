#include "nn/metrics.h"

#include <math.h>

#include "shared/base/rng.h"
#include "shared/job/test_part.h"
#include "tests/unit/unit.h"

enum { N_MAX = 2000 };

/* A network of k outputs that asks for `kinds`, terminated by N_METRIC_KINDS. */
static struct metrics *make(enum loss_kind loss, int k, bool has_labels, const enum metric_kind *kinds)
{
    static struct model_spec spec;
    struct metrics *m;
    struct err e;

    spec = (struct model_spec){.name = "m", .loss = loss, .n_out = k};
    for (; *kinds != N_METRIC_KINDS; kinds++)
        spec.metrics[*kinds] = true;
    assert_ok(metrics_new(&m, &spec, has_labels, N_MAX, &e));
    metrics_begin(m);
    return m;
}

#define ASK(...) ((const enum metric_kind[]){__VA_ARGS__, N_METRIC_KINDS})

static void assert_value(struct metrics *m, enum metric_kind kind, double expected)
{
    double value = -1;

    assert_true(metrics_value(m, kind, &value));
    if (!(fabs(value - expected) <= 1e-7))
        fail_msg("%s: %.17g, expected %.17g", metric_kind_name(kind), value, expected);
}

static void add(struct metrics *m, const float *z, const int32_t *labels, int n)
{
    metrics_add(m, z, &(struct truth){.labels = labels}, n);
}

TEST(loss_and_accuracy_are_always_computed_and_add_up_over_batches)
{
    const float z[] = {0, 0, 3, 0, 0, 3};
    const int32_t labels[] = {0, 1, 1};
    struct metrics *m = make(LOSS_SOFTMAX_CROSS_ENTROPY, 2, true, ASK(N_METRIC_KINDS));

    add(m, z, labels, 1);
    add(m, z + 2, labels + 1, 2);
    assert_value(m, METRIC_ACCURACY, 2.0 / 3);
    assert_true(fabs(metrics_loss(m) - (log(2) + log1p(exp(3)) + log1p(exp(-3))) / 3) < 1e-6);
    assert_false(metrics_asked(m, METRIC_ACCURACY));
    metrics_begin(m);
    add(m, z + 2, labels + 1, 1);
    assert_value(m, METRIC_ACCURACY, 0);
    metrics_free(m);
}

/* Label r of sample r: ranks 0 to 11, one each. */
TEST(top_k_counts_labels_among_the_k_largest)
{
    enum { N = 12 };
    struct metrics *m;
    float z[N * N];
    int32_t labels[N];
    enum metric_kind all[METRIC_TOP_MAX];

    for (int k = 2; k <= METRIC_TOP_MAX; k++) {
        all[k - 2] = METRIC_TOP2 + (unsigned)(k - 2);
        assert_int_equal(metric_kind_top(all[k - 2]), k);
    }
    all[METRIC_TOP_MAX - 1] = N_METRIC_KINDS;
    for (int i = 0; i < N * N; i++)
        z[i] = (float)(N - i % N);
    for (int i = 0; i < N; i++)
        labels[i] = i;
    m = make(LOSS_SOFTMAX_CROSS_ENTROPY, N, true, all);
    add(m, z, labels, N);
    for (int k = 2; k <= METRIC_TOP_MAX; k++)
        assert_value(m, all[k - 2], (double)k / (double)N);
    metrics_begin(m);
    add(m, z, labels, 2);
    assert_value(m, METRIC_TOP2, 1);
    metrics_free(m);
}

TEST(ties_for_the_fifth_largest_output_go_to_the_first)
{
    const float z[] = {7, 6, 5, 4, 3, 2, 1, 7, 6, 5, 4, 3, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    const int32_t labels[] = {4, 5, 4, 5}; /* fifth, sixth, and the same among seven equal ones */
    struct metrics *m = make(LOSS_SOFTMAX_CROSS_ENTROPY, 7, true, ASK(METRIC_TOP2 + 3));

    add(m, z, labels, 4);
    assert_value(m, METRIC_TOP2 + 3, 0.5);
    assert_value(m, METRIC_ACCURACY, 0);
    metrics_free(m);
}

/* softmax(0, ln 3) = (1/4, 3/4), the logistic function of ln 3 is 3/4. */
TEST(mse_and_rmse_compare_predictions_with_targets)
{
    const float z[] = {0, 1.0986122886681098f};
    const int32_t label[] = {0};
    struct metrics *m = make(LOSS_SOFTMAX_CROSS_ENTROPY, 2, true, ASK(METRIC_MSE, METRIC_RMSE));

    add(m, z, label, 1);
    assert_value(m, METRIC_MSE, 0.5625);
    assert_value(m, METRIC_RMSE, 0.75);
    metrics_free(m);
    m = make(LOSS_SIGMOID_CROSS_ENTROPY, 1, true, ASK(METRIC_MSE, METRIC_RMSE));
    add(m, z + 1, label, 1);
    assert_value(m, METRIC_RMSE, 0.75);
    metrics_free(m);
    m = make(LOSS_MSE, 2, false, ASK(METRIC_MSE, METRIC_RMSE));
    metrics_add(m, (const float[]){1, 2, 3, 4}, &(struct truth){.targets = (const float[]){1, 4, 3, 0}}, 2);
    assert_value(m, METRIC_MSE, 5);
    assert_value(m, METRIC_RMSE, sqrt(5));
    metrics_free(m);
}

TEST(the_sums_of_parts_are_those_of_the_whole)
{
    enum { N = 60, K = 5, N_SUMS = TEST_REAL_SUMS + 2 + METRIC_TOP_MAX + K * K };
    const enum metric_kind *asked = ASK(METRIC_TOP2, METRIC_MSE, METRIC_CONFUSION);
    struct metrics *whole = make(LOSS_SOFTMAX_CROSS_ENTROPY, K, true, asked);
    struct metrics *part = make(LOSS_SOFTMAX_CROSS_ENTROPY, K, true, asked);
    double sums[N_SUMS] = {0}, of_part[N_SUMS], expected, value;
    float z[N * K];
    int32_t labels[N];
    struct rng r;
    int n_classes;

    rng_init(&r, 1, 2, 3);
    for (int i = 0; i < N * K; i++)
        z[i] = 4 * rng_uniform(&r);
    for (int i = 0; i < N; i++)
        labels[i] = (int32_t)rng_below(&r, K);
    add(whole, z, labels, N);
    for (int at = 0, n = 7; at < N; at += n, n = N - at < 31 ? N - at : 31) {
        metrics_begin(part);
        add(part, z + at * K, labels + at, n);
        metrics_sums(part, of_part);
        for (int i = 0; i < N_SUMS; i++)
            sums[i] += of_part[i];
    }
    metrics_set_sums(part, sums);
    assert_true(fabs(metrics_loss(part) - metrics_loss(whole)) < 1e-12);
    assert_true(metrics_accuracy(part) == metrics_accuracy(whole));
    assert_true(metrics_value(part, METRIC_TOP2, &value) && metrics_value(whole, METRIC_TOP2, &expected));
    assert_true(value == expected);
    assert_true(metrics_value(whole, METRIC_MSE, &expected));
    assert_value(part, METRIC_MSE, expected);
    assert_memory_equal(metrics_confusion(part, &n_classes), metrics_confusion(whole, &n_classes),
                        K * K * sizeof(uint64_t));
    metrics_free(whole);
    metrics_free(part);
}

TEST(regression_has_no_accuracy)
{
    struct metrics *m = make(LOSS_MSE, 1, false, ASK(N_METRIC_KINDS));
    double value;

    metrics_add(m, (const float[]){1}, &(struct truth){.targets = (const float[]){1}}, 1);
    assert_false(metrics_value(m, METRIC_ACCURACY, &value));
    metrics_free(m);
}

/* Scores of class 1: 1, 3, 3, 5; of class 0: 0, 2, 3. Pairs won: 1 + 2.5 + 2.5 + 3 = 9 of 12. */
TEST(auc_worked_out_by_hand_with_ties)
{
    const float z[] = {3, 0, 1, 5, 2, 3, 3};
    const int32_t labels[] = {1, 0, 1, 1, 0, 0, 1};
    struct metrics *m = make(LOSS_SIGMOID_CROSS_ENTROPY, 1, true, ASK(METRIC_AUC, METRIC_EER));

    add(m, z, labels, 7);
    assert_value(m, METRIC_AUC, 9.0 / 12);
    /* Past 0: accepts 2/3, rejects 0. Past 1: 2/3, 1/4. Past 2: 1/3, 1/4. Past 3: 0, 3/4: the line from
     * (1/3, 1/4) falls by 1/3 and rises by 1/2, and is cut after 1/10 of it. */
    assert_value(m, METRIC_EER, 0.3);
    metrics_free(m);
}

static double auc_of_all_pairs(const float *z, const int32_t *labels, int n)
{
    double won = 0, pairs = 0;

    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            if (labels[i] == 1 && labels[j] == 0) {
                won += z[i] > z[j] ? 1 : z[i] == z[j] ? 0.5 : 0;
                pairs++;
            }
    return won / pairs;
}

/* Scores on a coarse grid, so that many are tied; one output, or two whose difference counts. */
TEST(auc_is_the_fraction_of_correctly_ordered_pairs)
{
    for (uint64_t seed = 0; seed < 20; seed++) {
        struct metrics *one = make(LOSS_SIGMOID_CROSS_ENTROPY, 1, true, ASK(METRIC_AUC));
        struct metrics *two = make(LOSS_SOFTMAX_CROSS_ENTROPY, 2, true, ASK(METRIC_AUC));
        float z[150], pairs[300];
        int32_t labels[150];
        struct rng r;

        rng_init(&r, seed, 0, 0);
        for (int i = 0; i < 150; i++) {
            labels[i] = (int32_t)rng_below(&r, 2);
            z[i] = (float)rng_below(&r, 12) + (float)labels[i];
            pairs[2 * i] = (float)rng_below(&r, 5);
            pairs[2 * i + 1] = pairs[2 * i] + z[i];
        }
        for (int i = 0; i < 150; i += 50) {
            add(one, z + i, labels + i, 50);
            add(two, pairs + 2 * i, labels + i, 50);
        }
        assert_value(one, METRIC_AUC, auc_of_all_pairs(z, labels, 150));
        assert_value(two, METRIC_AUC, auc_of_all_pairs(z, labels, 150));
        metrics_free(one);
        metrics_free(two);
    }
}

TEST(separable_scores_have_auc_1_and_eer_0_and_the_reverse_if_inverted)
{
    const float z[] = {1, 2, 3, 4};
    const int32_t right[] = {0, 0, 1, 1}, wrong[] = {1, 1, 0, 0};
    struct metrics *m = make(LOSS_MSE, 1, true, ASK(METRIC_AUC, METRIC_EER));

    add(m, z, right, 4);
    assert_value(m, METRIC_AUC, 1);
    assert_value(m, METRIC_EER, 0);
    metrics_begin(m);
    add(m, z, wrong, 4);
    assert_value(m, METRIC_AUC, 0);
    assert_value(m, METRIC_EER, 1);
    metrics_begin(m);
    add(m, (const float[]){1, 1, 1, 1}, right, 4); /* a score without information */
    assert_value(m, METRIC_AUC, 0.5);
    assert_value(m, METRIC_EER, 0.5);
    metrics_free(m);
}

/* Scores of class c are uniform on [c, c + 2]: both errors are 1/4 at the threshold 1.5. */
TEST(eer_of_two_known_distributions)
{
    enum { N = 1000 };
    struct metrics *m = make(LOSS_SIGMOID_CROSS_ENTROPY, 1, true, ASK(METRIC_EER));
    float z[2 * N];
    int32_t labels[2 * N];
    double value;

    for (int i = 0; i < 2 * N; i++) {
        labels[i] = i % 2;
        z[i] = (float)(i % 2) + (float)(i / 2) * 2 / (float)N;
    }
    add(m, z, labels, 2 * N);
    assert_true(metrics_value(m, METRIC_EER, &value));
    assert_true(fabs(value - 0.25) < 1.5 / (double)N);
    metrics_free(m);
}

TEST(a_single_class_has_no_auc_or_eer)
{
    struct metrics *m = make(LOSS_SIGMOID_CROSS_ENTROPY, 1, true, ASK(METRIC_AUC, METRIC_EER));
    double value;

    add(m, (const float[]){1, 2}, (const int32_t[]){1, 1}, 2);
    assert_false(metrics_value(m, METRIC_AUC, &value));
    assert_false(metrics_value(m, METRIC_EER, &value));
    metrics_begin(m);
    assert_false(metrics_value(m, METRIC_ACCURACY, &value)); /* nor without samples */
    metrics_free(m);
}

/* 1 above 0 is right; then 2 and 0.5, added out of order, make four pairs of which two are right. */
TEST(samples_added_after_a_query_count)
{
    const float z[] = {0, 1, 2, 0.5f};
    const int32_t labels[] = {0, 1, 0, 1};
    struct metrics *m = make(LOSS_SIGMOID_CROSS_ENTROPY, 1, true, ASK(METRIC_AUC));

    add(m, z, labels, 2);
    assert_value(m, METRIC_AUC, 1);
    add(m, z + 2, labels + 2, 2);
    assert_value(m, METRIC_AUC, 0.5);
    metrics_free(m);
}

TEST(a_nan_output_is_propagated)
{
    const float z[] = {NAN, 1, 2};
    const int32_t labels[] = {0, 1, 0};
    struct metrics *m = make(LOSS_SIGMOID_CROSS_ENTROPY, 1, true, ASK(METRIC_AUC, METRIC_EER, METRIC_MSE));
    const enum metric_kind kinds[] = {METRIC_AUC, METRIC_EER, METRIC_MSE};

    add(m, z, labels, 3);
    assert_true(isnan(metrics_loss(m)));
    for (size_t i = 0; i < N_OF(kinds); i++) {
        double value = 0;

        assert_true(metrics_value(m, kinds[i], &value));
        assert_true(isnan(value));
    }
    metrics_free(m);
}

TEST(confusion_counts_labels_by_predicted_class)
{
    const float z[] = {1, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 1};
    const int32_t labels[] = {0, 0, 2, 2};
    const uint64_t expected[] = {1, 1, 0, 0, 0, 0, 1, 0, 1};
    struct metrics *m = make(LOSS_SOFTMAX_CROSS_ENTROPY, 3, true, ASK(METRIC_CONFUSION));
    int n;

    add(m, z, labels, 4);
    assert_memory_equal(metrics_confusion(m, &n), expected, sizeof expected);
    assert_int_equal(n, 3);
    metrics_begin(m);
    assert_int_equal(metrics_confusion(m, &n)[0], 0);
    metrics_free(m);
    m = make(LOSS_SIGMOID_CROSS_ENTROPY, 1, true, ASK(METRIC_CONFUSION));
    add(m, (const float[]){-1, 1, 1}, (const int32_t[]){1, 1, 0}, 3);
    assert_memory_equal(metrics_confusion(m, &n), ((const uint64_t[]){0, 1, 1, 1}), 4 * sizeof(uint64_t));
    assert_int_equal(n, 2);
    metrics_free(m);
    m = make(LOSS_MSE, 1, true, ASK(METRIC_MSE));
    assert_null(metrics_confusion(m, &n));
    metrics_free(m);
}

TEST(metrics_that_the_data_set_cannot_provide_are_refused)
{
    static struct model_spec spec;
    struct metrics *m;
    struct err e;

    spec = (struct model_spec){.name = "m", .loss = LOSS_MSE, .n_out = 1, .metrics[METRIC_AUC] = true};
    assert_int_equal(metrics_new(&m, &spec, false, 10, &e), ERR_CONFIG);
    assert_error_has("model \"m\" has the metric auc, which needs labels");
    spec = (struct model_spec){.name = "m", .n_out = 5000, .metrics[METRIC_CONFUSION] = true};
    assert_int_equal(metrics_new(&m, &spec, true, 10, &e), ERR_CONFIG);
    assert_error_has("has the metric confusion for 5000 classes; at most 1024");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loss_and_accuracy_are_always_computed_and_add_up_over_batches),
        cmocka_unit_test(top_k_counts_labels_among_the_k_largest),
        cmocka_unit_test(ties_for_the_fifth_largest_output_go_to_the_first),
        cmocka_unit_test(mse_and_rmse_compare_predictions_with_targets),
        cmocka_unit_test(the_sums_of_parts_are_those_of_the_whole),
        cmocka_unit_test(regression_has_no_accuracy),
        cmocka_unit_test(auc_worked_out_by_hand_with_ties),
        cmocka_unit_test(auc_is_the_fraction_of_correctly_ordered_pairs),
        cmocka_unit_test(separable_scores_have_auc_1_and_eer_0_and_the_reverse_if_inverted),
        cmocka_unit_test(eer_of_two_known_distributions),
        cmocka_unit_test(a_single_class_has_no_auc_or_eer),
        cmocka_unit_test(a_nan_output_is_propagated),
        cmocka_unit_test(confusion_counts_labels_by_predicted_class),
        cmocka_unit_test(metrics_that_the_data_set_cannot_provide_are_refused),
        cmocka_unit_test(samples_added_after_a_query_count),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
