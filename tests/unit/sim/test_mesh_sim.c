/* The simulated mesh fulfills mesh.h's contract whatever the order of deliveries. */
#include "tests/unit/unit.h"

#include "sim/mesh_sim.h"

enum { N_WORKERS = 3, MESSAGES = 2 * MESH_QUEUE_MAX };

static struct mesh_sim *net;
static struct sim_message *kept[MESSAGES]; /* sent but not delivered, in the order of sending */
static int n_kept, n_notified;
static struct err e;

static int keep(void *owner, struct sim_message *m, struct err *err)
{
    (void)owner;
    (void)err;
    kept[n_kept++] = m;
    return 0;
}

static void on_room(void *owner, int slot)
{
    (void)owner;
    assert_int_equal(slot, 0);
    n_notified++;
}

static void begin(bool is_star)
{
    n_kept = n_notified = 0;
    assert_ok(mesh_sim_new(&net,
                           &(struct mesh_sim_config){.n_workers = N_WORKERS,
                                                     .n_servers = is_star,
                                                     .is_star = is_star,
                                                     .limit = 64,
                                                     .carry = keep,
                                                     .on_room = on_room},
                           &e));
}

static void deliver_all(void)
{
    for (int i = 0; i < n_kept; i++)
        mesh_sim_deliver(net, kept[i]);
    n_kept = 0;
}

static int send(int from, int to, uint64_t round)
{
    struct mesh *m = mesh_sim_node(net, from);
    struct mesh_head h = {.kind = FRAME_CONTRIBUTION, .peer = to, .round = round};
    struct mesh_buf *b = mesh_buf_take(m);
    int rc;

    assert_non_null(b);
    b->len = 8;
    memcpy(b->bytes, &round, sizeof round);
    rc = mesh_send(m, &h, b, &e);
    mesh_buf_put(b);
    return rc;
}

/* The next event of a node: a message's round, or minus the event's kind. */
static int64_t receive(int node)
{
    struct mesh *m = mesh_sim_node(net, node);
    struct mesh_event ev;

    assert_ok(mesh_poll(m, &ev, 0, &e));
    if (ev.kind != MESH_MESSAGE)
        return -(int64_t)ev.kind;
    mesh_buf_put(ev.buf);
    return (int64_t)ev.head.round;
}

TEST(messages_arrive_once_in_order_and_only_after_delivery)
{
    begin(false);
    for (uint64_t i = 1; i <= 5; i++)
        assert_ok(send(0, 1, i));
    assert_int_equal(mesh_queued_for(mesh_sim_node(net, 0), 1), 5);
    assert_int_equal(receive(1), MESH_NOTHING);
    deliver_all();
    assert_true(mesh_sim_has_event(net, 1) && !mesh_sim_has_event(net, 2));
    for (int i = 1; i <= 5; i++)
        assert_int_equal(receive(1), i);
    assert_int_equal(receive(1), MESH_NOTHING);
    assert_int_equal(mesh_queued_for(mesh_sim_node(net, 0), 1), 0);
    assert_int_equal(mesh_sim_messages(net), 5);
    mesh_sim_free(net);
}

TEST(one_buffer_is_sent_to_many_without_a_copy_and_returns_to_one_pool)
{
    struct mesh_head h = {.kind = FRAME_CONTRIBUTION};
    struct mesh *m;
    struct mesh_buf *b;

    begin(false);
    m = mesh_sim_node(net, 0);
    b = mesh_buf_take(m);
    for (h.peer = 1; h.peer < N_WORKERS; h.peer++)
        assert_ok(mesh_send(m, &h, b, &e));
    mesh_buf_put(b);
    assert_int_equal(b->refs, N_WORKERS - 1);
    deliver_all();
    for (int node = 1; node < N_WORKERS; node++)
        assert_int_equal(receive(node), 0);
    for (int node = 0; node < N_WORKERS; node++) { /* the next caller gets it */
        struct mesh_buf *again = mesh_buf_take(mesh_sim_node(net, node));

        assert_ptr_equal(again, b);
        mesh_buf_put(again);
    }
    mesh_sim_free(net);
}

TEST(sends_to_a_peer_that_reads_nothing_are_refused_until_there_is_room)
{
    begin(false);
    for (uint64_t i = 0; i < MESH_QUEUE_MAX; i++)
        assert_ok(send(0, 1, i));
    assert_int_equal(send(0, 1, 0), ERR_REFUSED);
    assert_ok(send(0, 2, 0));
    assert_int_equal(mesh_queued(mesh_sim_node(net, 0)), MESH_QUEUE_MAX);
    deliver_all();
    assert_int_equal(n_notified, 0);
    assert_int_equal(receive(1), 0);
    assert_int_equal(n_notified, 1);
    assert_int_equal(mesh_queued(mesh_sim_node(net, 0)), MESH_QUEUE_MAX - 1);
    assert_ok(send(0, 1, 0));
    mesh_sim_free(net);
}

TEST(a_paused_peer_queues_messages_and_others_do_not)
{
    begin(false);
    assert_ok(send(0, 2, 1));
    assert_ok(send(1, 2, 2));
    deliver_all();
    mesh_pause(mesh_sim_node(net, 2), 0, true);
    assert_int_equal(receive(2), 2);
    assert_int_equal(receive(2), MESH_NOTHING);
    assert_false(mesh_sim_has_event(net, 2));
    mesh_pause(mesh_sim_node(net, 2), 0, false);
    assert_int_equal(receive(2), 1);
    mesh_sim_free(net);
}

TEST(a_good_bye_and_a_loss_follow_sent_messages_and_are_reported_once)
{
    begin(false);
    assert_ok(send(0, 1, 1));
    assert_ok(mesh_sim_leave(net, 0, &e));
    assert_ok(mesh_sim_kill(net, 2, &e));
    assert_ok(mesh_sim_kill(net, 2, &e));
    deliver_all();
    assert_int_equal(receive(1), 1);
    assert_int_equal(receive(1), -MESH_LEFT);
    assert_int_equal(receive(1), -MESH_LOST);
    assert_int_equal(receive(1), MESH_NOTHING);
    assert_ok(send(1, 0, 9)); /* to nodes that ended: dropped */
    assert_int_equal(n_kept, 0);
    mesh_sim_free(net);
}

TEST(a_cut_between_two_nodes_loses_each_for_the_other_and_their_messages_in_flight)
{
    begin(false);
    assert_ok(send(0, 1, 1));
    assert_ok(send(0, 2, 2));
    assert_ok(mesh_sim_part(net, 0, 1, &e));
    assert_ok(mesh_sim_part(net, 1, 0, &e));
    deliver_all();
    assert_int_equal(receive(1), -MESH_LOST);
    assert_int_equal(receive(1), MESH_NOTHING);
    assert_int_equal(receive(0), -MESH_LOST);
    assert_int_equal(receive(0), MESH_NOTHING);
    assert_int_equal(receive(2), 2);
    mesh_sim_free(net);
}

TEST(a_dropped_peer_delivers_nothing_more_and_both_get_the_reason)
{
    struct mesh_event ev;

    begin(false);
    assert_ok(send(0, 1, 1));
    deliver_all();
    assert_ok(send(0, 1, 2));
    mesh_drop(mesh_sim_node(net, 1), 0, "it sent nonsense");
    deliver_all();
    assert_ok(mesh_poll(mesh_sim_node(net, 1), &ev, 0, &e));
    assert_int_equal(ev.kind, MESH_LOST);
    assert_string_equal(ev.why, "it sent nonsense");
    assert_int_equal(receive(1), MESH_NOTHING);
    assert_int_equal(receive(0), -MESH_LOST);
    assert_ok(send(0, 1, 3));
    assert_ok(send(1, 0, 3));
    assert_int_equal(n_kept, 0);
    assert_int_equal(mesh_queued(mesh_sim_node(net, 0)), 0);
    mesh_sim_free(net);
}

TEST(a_good_bye_goes_to_nodes_that_met_the_one_that_leaves_and_later_to_others_that_need_it)
{
    begin(false);
    assert_ok(send(1, 0, 1));
    deliver_all();
    assert_ok(mesh_sim_leave(net, 0, &e));
    assert_int_equal(n_kept, 1); /* to 1, which has only sent to it */
    deliver_all();
    assert_int_equal(receive(1), -MESH_LEFT);
    assert_int_equal(receive(2), MESH_NOTHING);
    assert_ok(send(2, 0, 2)); /* dropped, and answered */
    deliver_all();
    assert_int_equal(receive(2), -MESH_LEFT);
    assert_int_equal(receive(2), MESH_NOTHING);
    assert_ok(mesh_sim_leave(net, 1, &e)); /* without having met 2 */
    assert_int_equal(n_kept, 0);
    assert_int_equal(mesh_sim_tell(net, 2, &e), 1);
    assert_int_equal(mesh_sim_tell(net, 2, &e), 0);
    deliver_all();
    assert_int_equal(receive(2), -MESH_LEFT);
    assert_int_equal(mesh_sim_good_byes(net), 3);
    mesh_sim_free(net);
}

TEST(in_a_star_only_connected_nodes_notice_an_end)
{
    begin(true);
    assert_ok(mesh_sim_leave(net, 0, &e));
    assert_int_equal(n_kept, 1);
    deliver_all();
    assert_int_equal(receive(N_WORKERS), -MESH_LEFT); /* the server */
    assert_int_equal(receive(1), MESH_NOTHING);
    mesh_sim_free(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_arrive_once_in_order_and_only_after_delivery),
        cmocka_unit_test(one_buffer_is_sent_to_many_without_a_copy_and_returns_to_one_pool),
        cmocka_unit_test(sends_to_a_peer_that_reads_nothing_are_refused_until_there_is_room),
        cmocka_unit_test(a_paused_peer_queues_messages_and_others_do_not),
        cmocka_unit_test(a_good_bye_and_a_loss_follow_sent_messages_and_are_reported_once),
        cmocka_unit_test(a_cut_between_two_nodes_loses_each_for_the_other_and_their_messages_in_flight),
        cmocka_unit_test(a_dropped_peer_delivers_nothing_more_and_both_get_the_reason),
        cmocka_unit_test(
            a_good_bye_goes_to_nodes_that_met_the_one_that_leaves_and_later_to_others_that_need_it),
        cmocka_unit_test(in_a_star_only_connected_nodes_notice_an_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
