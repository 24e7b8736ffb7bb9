#include "runner/base/affinity.h"

#include <sched.h>

#include "tests/unit/unit.h"

enum { NODES = 16 };

/* Processors from, ..., from + n - 1. */
static struct affinity processors(int from, int n)
{
    struct affinity a = {{0}};

    for (int i = from; i < from + n; i++)
        a.words[i / 64] |= (uint64_t)1 << i % 64;
    return a;
}

static void assert_crowding(const struct affinity *nodes, int n, enum affinity_crowding expected)
{
    for (int me = 0; me < n; me++)
        assert_int_equal(affinity_crowding(nodes, n, me), expected);
}

TEST(nodes_that_are_bound_to_a_processor_each_have_it_alone)
{
    struct affinity nodes[NODES];

    for (int i = 0; i < NODES; i++)
        nodes[i] = processors(60 + i, 1); /* also across words */
    assert_crowding(nodes, NODES, AFFINITY_ALONE);
}

TEST(nodes_that_may_run_everywhere_share_processors_once_they_are_more)
{
    struct affinity nodes[NODES];

    for (int n_processors = 1; n_processors <= NODES; n_processors++) {
        for (int i = 0; i < NODES; i++)
            nodes[i] = processors(0, n_processors);
        assert_crowding(nodes, n_processors, AFFINITY_ALONE);
        assert_crowding(nodes, NODES,
                        n_processors == NODES      ? AFFINITY_ALONE
                        : n_processors * 4 < NODES ? AFFINITY_CROWDED
                                                   : AFFINITY_SHARED);
    }
}

TEST(nodes_that_are_bound_to_the_same_processor_share_it_although_others_are_idle)
{
    struct affinity nodes[7] = {processors(0, 1), processors(0, 1), processors(1, 1)};

    assert_int_equal(affinity_crowding(nodes, 3, 0), AFFINITY_SHARED);
    assert_int_equal(affinity_crowding(nodes, 3, 2), AFFINITY_ALONE);
    for (int i = 0; i < 6; i++)
        nodes[i] = processors(0, 1);
    nodes[6] = processors(0, 8); /* it can run elsewhere */
    assert_int_equal(affinity_crowding(nodes, 7, 0), AFFINITY_CROWDED);
    assert_int_equal(affinity_crowding(nodes, 7, 6), AFFINITY_ALONE);
}

TEST(a_node_that_may_run_where_others_are_bound_makes_them_share)
{
    const struct affinity nodes[] = {processors(0, 1), processors(1, 1), processors(0, 2)};

    assert_crowding(nodes, 3, AFFINITY_SHARED);
}

TEST(unknown_processors_may_be_those_of_any_node)
{
    const struct affinity nodes[] = {processors(0, 1), processors(1, 1), {{0}}};

    assert_int_equal(affinity_crowding(nodes, 3, 0), AFFINITY_SHARED);
    assert_int_equal(affinity_crowding(nodes, 2, 0), AFFINITY_ALONE);
}

TEST(the_processors_of_this_process_are_those_of_the_kernel)
{
    cpu_set_t own, one;
    struct affinity a, expected;
    size_t first = 0;

    assert_int_equal(sched_getaffinity(0, sizeof own, &own), 0);
    while (!CPU_ISSET(first, &own))
        first++;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    affinity_read(&a);
    expected = processors((int)first, 1);
    assert_memory_equal(&a, &expected, sizeof a);
    assert_int_equal(affinity_crowding_alike(1), AFFINITY_ALONE);
    assert_int_equal(affinity_crowding_alike(4), AFFINITY_SHARED);
    assert_int_equal(affinity_crowding_alike(5), AFFINITY_CROWDED);
    assert_int_equal(sched_setaffinity(0, sizeof own, &own), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_that_are_bound_to_a_processor_each_have_it_alone),
        cmocka_unit_test(nodes_that_may_run_everywhere_share_processors_once_they_are_more),
        cmocka_unit_test(nodes_that_are_bound_to_the_same_processor_share_it_although_others_are_idle),
        cmocka_unit_test(a_node_that_may_run_where_others_are_bound_makes_them_share),
        cmocka_unit_test(unknown_processors_may_be_those_of_any_node),
        cmocka_unit_test(the_processors_of_this_process_are_those_of_the_kernel),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
