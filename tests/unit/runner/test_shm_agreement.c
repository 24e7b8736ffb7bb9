/* The agreement of nodes on shared memory: which nodes share it, and how its messages are handled. */
#include "runner/shm/shm_agreement.h"

#include "runner/shm/shm_group.h"
#include "shared/base/clock.h"
#include "tests/lib/mesh_nodes.h"
#include "tests/lib/sealed_memory.h"
#include "tests/lib/shm_nodes.h"
#include "tests/unit/unit.h"

enum {
    N = 1000,
    LOCAL_INVITES = 0,
    LOCAL_CAN = 1,
    LOCAL_CANNOT = 2
}; /* message indices of docs/protocol.md */

static struct err e;

/* Opens the local path of node `me` of workers 0 and 1. */
static void begin_on(struct shm_agreement *a, struct mesh *m, int me, const int *machines)
{
    const int peers[] = {!me};
    size_t bytes = shm_group_bytes(N, 2);

    assert_ok(shm_agreement_begin(a, m,
                                  &(struct shm_agreement_config){2, 0, me, peers, 1, bytes, bytes, bytes,
                                                                 MESH_TIMEOUT_S, machines, NULL},
                                  &e));
}

static void begin(struct shm_agreement *a, struct mesh *m, int me)
{
    begin_on(a, m, me, NULL);
}

/* Sends a message that a local path would not send by itself. */
static void send_local(struct mesh *m, int to, uint32_t index, const void *bytes, size_t len)
{
    struct mesh_head h = {.kind = FRAME_LOCAL, .peer = to, .index = index};
    struct mesh_buf *b = mesh_buf_take(m);

    b->len = len;
    memcpy(b->bytes, bytes, len);
    assert_ok(mesh_send(m, &h, b, &e));
    mesh_buf_put(b);
}

/* Receives the next message; returns the local path's result. */
static int receive(struct shm_agreement *a)
{
    struct mesh_event ev;

    seconds_until_event(a->mesh, &ev);
    assert_int_equal(ev.kind, MESH_MESSAGE);
    assert_int_equal(ev.head.kind, FRAME_LOCAL);
    return shm_agreement_on_message(a, &ev, &e);
}

/* Handles a message as if it had been received. */
static int receive_from(struct shm_agreement *a, int from, uint32_t index, const void *bytes, size_t len)
{
    struct mesh_event ev = {.kind = MESH_MESSAGE,
                            .head = {.kind = FRAME_LOCAL, .peer = from, .index = index},
                            .buf = mesh_buf_take(a->mesh)};

    ev.buf->len = len;
    memcpy(ev.buf->bytes, bytes, len);
    return shm_agreement_on_message(a, &ev, &e);
}

static void assert_receives(struct mesh *m, uint32_t index)
{
    struct mesh_event ev;

    seconds_until_event(m, &ev);
    assert_int_equal(ev.kind, MESH_MESSAGE);
    assert_int_equal(ev.head.index, index);
    mesh_buf_put(ev.buf);
}

static void advance(struct shm_agreement *a)
{
    struct mesh_event ev;

    assert_ok(mesh_poll(a->mesh, &ev, 0, &e));
    assert_ok(ev.kind == MESH_MESSAGE ? shm_agreement_on_message(a, &ev, &e) : shm_agreement_advance(a, &e));
}

/* Advances all nodes until they are settled, in one thread. */
static void settle(struct shm_agreement *const a[], int n)
{
    int n_settled;
    double end = clock_now() + MESH_TIMEOUT_S;

    do {
        n_settled = 0;
        for (int i = 0; i < n; i++) {
            advance(a[i]);
            n_settled += shm_agreement_is_settled(a[i]);
        }
    } while (n_settled < n && clock_now() < end);
    assert_int_equal(n_settled, n);
}

TEST(workers_on_one_machine_share_memory)
{
    int fds = count_open_fds();
    struct shm_agreement a[2];
    static float out[2][N];
    struct rendezvous *joined;
    struct shm_group *g[2];
    struct pair nodes;

    needs_sealed_memory();
    pair_prepare(&nodes);
    pair_run(&nodes);
    for (int i = 0; i < 2; i++)
        begin(&a[i], nodes.o[i].mesh, i);
    settle((struct shm_agreement *[]){&a[0], &a[1]}, 2);
    for (int i = 0; i < 2; i++) {
        joined = shm_agreement_take(&a[i]);
        assert_non_null(joined);
        assert_ok(shm_group_open(&g[i], joined, N, &e));
        shm_group_in(g[i])[N - 1] = (float)(i + 1);
        assert_ok(shm_group_start(
            g[i], &(struct shm_collective){SHM_ALL_REDUCE, shm_group_in(g[i]), out[i], N, false, 0}, &e));
    }
    for (int i = 0; i < 4; i++)
        assert_ok(shm_group_poll(g[i % 2], &e));
    for (int i = 0; i < 2; i++) {
        assert_true(out[i][N - 1] == 3);
        shm_group_close(g[i]);
    }
    pair_close(&nodes);
    assert_int_equal(count_open_fds(), fds);
}

static const int apart[] = {0, 1}; /* machines of two workers */

/* Each reports that it can, as no node has to share its memory. */
TEST(a_worker_alone_on_its_machine_needs_no_shared_memory)
{
    struct shm_agreement a[2];
    struct pair nodes;

    pair_prepare(&nodes);
    pair_run(&nodes);
    for (int i = 0; i < 2; i++)
        begin_on(&a[i], nodes.o[i].mesh, i, apart);
    settle((struct shm_agreement *[]){&a[0], &a[1]}, 2);
    for (int i = 0; i < 2; i++) {
        assert_true(a[i].all_can);
        assert_int_equal(a[i].n_places, 1);
        assert_null(shm_agreement_take(&a[i]));
    }
    pair_close(&nodes);
}

TEST(a_worker_of_another_machine_may_not_invite)
{
    uint8_t invitation[SHM_AGREEMENT_BYTES] = {0};
    struct shm_agreement a;
    struct pair nodes;

    pair_prepare(&nodes);
    pair_run(&nodes);
    begin_on(&a, nodes.o[1].mesh, 1, apart);
    assert_int_equal(receive_from(&a, 0, LOCAL_INVITES, invitation, sizeof invitation), ERR_PROTOCOL);
    pair_close(&nodes);
}

/* Workers 0 and 1, and a server with slightly less memory. */
static void begin_star(struct shm_agreement a[MESH_NODES], struct opening o[MESH_NODES])
{
    static const struct {
        int peers[2];
        size_t n_peers;
    } links[MESH_NODES] = {{{-2}, 1}, {{-2}, 1}, {{0, 1}, 2}};

    opening_prepare(o, MESH_TIMEOUT_S, MESH_TLS_AUTO);
    opening_run(o);
    for (int i = 0; i < MESH_NODES; i++)
        assert_ok(shm_agreement_begin(&a[i], o[i].mesh,
                                      &(struct shm_agreement_config){2, 1, mesh_ids[i], links[i].peers,
                                                                     links[i].n_peers, i < 2 ? 9000 : 8000,
                                                                     4000, 10000, MESH_TIMEOUT_S, NULL, NULL},
                                      &e));
}

TEST(in_a_star_each_worker_shares_memory_with_the_server_only)
{
    int fds = count_open_fds(), mappings = count_shared_mappings();
    struct opening o[MESH_NODES];
    struct shm_agreement a[MESH_NODES];
    struct rendezvous *joined[MESH_NODES];

    needs_sealed_memory();
    begin_star(a, o);
    settle((struct shm_agreement *[]){&a[0], &a[1], &a[2]}, MESH_NODES);
    for (int i = 0; i < MESH_NODES; i++) {
        assert_true(shm_agreement_has_joined(&a[i]));
        joined[i] = shm_agreement_take(&a[i]);
        for (int k = 0; k < MESH_NODES; k++) {
            bool is_seen = i == k || (i < 2) != (k < 2);

            assert_true((rendezvous_memory(joined[i], k).start != NULL) == is_seen);
            assert_true(a[i].can[k] == (is_seen && i != k));
        }
    }
    assert_int_equal(rendezvous_memory(joined[0], 2).size, 8192);
    assert_int_equal(rendezvous_memory(joined[2], 0).size, 12288);
    for (int i = 0; i < MESH_NODES; i++) {
        assert_ok(mesh_watch(o[i].mesh, -1, &e));
        rendezvous_close(joined[i]);
        mesh_close(o[i].mesh, clock_now() + 0.02);
    }
    assert_int_equal(count_open_fds(), fds);
    assert_int_equal(count_shared_mappings(), mappings);
}

TEST(a_joined_node_refuses_further_invitations)
{
    static const uint8_t bytes[SHM_AGREEMENT_BYTES] = {0};
    int fds = count_open_fds(), mappings = count_shared_mappings();
    struct shm_agreement a[2];
    struct pair nodes;

    needs_sealed_memory();
    pair_prepare(&nodes);
    pair_run(&nodes);
    for (int i = 0; i < 2; i++)
        begin(&a[i], nodes.o[i].mesh, i);
    for (double end = clock_now() + MESH_TIMEOUT_S; clock_now() < end && !a[1].has_answered;) {
        assert_ok(rendezvous_advance(a[0].rendezvous, &e)); /* node 0 joins, and does not report it */
        advance(&a[1]);
    }
    assert_true(shm_agreement_has_joined(&a[1]));
    send_local(nodes.o[0].mesh, 1, LOCAL_INVITES, bytes, sizeof bytes);
    assert_int_equal(receive(&a[1]), ERR_PROTOCOL);
    assert_non_null(a[1].rendezvous);
    for (int i = 0; i < 2; i++)
        shm_agreement_clear(&a[i]);
    pair_close(&nodes);
    assert_int_equal(count_open_fds(), fds);
    assert_int_equal(count_shared_mappings(), mappings);
}

TEST(a_worker_that_invites_twice_prevents_sharing_with_a_stated_reason)
{
    static const int both[] = {0, 1};
    static const uint8_t secret[RENDEZVOUS_SECRET_BYTES] = {5};
    size_t bytes = shm_group_bytes(N, 2);
    uint8_t invitation[SHM_AGREEMENT_BYTES];
    int fds = count_open_fds(), mappings = count_shared_mappings();
    struct rendezvous *m; /* node 0's */
    struct shm_agreement a;
    struct pair nodes;

    needs_sealed_memory();
    pair_prepare(&nodes);
    pair_run(&nodes);
    assert_ok(
        rendezvous_open(&m, &(struct rendezvous_config){2, both, 0, bytes, bytes, bytes, NULL, NULL}, &e));
    rendezvous_expect(m, 1, secret);
    memcpy(invitation, rendezvous_name(m), RENDEZVOUS_NAME_BYTES);
    memcpy(invitation + RENDEZVOUS_NAME_BYTES, secret, sizeof secret);
    begin(&a, nodes.o[1].mesh, 1);
    for (int i = 0; i < 2; i++) {
        assert_non_null(a.rendezvous);
        send_local(nodes.o[0].mesh, 1, LOCAL_INVITES, invitation, sizeof invitation);
        assert_ok(receive(&a));
    }
    assert_receives(nodes.o[0].mesh, LOCAL_CANNOT);
    send_local(nodes.o[0].mesh, 1, LOCAL_CAN, "", 0);
    assert_ok(receive(&a));
    assert_true(shm_agreement_is_settled(&a));
    assert_null(shm_agreement_take(&a));
    assert_string_equal(a.why.text, "node 0 sent a second invitation to its memory");
    rendezvous_close(m);
    pair_close(&nodes);
    assert_int_equal(count_open_fds(), fds);
    assert_int_equal(count_shared_mappings(), mappings);
}

TEST(no_node_shares_memory_if_one_cannot)
{
    struct shm_agreement a;
    struct pair nodes;

    needs_sealed_memory();
    pair_prepare(&nodes);
    pair_run(&nodes);
    begin(&a, nodes.o[0].mesh, 0);
    assert_receives(nodes.o[1].mesh, LOCAL_INVITES);
    send_local(nodes.o[1].mesh, 0, LOCAL_CANNOT, "", 0);
    assert_ok(receive(&a));
    assert_receives(nodes.o[1].mesh, LOCAL_CANNOT);
    assert_true(shm_agreement_is_settled(&a));
    assert_null(shm_agreement_take(&a));
    assert_string_equal(a.why.text, "another node cannot share memory");
    pair_close(&nodes);
}

TEST(messages_after_a_memory_offer_are_delivered_once_all_offers_arrived)
{
    static const int workers[] = {0, 1};
    struct opening o[MESH_NODES];
    struct shm_agreement a; /* the server's */
    struct mesh_event ev;

    opening_prepare(o, MESH_TIMEOUT_S, MESH_TLS_AUTO);
    opening_run(o);
    assert_ok(shm_agreement_begin(
        &a, o[2].mesh,
        &(struct shm_agreement_config){2, 1, -2, workers, 2, 8000, 8000, 8000, MESH_TIMEOUT_S, NULL, NULL},
        &e));
    send_local(o[0].mesh, -2, LOCAL_CANNOT, "", 0);
    send_bytes(o[0].mesh, -2, 7, 10, 1);
    assert_ok(receive(&a));
    assert_false(shm_agreement_is_settled(&a));
    assert_ok(mesh_poll(a.mesh, &ev, clock_now() + 0.1, &e));
    assert_int_equal(ev.kind, MESH_NOTHING);
    send_local(o[1].mesh, -2, LOCAL_CANNOT, "", 0);
    assert_ok(receive(&a));
    assert_true(shm_agreement_is_settled(&a));
    seconds_until_event(a.mesh, &ev);
    assert_int_equal(ev.kind, MESH_MESSAGE);
    assert_int_equal(ev.head.round, 7);
    mesh_buf_put(ev.buf);
    for (int i = 0; i < MESH_NODES; i++)
        mesh_close(o[i].mesh, clock_now() + 0.02);
}

TEST(without_the_offer_of_one_node_memory_is_not_shared_and_the_job_continues)
{
    struct opening o[MESH_NODES];
    struct shm_agreement a[MESH_NODES];
    struct shm_agreement *server = &a[2];
    struct mesh_event ev;
    double end = clock_now() + MESH_TIMEOUT_S;

    needs_sealed_memory();
    begin_star(a, o);
    assert_ok(receive(server));
    assert_ok(receive(server));
    mesh_pause(server->mesh, 1, true); /* after its invitation: its offer does not arrive */
    while (!(shm_agreement_has_joined(server) && server->answered[0]) && clock_now() < end)
        for (int i = 0; i < MESH_NODES; i++)
            advance(&a[i]);
    assert_true(shm_agreement_has_joined(server) && !shm_agreement_is_settled(server));
    assert_ok(shm_agreement_stop_waiting(server, &e));
    assert_true(shm_agreement_is_settled(server) && shm_agreement_has_joined(server));
    assert_true(server->can[0]);
    assert_false(server->can[1] || server->all_can);
    assert_string_equal(server->why.text, "node 1 did not report in time whether it can share memory");
    mesh_pause(server->mesh, 1, false);
    seconds_until_event(server->mesh, &ev);
    assert_int_equal(ev.head.kind, FRAME_LOCAL); /* which the exchange ignores */
    mesh_buf_put(ev.buf);
    for (int i = 0; i < MESH_NODES; i++) {
        assert_ok(mesh_watch(o[i].mesh, -1, &e));
        rendezvous_close(shm_agreement_take(&a[i]));
        mesh_close(o[i].mesh, clock_now() + 0.02);
    }
}

TEST(time_a_node_was_suspended_does_not_count_as_waiting)
{
    struct shm_agreement a = {.polled_at = 100, .deadline = 105};
    double now = 100;

    for (; now < 106; now += 0.5)
        assert_false(shm_agreement_is_late(&a, 5, now));
    for (now += 20; now < 130; now += 0.5) /* its last turn was at 105.5 */
        assert_false(shm_agreement_is_late(&a, 5, now));
    assert_false(shm_agreement_is_late(&a, 5, 130.5));
    assert_true(shm_agreement_is_late(&a, 5, 131));
}

TEST(a_peer_that_leaves_before_its_offer_is_not_awaited)
{
    struct shm_agreement a;
    struct mesh_event ev;
    struct pair nodes;

    pair_prepare(&nodes);
    pair_run(&nodes);
    begin(&a, nodes.o[0].mesh, 0);
    mesh_close(nodes.o[1].mesh, clock_now() + 0.02);
    seconds_until_event(a.mesh, &ev);
    assert_int_equal(ev.kind, MESH_LEFT);
    assert_ok(shm_agreement_on_end(&a, ev.head.peer, &e));
    assert_true(shm_agreement_is_settled(&a));
    assert_null(shm_agreement_take(&a));
    mesh_close(a.mesh, clock_now());
}

TEST(messages_that_a_worker_may_not_send_are_refused)
{
    static const struct {
        int from;
        struct {
            uint32_t index;
            size_t len;
        } messages[2];
        int n_messages; /* the last of which is refused */
    } cases[] = {
        {0, {{3, 0}}, 1},
        {0, {{UINT32_MAX, 0}}, 1},
        {0, {{LOCAL_INVITES, SHM_AGREEMENT_BYTES - 1}}, 1},
        {0, {{LOCAL_INVITES, 0}}, 1},
        {0, {{LOCAL_CAN, 1}}, 1},
        {0, {{LOCAL_CAN, 0}, {LOCAL_CAN, 0}}, 2},
        {0, {{LOCAL_CAN, 0}, {LOCAL_CANNOT, 0}}, 2},
        {0, {{LOCAL_CAN, 0}, {LOCAL_INVITES, SHM_AGREEMENT_BYTES}}, 2},
        {1, {{LOCAL_INVITES, SHM_AGREEMENT_BYTES}}, 1}, /* invitations come from the earlier of the two */
    };
    static const uint8_t bytes[SHM_AGREEMENT_BYTES] = {0};

    for (size_t k = 0; k < N_OF(cases); k++) {
        int from = cases[k].from;
        struct shm_agreement a;
        struct pair nodes;

        pair_prepare(&nodes);
        pair_run(&nodes);
        begin(&a, nodes.o[!from].mesh, !from);
        for (int i = 0; i < cases[k].n_messages; i++)
            assert_int_equal(
                receive_from(&a, from, cases[k].messages[i].index, bytes, cases[k].messages[i].len),
                i + 1 < cases[k].n_messages ? 0 : ERR_PROTOCOL);
        assert_error_has("sent an unexpected message about shared memory");
        rendezvous_close(a.rendezvous);
        pair_close(&nodes);
    }
}

TEST(more_nodes_than_can_share_memory_send_no_offers_and_share_none)
{
    static const int peers[RENDEZVOUS_MAX];
    struct shm_agreement a;

    assert_ok(shm_agreement_begin(
        &a, NULL,
        &(struct shm_agreement_config){RENDEZVOUS_MAX, 1, 3, peers, RENDEZVOUS_MAX, N, N, N, 5, NULL, NULL},
        &e));
    assert_true(shm_agreement_is_settled(&a));
    assert_null(shm_agreement_take(&a));
    assert_string_equal(a.why.text, "65 nodes are more than the 64 that can share memory");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(workers_on_one_machine_share_memory),
        cmocka_unit_test(a_worker_alone_on_its_machine_needs_no_shared_memory),
        cmocka_unit_test(a_worker_of_another_machine_may_not_invite),
        cmocka_unit_test(in_a_star_each_worker_shares_memory_with_the_server_only),
        cmocka_unit_test(a_joined_node_refuses_further_invitations),
        cmocka_unit_test(a_worker_that_invites_twice_prevents_sharing_with_a_stated_reason),
        cmocka_unit_test(no_node_shares_memory_if_one_cannot),
        cmocka_unit_test(messages_after_a_memory_offer_are_delivered_once_all_offers_arrived),
        cmocka_unit_test(without_the_offer_of_one_node_memory_is_not_shared_and_the_job_continues),
        cmocka_unit_test(time_a_node_was_suspended_does_not_count_as_waiting),
        cmocka_unit_test(a_peer_that_leaves_before_its_offer_is_not_awaited),
        cmocka_unit_test(messages_that_a_worker_may_not_send_are_refused),
        cmocka_unit_test(more_nodes_than_can_share_memory_send_no_offers_and_share_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
