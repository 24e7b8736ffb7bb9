#include "submit/job/job_node.h"

#include "tests/unit/unit.h"

/* Lines of 1,000 bytes in `seconds` of time, so many each second. Returns how many are printed. */
static int print_all(struct print_limit *a, double seconds, int per_s, double *now)
{
    uint64_t hidden;
    int n = 0;

    for (int i = 0; i < seconds * per_s; i++, *now += 1.0 / per_s)
        n += node_may_print(a, 1000, *now, &hidden);
    return n;
}

TEST(all_lines_of_a_correct_agent_are_printed)
{
    struct print_limit a = {0};
    double now = 1000;

    assert_int_equal(print_all(&a, 1, 50, &now), 50); /* at the start of a job */
    assert_int_equal(print_all(&a, 3600, 1, &now), 3600);
}

TEST(a_flood_is_cut_to_a_steady_rate_and_counted)
{
    struct print_limit a = {0};
    double now = 1000;
    uint64_t hidden = 0;
    int n = print_all(&a, 3600, 1000, &now);

    assert_in_range(n, 64, (NODE_PRINT_BYTES + 3600 * NODE_PRINT_BYTES_PER_S) / 1000);
    now += 60;
    assert_true(node_may_print(&a, 1000, now, &hidden));
    assert_true(hidden > 0);
    assert_true(node_may_print(&a, 1000, now, &hidden));
    assert_int_equal(hidden, 0); /* said once */
}

TEST(a_clock_that_does_not_advance_adds_no_bytes)
{
    struct print_limit a = {0};
    double now = 1000;
    uint64_t hidden;
    int n = 0;

    while (node_may_print(&a, 1000, now, &hidden))
        n++;
    assert_int_equal(n, NODE_PRINT_BYTES / 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_lines_of_a_correct_agent_are_printed),
        cmocka_unit_test(a_flood_is_cut_to_a_steady_rate_and_counted),
        cmocka_unit_test(a_clock_that_does_not_advance_adds_no_bytes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
