#include "shared/job/test_part.h"

#include "tests/unit/unit.h"

TEST(parts_are_contiguous_of_nearly_equal_size_and_cover_the_set)
{
    static const struct {
        size_t n;
        int workers;
    } cases[] = {{1, 1}, {10, 10}, {10, 3}, {4000, 7}, {10000, 999}, {SIZE_MAX, 4096}};

    for (size_t k = 0; k < N_OF(cases); k++) {
        size_t next = 0, least = cases[k].n / (size_t)cases[k].workers;

        for (int w = 0; w < cases[k].workers; w++) {
            struct test_part p = test_part_of(cases[k].n, cases[k].workers, w);

            assert_true(p.first == next && p.n >= least && p.n <= least + 1);
            next += p.n;
        }
        assert_true(next == cases[k].n);
    }
}

static size_t sums_of(struct model_spec *m, enum metric_kind kind, int n_out)
{
    *m = (struct model_spec){.name = "m", .n_out = n_out};
    m->metrics[kind] = true;
    return test_sums_of(m);
}

TEST(a_test_set_is_whole_where_its_metrics_do_not_add_up)
{
    const struct settings divides = {.divides_test = true}, whole = {0};
    static struct model_spec m;
    struct err e;
    size_t n;

    assert_int_equal(sums_of(&m, METRIC_ACCURACY, 10), TEST_REAL_SUMS + 2 + METRIC_TOP_MAX);
    assert_int_equal(sums_of(&m, METRIC_CONFUSION, 10), TEST_REAL_SUMS + 2 + METRIC_TOP_MAX + 100);
    assert_int_equal(sums_of(&m, METRIC_CONFUSION, 1), TEST_REAL_SUMS + 2 + METRIC_TOP_MAX + 4);
    assert_true(sums_of(&m, METRIC_CONFUSION, 90) > 0);
    assert_int_equal(sums_of(&m, METRIC_CONFUSION, 91), 0);
    assert_int_equal(sums_of(&m, METRIC_CONFUSION, 65536), 0);
    assert_int_equal(sums_of(&m, METRIC_EER, 2), 0);
    assert_int_equal(sums_of(&m, METRIC_AUC, 2), 0);
    assert_int_equal(test_sums_in(&n, &divides, &m, &e), ERR_CONFIG);
    assert_error_has("the metrics of model \"m\" need the whole test set");
    assert_ok(test_sums_in(&n, &whole, &m, &e));
    assert_int_equal(n, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_are_contiguous_of_nearly_equal_size_and_cover_the_set),
        cmocka_unit_test(a_test_set_is_whole_where_its_metrics_do_not_add_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
