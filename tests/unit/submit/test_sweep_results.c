#include "submit/sweep/sweep_results.h"

#include <math.h>

#include "tests/unit/unit.h"

static struct err e;

TEST(the_deviation_is_that_of_a_sample)
{
    struct sweep_mean m = sweep_mean_of((const double[]){2, NAN, 4, 6}, 4);

    assert_int_equal(m.n, 3);
    assert_true(m.mean == 4 && m.deviation == 2);
    m = sweep_mean_of((const double[]){2}, 1);
    assert_true(m.mean == 2 && isnan(m.deviation));
    m = sweep_mean_of((const double[]){NAN}, 1);
    assert_true(m.n == 0 && isnan(m.mean));
}

static struct sweep_row row_of(size_t group, double accuracy, size_t n_reached, double bytes)
{
    struct sweep_row row = {.group = group, .n_runs = 2, .n_reached = n_reached};

    for (int k = 0; k < N_COMPARE_RESULTS; k++)
        row.of[k].mean = NAN;
    row.of[COMPARE_ACCURACY].mean = accuracy;
    row.of[COMPARE_BYTES_TO_TARGET].mean = bytes;
    return row;
}

TEST(the_best_of_a_group_reaches_the_target_most_often_then_with_the_fewest_bytes)
{
    struct sweep_row rows[] = {row_of(0, 0.99, 2, 50),  row_of(0, 0.97, 2, 40),  row_of(0, 0.98, 1, 10),
                               row_of(7, 0.90, 0, NAN), row_of(7, 0.91, 0, NAN), row_of(9, 0.96, 2, 30)};
    struct sweep_results r = {.rows = rows, .n_rows = 6, .target = 0.95, .target_is_given = true};

    assert_ok(sweep_choose_best(&r, &e));

    assert_int_equal(r.n_groups, 3);
    assert_int_equal(r.best[0], 5);
    assert_int_equal(r.best[1], 1);
    assert_int_equal(r.best[2], 4);
    assert_true(rows[1].is_best && !rows[0].is_best && !rows[2].is_best && !rows[3].is_best);
    free(r.best);
}

TEST(without_a_target_the_best_of_a_group_has_the_highest_accuracy_and_has_not_diverged)
{
    struct sweep_row rows[] = {row_of(0, 0.96, 0, NAN), row_of(0, 0.97, 0, NAN), row_of(0, 0.98, 0, NAN)};
    struct sweep_results r = {.rows = rows, .n_rows = 3, .target = NAN};

    rows[2].n_diverged = 1;
    assert_ok(sweep_choose_best(&r, &e));

    assert_int_equal(r.n_groups, 1);
    assert_int_equal(r.best[0], 1);
    free(r.best);
}

TEST(the_better_half_of_each_group_goes_on)
{
    struct sweep_row rows[] = {row_of(0, 0.5, 0, NAN), row_of(0, 0.7, 0, NAN), row_of(0, 0.6, 0, NAN),
                               row_of(3, 0.2, 0, NAN), row_of(0, 0.7, 0, NAN), row_of(4, NAN, 0, NAN)};
    struct sweep_results r = {.rows = rows, .n_rows = 6, .target = NAN};

    for (int i = 0; i < 6; i++)
        rows[i].is_member = (rows[i].n_rungs = 1);
    rows[5].n_failed = 2; /* all its runs */
    sweep_choose_members(&r, false);

    assert_true(rows[1].rungs[0].place == 1 && rows[1].rungs[0].of == 4 && rows[1].is_member);
    assert_true(rows[4].rungs[0].place == 2 && rows[4].rungs[0].goes_on);
    assert_true(rows[2].rungs[0].place == 3 && !rows[2].is_member && !rows[2].rungs[0].goes_on);
    assert_true(rows[3].rungs[0].of == 1 && rows[3].is_member);
    assert_false(rows[5].is_member);
    rows[1].n_rungs = rows[4].n_rungs = rows[3].n_rungs = 2;
    rows[1].n_diverged = 1;
    sweep_choose_members(&r, true);

    assert_true(rows[1].rungs[1].place == 2 && rows[1].rungs[1].of == 2 && rows[1].is_member);
    assert_true(rows[4].rungs[1].place == 1 && !rows[4].rungs[1].goes_on);
    rows[0].of[COMPARE_ACCURACY].mean = 0.9; /* a run that was stopped is not the best */
    assert_ok(sweep_choose_best(&r, &e));
    assert_true(rows[4].is_best && !rows[0].is_best);
    free(r.best);
}

TEST(best_of_names_options_that_vary)
{
    bool is_searched[SWEEP_AXES];
    struct options o = {.best_of = "epochs,learn-rate"};
    struct sweep_plan p;

    assert_ok(sweep_plan_make(&p, (const char *const[]){"codec=a,b", "learn_rate=1,2", "epochs=1", NULL}, 2,
                              1, &e));
    assert_ok(sweep_find_searched(is_searched, &p, &o, &e));
    assert_true(!is_searched[0] && is_searched[1] && is_searched[2]);
    assert_int_equal(sweep_largest_group(&p, is_searched), 2);
    snprintf(o.best_of, sizeof o.best_of, "momentum");
    assert_int_equal(sweep_find_searched(is_searched, &p, &o, &e), ERR_USAGE);
    assert_string_equal(e.text, "--best-of momentum: the sweep does not vary this option");
    snprintf(o.best_of, sizeof o.best_of, "seed");
    assert_int_equal(sweep_find_searched(is_searched, &p, &o, &e), ERR_USAGE);
    o.best_of[0] = '\0';
    snprintf(o.search, sizeof o.search, SWEEP_HALVING);
    assert_ok(sweep_find_searched(is_searched, &p, &o, &e));
    assert_int_equal(sweep_largest_group(&p, is_searched), 4);
    sweep_plan_clear(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_deviation_is_that_of_a_sample),
        cmocka_unit_test(the_best_of_a_group_reaches_the_target_most_often_then_with_the_fewest_bytes),
        cmocka_unit_test(without_a_target_the_best_of_a_group_has_the_highest_accuracy_and_has_not_diverged),
        cmocka_unit_test(the_better_half_of_each_group_goes_on),
        cmocka_unit_test(best_of_names_options_that_vary),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
