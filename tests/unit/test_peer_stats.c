/* What an exchange keeps about each other node. */
#include "tests/unit/unit.h"

#include "agent/runner/exchange/peer_stats.h"

enum { N = 10000 };

static struct peer_stats l;
static struct err e;

TEST(nodes_that_were_never_spoken_to_have_no_figures_and_take_no_page)
{
    assert_ok(peer_stats_open(&l, N, &e));
    assert_non_null(link_make(&l, 9999));
    for (int i = 0; i < N - 16; i++)
        assert_true(link_read(&l, i) == link_read(&l, 0)); /* the one that stands for all of them */
    assert_int_equal(link_read(&l, 17)->sent_done.messages, 0);
    assert_true(link_read(&l, 9999) == link_of(&l, 9999));
    peer_stats_clear(&l);
}

TEST(a_rounds_traffic_is_that_of_the_round_before_when_it_is_closed)
{
    assert_ok(peer_stats_open(&l, N, &e));
    link_make(&l, 3)->sent.messages = 7;
    link_make(&l, 3)->received.wire_bytes = 9;
    link_make(&l, 3)->n_said = 5;
    assert_int_equal(link_read(&l, 3)->sent_done.messages, 0);
    peer_stats_close_round(&l);
    assert_int_equal(link_read(&l, 3)->sent_done.messages, 7);
    assert_int_equal(link_read(&l, 3)->recv_done.wire_bytes, 9);
    assert_int_equal(link_read(&l, 3)->sent.messages, 0);
    assert_int_equal(link_read(&l, 3)->n_said, 5);
    peer_stats_close_round(&l);
    assert_int_equal(link_read(&l, 3)->sent_done.messages, 0);
    peer_stats_clear(&l);
}

TEST(a_node_that_nobody_looked_at_for_rounds_has_the_figures_of_the_last_two_alone)
{
    assert_ok(peer_stats_open(&l, N, &e));
    link_make(&l, 3)->sent.messages = 7;
    peer_stats_close_round(&l);
    peer_stats_close_round(&l);
    assert_int_equal(link_read(&l, 3)->sent_done.messages, 0);
    link_of(&l, 3)->received.messages = 2;
    link_of(&l, 4)->sent.messages = 3; /* of the same page, for the first time */
    peer_stats_close_round(&l);
    assert_int_equal(link_of(&l, 3)->sent_done.messages, 0);
    assert_int_equal(link_of(&l, 3)->recv_done.messages, 2);
    assert_int_equal(link_of(&l, 4)->sent_done.messages, 3);
    peer_stats_clear(&l);
}

TEST(who_leaves_twice_has_left_once)
{
    assert_ok(peer_stats_open(&l, 17, &e)); /* not whole pages */
    peer_stats_leave(&l, 16);
    peer_stats_leave(&l, 16);
    peer_stats_leave(&l, 0);
    assert_int_equal(l.n_left, 2);
    assert_true(l.has_left[16] && l.has_left[0] && !l.has_left[1]);
    peer_stats_clear(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_that_were_never_spoken_to_have_no_figures_and_take_no_page),
        cmocka_unit_test(a_rounds_traffic_is_that_of_the_round_before_when_it_is_closed),
        cmocka_unit_test(a_node_that_nobody_looked_at_for_rounds_has_the_figures_of_the_last_two_alone),
        cmocka_unit_test(who_leaves_twice_has_left_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
