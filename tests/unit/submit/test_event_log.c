#include "submit/results/event_log.h"

#include "tests/unit/unit.h"

static const char line[] = "{\"seq\":1,\"at\":\"2026-11-21T07:31:22.123Z\",\"event\":\"log\"}\n";

TEST(lines_beyond_the_limit_of_all_nodes_are_dropped_and_reported)
{
    struct event_log l = {.max = 300};

    assert_true(event_log_add(&l, 0, line, sizeof line - 1));
    assert_int_equal(l.n, 1);
    for (int node = 1; node < 9; node++)
        event_log_add(&l, node, line, sizeof line - 1);
    assert_false(event_log_add(&l, 9, line, sizeof line - 1));
    assert_in_range(l.n, 2, 3);
    event_log_clear(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_beyond_the_limit_of_all_nodes_are_dropped_and_reported),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
