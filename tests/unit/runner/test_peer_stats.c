/* peer_stats: what an exchange records about each other node. */
#include "tests/unit/unit.h"

#include "runner/exchange/peer_stats.h"

enum { N = 10000 };

static struct peer_stats l;
static struct err e;

TEST(peers_without_traffic_have_no_statistics)
{
    assert_ok(peer_stats_open(&l, N, &e));
    assert_non_null(peer_stats_make(&l, 9999));
    for (int i = 0; i < N - 1; i++)
        assert_true(peer_stats_read(&l, i) == peer_stats_read(&l, 0)); /* the shared entry of zeros */
    assert_int_equal(peer_stats_read(&l, 17)->sent_done.messages, 0);
    assert_true(peer_stats_read(&l, 9999) == peer_stats_of(&l, 9999));
    assert_int_equal(l.room, 4); /* of ten thousand */
    peer_stats_clear(&l);
}

TEST(the_traffic_of_a_closed_round_is_available_in_the_next)
{
    assert_ok(peer_stats_open(&l, N, &e));
    peer_stats_make(&l, 3)->sent.messages = 7;
    peer_stats_make(&l, 3)->received.wire_bytes = 9;
    peer_stats_make(&l, 3)->n_sent = 5;
    assert_int_equal(peer_stats_read(&l, 3)->sent_done.messages, 0);
    peer_stats_close_round(&l);
    assert_int_equal(peer_stats_read(&l, 3)->sent_done.messages, 7);
    assert_int_equal(peer_stats_read(&l, 3)->recv_done.wire_bytes, 9);
    assert_int_equal(peer_stats_read(&l, 3)->sent.messages, 0);
    assert_int_equal(peer_stats_read(&l, 3)->n_sent, 5);
    peer_stats_close_round(&l);
    assert_int_equal(peer_stats_read(&l, 3)->sent_done.messages, 0);
    peer_stats_clear(&l);
}

TEST(statistics_not_read_for_rounds_cover_the_last_two_only)
{
    assert_ok(peer_stats_open(&l, N, &e));
    peer_stats_make(&l, 3)->sent.messages = 7;
    peer_stats_close_round(&l);
    peer_stats_close_round(&l);
    assert_int_equal(peer_stats_read(&l, 3)->sent_done.messages, 0);
    peer_stats_of(&l, 3)->received.messages = 2;
    peer_stats_make(&l, 4)->sent.messages = 3;
    peer_stats_close_round(&l);
    assert_int_equal(peer_stats_of(&l, 3)->sent_done.messages, 0);
    assert_int_equal(peer_stats_of(&l, 3)->recv_done.messages, 2);
    assert_int_equal(peer_stats_of(&l, 4)->sent_done.messages, 3);
    peer_stats_clear(&l);
}

TEST(peers_with_statistics_are_listed_in_order_whatever_the_order_of_their_first_messages)
{
    enum { STEP = 7919 }; /* a prime, so that every peer has its turn */
    int n = 0;

    assert_ok(peer_stats_open(&l, N, &e));
    assert_int_equal(peer_stats_next(&l, 0), N);
    for (int i = 0; i < N; i += 2)
        peer_stats_make(&l, i * STEP % N)->n_sent = (uint64_t)(i * STEP % N);
    for (int slot = 0; (slot = peer_stats_next(&l, slot)) < N; slot++, n++) {
        assert_int_equal(slot, 2 * n);
        assert_int_equal(peer_stats_of(&l, slot)->n_sent, slot);
    }
    assert_int_equal(n, N / 2);
    peer_stats_clear(&l);
}

TEST(a_peer_that_leaves_twice_counts_once)
{
    assert_ok(peer_stats_open(&l, 17, &e));
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
        cmocka_unit_test(peers_without_traffic_have_no_statistics),
        cmocka_unit_test(the_traffic_of_a_closed_round_is_available_in_the_next),
        cmocka_unit_test(statistics_not_read_for_rounds_cover_the_last_two_only),
        cmocka_unit_test(
            peers_with_statistics_are_listed_in_order_whatever_the_order_of_their_first_messages),
        cmocka_unit_test(a_peer_that_leaves_twice_counts_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
