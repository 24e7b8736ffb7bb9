#include "submit/sweep/sweep_table.h"

#include <math.h>

#include "tests/unit/unit.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_deviation_is_that_of_a_sample),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
