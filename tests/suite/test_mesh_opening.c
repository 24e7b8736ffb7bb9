/* Nodes linked by mesh_tcp authenticate each other, and admit no other process. */
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "shared/base/clock.h"
#include "shared/base/flag.h"
#include "tests/lib/mesh_nodes.h"
#include "tests/lib/stderr_catch.h"

TEST(unauthenticated_connections_do_not_keep_nodes_from_linking)
{
    struct opening o[MESH_NODES];
    int fds[80];

    opening_prepare(o, MESH_TIMEOUT_S, MESH_TLS_AUTO);
    for (int i = 0; i < 80; i++) {
        fds[i] = connect_to(o[1].peers[0].port); /* node 0's */
        assert_true(write(fds[i], "GET / HTTP/1.1\r\n", i % 3 ? 16 : 1) > 0);
    }
    opening_run(o);
    for (int i = 0; i < MESH_NODES; i++) {
        assert_int_equal(o[i].e.code, 0);
        mesh_close(o[i].mesh, clock_now() + 0.02);
    }
    for (int i = 0; i < 80; i++)
        close(fds[i]);
}

static void try_another_key(enum mesh_tls tls)
{
    struct opening o[MESH_NODES];

    opening_prepare(o, MESH_TIMEOUT_S, tls);
    o[1].peers[0].key[5] ^= 1; /* the key of its pair with node 0 */
    opening_run_until(o, 1);
    for (int i = 0; i < 2; i++)
        assert_null(o[i].mesh);
    if (o[2].mesh) /* its keys are right */
        mesh_close(o[2].mesh, clock_now() + 0.02);
    assert_int_equal(o[1].e.code, ERR_AUTH);
}

TEST(a_wrong_key_is_refused)
{
    try_another_key(MESH_TLS_OFF);
    try_another_key(MESH_TLS_ON);
}

/* Node -2 claims to be node `as`, with every key that it was given. */
static void impersonate(struct opening *o, int as, int towards)
{
    opening_keep(o, towards);
    o->cfg.spec.node = as;
}

static void try_to_impersonate(enum mesh_tls tls)
{
    struct opening o[MESH_NODES];

    /* At the address where node 1 expects node 0. */
    opening_prepare(o, MESH_TIMEOUT_S, tls);
    opening_keep(&o[1], 0);
    impersonate(&o[2], 0, 1);
    o[1].peers[0].port = o[0].peers[1].port; /* the server's */
    opening_run_until(o, 1);
    assert_null(o[1].mesh);
    assert_int_equal(o[1].e.code, ERR_AUTH);
    assert_null(o[2].mesh);
    /* Connecting to node 0 as node 1. */
    opening_prepare(o, MESH_TIMEOUT_S, tls);
    opening_keep(&o[0], 1);
    impersonate(&o[2], 1, 0);
    close(o[1].cfg.address.listen_fd);
    o[1].cfg.address.listen_fd = -1;
    o[1].cfg.spec.deadline = 0;
    opening_run_until(o, 2);
    assert_null(o[0].mesh);
    assert_null(o[2].mesh);
    assert_int_equal(o[2].e.code, ERR_AUTH);
}

TEST(a_node_cannot_impersonate_another_one)
{
    try_to_impersonate(MESH_TLS_OFF);
    try_to_impersonate(MESH_TLS_ON);
}

/* A man in the middle of one connection, which forwards all bytes and records those of the connector. */
struct tap {
    int listen_fd, to_port;
    uint8_t sent[4096];
    size_t n_sent;
};

static void *tap_run(void *arg)
{
    struct tap *t = arg;
    struct pollfd from[2] = {{.fd = t->listen_fd, .events = POLLIN}};
    uint8_t bytes[4096];

    assert_int_equal(poll(from, 1, 1000 * MESH_TIMEOUT_S), 1);
    from[0].fd = accept(t->listen_fd, NULL, NULL);
    from[1] = (struct pollfd){.fd = connect_to(t->to_port), .events = POLLIN};
    for (bool open = true; open && poll(from, 2, 1000 * MESH_TIMEOUT_S) > 0;)
        for (int i = 0; i < 2 && open; i++) {
            ssize_t n = from[i].revents ? read(from[i].fd, bytes, sizeof bytes) : -1;

            open = !from[i].revents || n > 0;
            if (n > 0)
                assert_int_equal(write(from[!i].fd, bytes, (size_t)n), n);
            if (n > 0 && i == 0 && t->n_sent + (size_t)n <= sizeof t->sent) {
                memcpy(t->sent + t->n_sent, bytes, (size_t)n);
                t->n_sent += (size_t)n;
            }
        }
    close(from[0].fd);
    close(from[1].fd);
    close(t->listen_fd);
    return NULL;
}

static void play_again(enum mesh_tls tls)
{
    struct opening o[MESH_NODES];
    struct tap tap = {0};
    pthread_t tapper, opener;
    uint8_t bytes[4096];
    int tap_port, fd;

    opening_prepare(o, MESH_TIMEOUT_S, tls);
    for (int i = 0; i < 2; i++)
        opening_keep(&o[i], !i);
    tap.listen_fd = listen_anywhere(&tap_port);
    tap.to_port = o[1].peers[0].port;
    o[1].peers[0].port = tap_port;
    o[2].cfg.address.n_peers = 0;
    pthread_create(&tapper, NULL, tap_run, &tap);
    opening_run(o);
    for (int i = MESH_NODES - 1; i >= 0; i--) {
        assert_non_null(o[i].mesh);
        mesh_close(o[i].mesh, clock_now() + 0.1);
    }
    pthread_join(tapper, NULL);
    assert_true(tap.n_sent > 2 * FRAME_BYTES);

    /* Node 0 again, in the same attempt: a replay of the bytes of node 1 does not open a link. */
    opening_prepare(o, 1, tls);
    opening_keep(&o[0], 1);
    for (int i = 1; i < MESH_NODES; i++)
        close(o[i].cfg.address.listen_fd);
    pthread_create(&opener, NULL, opening_run_one, &o[0]);
    fd = connect_to(o[1].peers[0].port);
    assert_int_equal(write(fd, tap.sent, tap.n_sent), tap.n_sent);
    while (read(fd, bytes, sizeof bytes) > 0)
        continue;
    pthread_join(opener, NULL);
    assert_null(o[0].mesh);
    assert_int_equal(o[0].e.code, ERR_TIMEOUT);
    close(fd);
}

TEST(a_replayed_handshake_is_refused)
{
    play_again(MESH_TLS_OFF);
    play_again(MESH_TLS_ON);
}

TEST(ends_that_disagree_on_tls_both_report_it)
{
    for (int with = 0; with < 2; with++) {
        struct opening o[MESH_NODES];
        struct stderr_catch log;

        opening_prepare(o, MESH_TIMEOUT_S, MESH_TLS_OFF);
        for (int i = 0; i < 2; i++)
            opening_keep(&o[i], !i);
        o[2].cfg.address.n_peers = 0;
        o[with].cfg.address.tls = MESH_TLS_ON;
        stderr_catch_begin(&log);
        opening_run_until(o, 1);
        stderr_catch_end(&log);
        for (int i = 0; i < 2; i++)
            assert_null(o[i].mesh);
        mesh_close(o[2].mesh, 0);
        /* The connecting end fails with it, the accepting end logs it. */
        assert_int_equal(o[1].e.code, ERR_AUTH);
        assert_non_null(strstr(o[1].e.text, with == 0
                                                ? "--data-tls: node 0 connects with TLS, this node without"
                                                : "--data-tls: node 0 connects without TLS, this node with"));
        assert_non_null(strstr(log.text, with == 0
                                             ? "--data-tls: node 1 connects without TLS, this node with"
                                             : "--data-tls: node 1 connects with TLS, this node without"));
    }
}

static void try_another_attempt(enum mesh_tls tls)
{
    struct opening o[MESH_NODES];

    opening_prepare(o, 1, tls);
    o[1].cfg.address.attempt = 2;
    opening_run(o);
    for (int i = 0; i < MESH_NODES; i++)
        assert_null(o[i].mesh);
}

TEST(another_attempt_is_refused)
{
    try_another_attempt(MESH_TLS_OFF);
    try_another_attempt(MESH_TLS_ON);
}

TEST(an_unreachable_node_is_named)
{
    struct opening o[MESH_NODES];

    opening_prepare(o, 5, MESH_TLS_AUTO);
    close(o[0].cfg.address.listen_fd);
    o[0].cfg.address.listen_fd = -1;
    opening_run_one(&o[2]); /* the server connects to both workers */
    assert_null(o[2].mesh);
    assert_true(strstr(o[2].e.text, "node 0 at 127.0.0.1:") != NULL);
    close(o[1].cfg.address.listen_fd);
}

/* Between two nodes: makes each one's hello look like that of another version. */
struct version_changer {
    int listen_fd, to_port;
    int n_answered;
};

static void *relay_with_another_version(void *arg)
{
    struct version_changer *b = arg;

    for (int k = 0; k < 2; k++) { /* the first connection may count as damaged in transit */
        int fds[2] = {accept(b->listen_fd, NULL, NULL), connect_to(b->to_port)};
        uint8_t bytes[FRAME_BYTES + 16];

        for (int i = 0; i < 2 && recv(fds[i], bytes, sizeof bytes, MSG_WAITALL) == sizeof bytes; i++) {
            bytes[4] = FRAME_VERSION + 1;
            assert_int_equal(write(fds[!i], bytes, sizeof bytes), sizeof bytes);
            b->n_answered += i;
        }
        close(fds[0]);
        close(fds[1]);
    }
    return NULL;
}

TEST(a_peer_of_another_version_is_refused_and_both_ends_name_both)
{
    static atomic_bool is_over;
    struct version_changer b = {0};
    struct stderr_catch log;
    struct pair p;
    pthread_t relay, opener;
    int port;

    b.listen_fd = listen_anywhere(&port);
    assert_int_equal(fcntl(b.listen_fd, F_SETFL, 0), 0);
    pair_prepare(&p);
    p.o[0].cfg.spec.interrupted = &is_over;
    b.to_port = p.port;
    p.o[1].peers[0].port = port;
    stderr_catch_begin(&log);
    pthread_create(&relay, NULL, relay_with_another_version, &b);
    pthread_create(&opener, NULL, opening_run_one, &p.o[0]);
    opening_run_one(&p.o[1]);
    pthread_join(relay, NULL);
    flag_raise(&is_over);
    pthread_join(opener, NULL);
    stderr_catch_end(&log);
    for (int i = 0; i < 2; i++)
        assert_null(p.o[i].mesh);
    assert_int_equal(b.n_answered, 2);
    assert_int_equal(p.o[1].e.code, ERR_PROTOCOL);
    assert_non_null(strstr(p.o[1].e.text, "node 0 at 127.0.0.1:"));
    assert_non_null(strstr(p.o[1].e.text, "the peer uses version 10 of the data plane, this node version 9"));
    assert_non_null(
        strstr(log.text, "a connection from 127.0.0.1: the peer uses version 10 of the data plane"));
    close(b.listen_fd);
}

/* Node 1's hello to node 0, with 16 bytes of payload. */
static struct frame hello_frame(void)
{
    return (struct frame){
        .kind = FRAME_HELLO, .job = frame_job("j-test01"), .attempt = 1, .from = 1, .to = 0, .len = 16};
}

/* Polls until the socket is readable; no event may occur at the node. */
static void poll_until_readable(struct mesh *m, int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    double end = clock_now() + MESH_TIMEOUT_S;
    struct mesh_event ev;

    while (poll(&p, 1, 0) == 0 && clock_now() < end) {
        poll_shortly(m, &ev);
        assert_int_equal(ev.kind, MESH_NOTHING);
    }
}

TEST(a_duplicate_hello_closes_its_connection_and_the_peer_can_still_link)
{
    struct frame hello = hello_frame();
    uint8_t bytes[2 * FRAME_BYTES + 48] = {0}; /* hello and challenge */
    struct pair p;
    int fd;

    pair_prepare(&p);
    fd = connect_to(p.port);
    for (int i = 0; i < 2; i++) {
        send_raw_frame(fd, &hello);
        assert_int_equal(write(fd, bytes, hello.len), hello.len);
    }
    pair_run(&p); /* may be done before node 0 has read both */
    poll_until_readable(p.o[0].mesh, fd);
    assert_int_equal(recv(fd, bytes, sizeof bytes, MSG_WAITALL), sizeof bytes);
    poll_until_readable(p.o[0].mesh, fd);
    assert_true(read(fd, bytes, sizeof bytes) <= 0);
    close(fd);
    pair_close(&p);
}

/* More than the limit of unauthenticated connections, with unauthenticated connections among them. */
TEST(seventy_peers_link_at_once)
{
    enum { PEERS = 70, UNPROVEN = 40 };
    static struct opening hub, spokes[PEERS];
    struct mesh_peer peers[PEERS];
    struct opening o[MESH_NODES];
    pthread_t t[PEERS];
    int fds[UNPROVEN];

    opening_prepare(o, MESH_TIMEOUT_S, MESH_TLS_AUTO);
    close(o[1].cfg.address.listen_fd);
    close(o[2].cfg.address.listen_fd);
    hub = o[0];
    hub.cfg.address.peers = peers;
    hub.cfg.address.n_peers = PEERS;
    for (int i = 0; i < PEERS; i++) {
        spokes[i] = o[1];
        spokes[i].cfg.spec.node = 1 + i;
        spokes[i].cfg.address.peers = spokes[i].peers;
        spokes[i].cfg.address.n_peers = 1; /* node 0 comes first */
        peers[i] = (struct mesh_peer){.node = 1 + i, .host = "127.0.0.1"};
        memcpy(peers[i].key, spokes[i].peers[0].key, sizeof peers[i].key);
        spokes[i].cfg.address.listen_fd = listen_anywhere(&peers[i].port);
    }
    for (int i = 0; i < UNPROVEN; i++)
        fds[i] = connect_to(o[1].peers[0].port);
    for (int i = 0; i < PEERS; i++)
        pthread_create(&t[i], NULL, opening_run_one, &spokes[i]);
    opening_run_one(&hub);
    assert_int_equal(hub.e.code, 0);
    for (int i = 0; i < PEERS; i++) {
        pthread_join(t[i], NULL);
        assert_non_null(spokes[i].mesh);
        send_bytes(spokes[i].mesh, 0, (uint64_t)i, 10, 1);
    }
    for (int i = 0; i < PEERS; i++) {
        struct mesh_event ev;

        seconds_until_event(hub.mesh, &ev);
        assert_int_equal(ev.kind, MESH_MESSAGE);
        assert_int_equal(ev.head.round + 1, ev.head.peer);
        mesh_buf_put(ev.buf);
    }
    mesh_close(hub.mesh, clock_now());
    for (int i = 0; i < PEERS; i++)
        mesh_close(spokes[i].mesh, clock_now());
    for (int i = 0; i < UNPROVEN; i++)
        close(fds[i]);
}

TEST(an_unauthenticated_connection_does_not_take_the_place_of_a_peer)
{
    struct pair p;
    struct mesh_event ev;
    struct frame hello = hello_frame();
    uint8_t answer[2 * FRAME_BYTES + 48] = {0}; /* hello and challenge */
    int fd;

    pair_prepare(&p);
    pair_run(&p);
    fd = connect_to(p.port);
    send_raw_frame(fd, &hello);
    assert_int_equal(write(fd, answer, 16), 16);
    poll_until_readable(p.o[0].mesh, fd); /* it is challenged, but cannot prove its identity */
    hello.kind = FRAME_PROOF;
    hello.len = 32;
    send_raw_frame(fd, &hello);
    assert_int_equal(write(fd, answer, 32), 32);
    assert_int_equal(recv(fd, answer, sizeof answer, MSG_WAITALL), sizeof answer);
    poll_until_readable(p.o[0].mesh, fd);
    assert_true(read(fd, answer, sizeof answer) <= 0); /* closed */
    send_bytes(p.o[1].mesh, 0, 4, 10, 1);
    seconds_until_event(p.o[0].mesh, &ev);
    assert_int_equal(ev.kind, MESH_MESSAGE);
    assert_int_equal(ev.head.round, 4);
    mesh_buf_put(ev.buf);
    close(fd);
    pair_close(&p);
}

TEST(running_out_of_descriptors_is_reported_with_a_question_about_the_codec)
{
    struct opening o[MESH_NODES];
    struct rlimit before, none;
    struct err e;
    int rc;

    opening_prepare(o, 5, MESH_TLS_AUTO);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = before;
    none.rlim_cur = 3;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    rc = opening_open(&o[0], &e);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(rc, ERR_CODEC);
    assert_error_has("the node has no descriptor left for a connection, of the 3 that it may have");
    assert_error_has("does the codec open files and not close them?");
    for (int i = 1; i < MESH_NODES; i++)
        close(o[i].cfg.address.listen_fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unauthenticated_connections_do_not_keep_nodes_from_linking),
        cmocka_unit_test(a_wrong_key_is_refused),
        cmocka_unit_test(a_node_cannot_impersonate_another_one),
        cmocka_unit_test(a_replayed_handshake_is_refused),
        cmocka_unit_test(ends_that_disagree_on_tls_both_report_it),
        cmocka_unit_test(another_attempt_is_refused),
        cmocka_unit_test(an_unreachable_node_is_named),
        cmocka_unit_test(a_peer_of_another_version_is_refused_and_both_ends_name_both),
        cmocka_unit_test(a_duplicate_hello_closes_its_connection_and_the_peer_can_still_link),
        cmocka_unit_test(seventy_peers_link_at_once),
        cmocka_unit_test(an_unauthenticated_connection_does_not_take_the_place_of_a_peer),
        cmocka_unit_test(running_out_of_descriptors_is_reported_with_a_question_about_the_codec),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
