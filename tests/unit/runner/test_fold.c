#include "runner/executor/fold.h"

#include <math.h>

#include "tests/unit/unit.h"

static bool same(double a, double b)
{
    return a == b || (isnan(a) && isnan(b));
}

/* Worked by hand; infinities and NAN as IEEE 754 has them for + and *. */
TEST(each_fold_of_two_numbers_is_the_one_of_its_name)
{
    static const struct {
        double a, b, of[EXECUTOR_MIN + 1]; /* sum, product, greatest, least */
    } cases[] = {
        {2, 3, {5, 6, 3, 2}},           {-2, 0.5, {-1.5, -1, 0.5, -2}},
        {7, 7, {14, 49, 7, 7}},         {INFINITY, 1, {INFINITY, INFINITY, INFINITY, 1}},
        {NAN, 1, {NAN, NAN, NAN, NAN}}, {1, NAN, {NAN, NAN, NAN, NAN}},
    };

    for (size_t i = 0; i < N_OF(cases); i++)
        for (int how = 0; how <= EXECUTOR_MIN; how++) {
            double a[2] = {cases[i].a, -1}, b[2] = {cases[i].b, -1};
            float x[2] = {(float)cases[i].a, -1}, y[2] = {(float)cases[i].b, -1};

            fold_of(FOLD_DOUBLE, (enum executor_fold)how)(a, b, 1);
            fold_of(FOLD_FLOAT, (enum executor_fold)how)(x, y, 1);
            assert_true(same(a[0], cases[i].of[how]));
            assert_true(same(x[0], cases[i].of[how]));
            assert_true(a[1] == -1 && x[1] == -1);
        }
}

TEST(doubles_are_not_folded_as_floats)
{
    double a = 1, b = 0x1p-50;

    fold_of(FOLD_DOUBLE, EXECUTOR_SUM)(&a, &b, 1);
    assert_true(a == 1 + 0x1p-50);
}

TEST(a_number_that_names_no_fold_has_none)
{
    assert_null(fold_of(FOLD_FLOAT, (enum executor_fold)(EXECUTOR_MIN + 1)));
    assert_null(fold_of(FOLD_FLOAT, (enum executor_fold) - 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_fold_of_two_numbers_is_the_one_of_its_name),
        cmocka_unit_test(doubles_are_not_folded_as_floats),
        cmocka_unit_test(a_number_that_names_no_fold_has_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
