/* A node that computes does not poll its connections. If one breaks meanwhile, the node is late, but not
 * lost; if its process ends, that is noticed at once all the same. */
#include "tests/unit/unit.h"

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runner/mesh/tcp/tcp.h"
#include "shared/base/clock.h"
#include "tests/lib/mesh_nodes.h"

static const double LATE_S = 12;

static void cut(struct mesh *m)
{
    struct tcp *t = (struct tcp *)m;

    assert_int_equal(shutdown(t->peers[0].fd, SHUT_RDWR), 0);
}

/* A pair whose connections are made as in a job. */
static void open_pair(struct pair *p, struct node_monitor m[2])
{
    pair_prepare(p);
    for (int i = 0; i < 2; i++)
        node_monitor_begin(&m[i], &p->o[i]);
    pair_run(p);
}

static void close_pair(struct pair *p, struct node_monitor m[2])
{
    pair_close(p);
    for (int i = 0; i < 2; i++)
        node_monitor_end(&m[i]);
}

/* The next event within so many seconds. */
static struct mesh_event receive(struct mesh *m, double seconds)
{
    double end = clock_now() + seconds;
    struct mesh_event ev;
    struct err e = {0};

    do
        assert_ok(mesh_poll(m, &ev, end, &e));
    while (ev.kind == MESH_NOTHING && clock_now() < end);
    return ev;
}

/* Pair k: node k % 2 computes and does not poll; the other one polls and notices that the connection has
 * broken. The roles matter, as the later node of a pair connects. A message is in flight from node k / 2. */
TEST(a_node_that_computes_for_long_while_a_connection_breaks_is_not_lost)
{
    struct node_monitor m[4][2];
    struct pair p[4];
    struct mesh_event ev;
    double end;

    for (int k = 0; k < 4; k++) {
        open_pair(&p[k], m[k]);
        cut(p[k].o[!(k % 2)].mesh);
        send_bytes(p[k].o[k / 2].mesh, !(k / 2), 7, 10, 1);
    }
    for (end = clock_now() + LATE_S; clock_now() < end;)
        for (int k = 0; k < 4; k++) {
            ev = receive(p[k].o[!(k % 2)].mesh, 0.005);
            if (ev.kind != MESH_NOTHING)
                fail_msg("pair %d: event %d: %s", k, (int)ev.kind, ev.why);
        }
    for (int k = 0; k < 4; k++) {
        int receiver = !(k / 2);
        struct mesh_event received = {.kind = MESH_NOTHING};

        for (end = clock_now() + MESH_TIMEOUT_S; received.kind == MESH_NOTHING && clock_now() < end;)
            for (int i = 0; i < 2; i++) {
                ev = receive(p[k].o[i].mesh, 0.005);
                if (ev.kind == MESH_NOTHING)
                    continue;
                assert_int_equal(i, receiver);
                received = ev;
            }
        assert_int_equal(received.kind, MESH_MESSAGE);
        assert_int_equal(received.head.round, 7);
        mesh_buf_put(received.buf);
        close_pair(&p[k], m[k]);
    }
}

/* Polls for 0.2 s, or longer on a busy machine: polls are counted. */
static struct mesh_event poll_briefly(struct mesh *m)
{
    struct mesh_event ev = {.kind = MESH_NOTHING};

    for (int k = 0; k < 40 && ev.kind == MESH_NOTHING; k++)
        poll_shortly(m, &ev);
    return ev;
}

/* Both compute, and poll briefly in between, never at the same time. A handshake takes as long as it needs,
 * and does not time out between polls: a poll each for a hello, an answer, a proof and the message after it,
 * or a few more on a busy machine. */
TEST(nodes_that_poll_rarely_reconnect)
{
    struct node_monitor m[2];
    struct pair p;
    struct mesh_event ev = {.kind = MESH_NOTHING};

    open_pair(&p, m);
    cut(p.o[1].mesh);
    send_bytes(p.o[1].mesh, 0, 7, 10, 1);
    for (int k = 0; k < 12 && ev.kind == MESH_NOTHING; k++) {
        if (k > 0)
            usleep(3000000);
        ev = poll_briefly(p.o[!(k % 2)].mesh);
    }
    assert_int_equal(ev.kind, MESH_MESSAGE);
    assert_int_equal(ev.head.round, 7);
    mesh_buf_put(ev.buf);
    close_pair(&p, m);
}

/* How long the monitor still lets its node wait for the other one's answer; 0: it does not wait. */
static double monitor_waits(struct node_monitor *m)
{
    double s = 0;

    pthread_mutex_lock(&m->state.lock);
    if (m->state.peers[0] && m->state.peers[0]->dial)
        s = m->state.peers[0]->dial->link.deadline - clock_now();
    pthread_mutex_unlock(&m->state.lock);
    return s;
}

/* Each end of a broken connection waits for the other's process, which computes: so long that few connections
 * wait in its queue, and longer than 5 s, the time of a program that has never answered as that node. */
TEST(a_monitor_lets_its_node_wait_a_minute_for_one_that_has_answered_before)
{
    struct node_monitor m[2];
    struct pair p;

    for (int polling = 0; polling < 2; polling++) {
        double end = clock_now() + MESH_TIMEOUT_S, waits = 0;

        open_pair(&p, m);
        cut(p.o[polling].mesh);
        while (waits < 30 && clock_now() < end) {
            assert_int_equal(receive(p.o[polling].mesh, 0.01).kind, MESH_NOTHING);
            waits = monitor_waits(&m[polling]);
        }
        assert_true(waits > 30);
        close_pair(&p, m);
    }
}

/* A machine that drops packets does not answer a SYN either, and the kernel retransmits it after a second
 * at the earliest. Simulated here by filling node 0's backlog of connections. */
TEST(a_machine_that_returns_is_reached_at_once)
{
    struct node_monitor m[2];
    struct mesh_event ev;
    struct pair p;
    struct pollfd listener;
    int fds[2];
    double watched = 0;

    open_pair(&p, m);
    listener = (struct pollfd){.fd = p.o[0].cfg.address.listen_fd, .events = POLLIN};
    assert_int_equal(listen(listener.fd, 0), 0);
    fds[0] = connect_to(p.port);
    cut(p.o[1].mesh);
    assert_int_equal(receive(p.o[1].mesh, 2.3).kind, MESH_NOTHING);
    fds[1] = accept(listener.fd, NULL, NULL);
    assert_int_equal(poll(&listener, 1, 0), 0);
    while (poll(&listener, 1, 0) == 0 && watched < 0.6) {
        watched += poll_shortly(p.o[1].mesh, &ev);
        assert_int_equal(ev.kind, MESH_NOTHING);
    }
    assert_true(watched < 0.6);
    for (int i = 0; i < 2; i++)
        close(fds[i]);
    close_pair(&p, m);
}

/* `killed` is a separate process, which opens, and then computes until it is killed. `has_two_addresses`: its
 * name has another address, too, where nothing listens. */
static void kill_computing_node(int killed, bool has_two_addresses)
{
    struct two_addresses two;
    struct node_monitor m;
    struct pair p;
    struct opening *survivor = &p.o[!killed];
    struct mesh_event ev;
    int opened[2];
    char byte = 1;
    pid_t child;

    pair_prepare(&p);
    if (has_two_addresses)
        opening_name(survivor, &two, "127.0.0.2");
    else
        node_monitor_begin(&m, survivor);
    assert_int_equal(pipe(opened), 0);
    child = fork();
    if (child == 0) {
        close(survivor->cfg.address.listen_fd);
        opening_run_one(&p.o[killed]);
        while (write(opened[1], &byte, 1) > 0)
            pause();
    }
    close(p.o[killed].cfg.address.listen_fd);
    opening_run_one(survivor);
    assert_non_null(survivor->mesh);
    assert_int_equal(read(opened[0], &byte, 1), 1);
    cut(survivor->mesh);
    assert_int_equal(receive(survivor->mesh, 2).kind, MESH_NOTHING);
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_true(watched_until_event(survivor->mesh, &ev) < 1);
    assert_int_equal(ev.kind, MESH_LOST);
    assert_string_equal(ev.why, "the connection ended: the process has ended");
    mesh_close(survivor->mesh, clock_now());
    if (!has_two_addresses)
        node_monitor_end(&m);
    close(opened[0]);
    close(opened[1]);
}

TEST(a_node_that_dies_computing_while_disconnected_is_lost_within_a_second)
{
    kill_computing_node(0, false);
    kill_computing_node(1, false);
}

/* Node 0 only probes, as node 1 has connected to it: so a refusal at one address does not mean that node
 * 1 has ended. */
TEST(a_node_is_not_lost_because_another_address_of_its_name_refuses_connections)
{
    kill_computing_node(1, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_node_that_computes_for_long_while_a_connection_breaks_is_not_lost),
        cmocka_unit_test(nodes_that_poll_rarely_reconnect),
        cmocka_unit_test(a_monitor_lets_its_node_wait_a_minute_for_one_that_has_answered_before),
        cmocka_unit_test(a_machine_that_returns_is_reached_at_once),
        cmocka_unit_test(a_node_that_dies_computing_while_disconnected_is_lost_within_a_second),
        cmocka_unit_test(a_node_is_not_lost_because_another_address_of_its_name_refuses_connections),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
