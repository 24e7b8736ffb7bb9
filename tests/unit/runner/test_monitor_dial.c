/* Connections that the monitor makes for its node, and to which peers. */
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runner/mesh/tcp/tcp_link.h"
#include "tests/lib/node_run.h"
#include "tests/unit/unit.h"

/* Receives the address of node 0, a port where no program listens, and of itself, node 1. */
/* No name of a host: a part of more than 63 letters. */
#define LONG_PART "aaaaaaaaaaaaaaaa"
#define NO_HOST   LONG_PART LONG_PART LONG_PART LONG_PART

static void dial_others(struct node_process *n)
{
    const struct tcp_dialer d = monitor_dialer(&n->monitor);
    const struct tcp_aim aim = {0};
    struct tcp_places p;
    struct err e;

    node_process_read_start(n);
    if (d.find(d.owner, 0, &p, &e) < 0 || p.n != 1 || !p.at[0].is_local || p.at[0].at.ss_family != AF_INET)
        _exit(1);
    if (d.find(d.owner, 5, &p, &e) != ERR_LOST || !strstr(e.text, "not in the agent's list"))
        _exit(2);
    if (d.dial(d.owner, 0, 1, &aim) >= 0 || errno != EHOSTUNREACH)
        _exit(4); /* a place that node 0 lacks */
    if (d.dial(d.owner, 5, 0, &aim) >= 0 || d.find(d.owner, 2, &p, &e) != ERR_LOST)
        _exit(3);
}

TEST(only_nodes_in_the_agents_list_are_connected_to)
{
    struct node_run t;

    node_run_start(&t, "node.log", dial_others, (struct node_process){0});
    node_run_give(&t, NODE_RUN_JOB("1000") NODE_RUN_PEERS("0 a:1 127.0.0.1 9 " NODE_RUN_KEY ";2 a:2 " NO_HOST
                                                          " 9 " NODE_RUN_KEY));
    node_run_finish(&t, "node.log");
    assert_int_equal(WEXITSTATUS(t.status), 7);
    node_run_clear(&t);
}

/* How many descriptors of this process are connections over a network. */
static int n_connections(void)
{
    int n = 0;

    for (int fd = 0; fd < 256; fd++) {
        struct sockaddr_storage at = {0};
        socklen_t len = sizeof at;

        n += getpeername(fd, (struct sockaddr *)&at, &len) == 0 && at.ss_family == AF_INET;
    }
    return n;
}

/* Connects to node 1. Status 8: it has got the connection, 7: it has been refused, and never had it. */
static void link_to_peer(struct node_process *n)
{
    const struct tcp_dialer d = monitor_dialer(&n->monitor);
    static const atomic_bool never = false;
    const uint32_t received = 5;
    struct tcp_link l = {.fd = -1, .received = &received};
    struct tcp_config cfg = {.address = {.job = "j-1", .attempt = 1, .dialer = &d}};
    struct mesh_peer peer = {0};
    struct orders_start s;
    struct orders_job job;
    struct orders o;
    struct err e = {0};

    orders_open(&o, n->monitor.orders_fd);
    if (orders_read_job(&o, &job, &e) < 0 || orders_read_start(&o, &s, &never, &e) < 0)
        _exit(99);
    peer.node = s.peers.at[0].node;
    peer.port = s.peers.at[0].data_port;
    snprintf(peer.host, sizeof peer.host, "%s", s.peers.at[0].host);
    cfg.address.peers = &peer;
    cfg.address.n_peers = 1;
    if (tcp_link_resolve(&l, &cfg, &peer, &e) < 0 ||
        tcp_link_connect(&l, &cfg, n->limit_s > 0 ? LINK_PROBING : LINK_CONNECTING, &e) < 0)
        _exit(98);
    while (e.code == 0 && l.awaits_report) {
        struct pollfd p = {.fd = l.fd, .events = (short)tcp_link_events(&l)};

        if (n_connections() > 0)
            _exit(97);
        poll(&p, 1, -1);
        tcp_link_advance(&l, &cfg, &e);
        if (l.state == LINK_LISTENS && tcp_link_peer_silence(&l) > 60) /* it asks, and is answered */
            _exit(95);
    }
    if (n_connections() != (e.code == 0))
        _exit(96);
    fprintf(stderr, "%s", e.text);
    tcp_link_hang_up(&l);
    orders_start_clear(&s);
    orders_close(&o);
    _exit(e.code ? 7 : 8);
}

/* What is at an address in the table of nodes: it gets a hello of HELLO_BYTES, and makes of it its answer, of
 * whose length. */
struct other_end {
    size_t (*answer)(uint8_t out[HELLO_BYTES], const uint8_t hello[HELLO_BYTES]);
    const char *why; /* the node's message after the address; NULL: it connects */
};

static size_t answer_as_http(uint8_t out[HELLO_BYTES], const uint8_t hello[HELLO_BYTES])
{
    static const char text[] = "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

    (void)hello;
    memcpy(out, text, sizeof text - 1);
    return sizeof text - 1;
}

static size_t echo(uint8_t out[HELLO_BYTES], const uint8_t hello[HELLO_BYTES])
{
    memcpy(out, hello, HELLO_BYTES);
    return HELLO_BYTES;
}

static size_t say_nothing(uint8_t out[HELLO_BYTES], const uint8_t hello[HELLO_BYTES])
{
    (void)out;
    (void)hello;
    return 0;
}

static struct frame right_answer(void)
{
    return (struct frame){
        .kind = FRAME_HELLO, .job = frame_job("j-1"), .attempt = 1, .from = 1, .to = 0, .len = HELLO_NONCE};
}

static size_t answer_with(uint8_t out[HELLO_BYTES], struct frame f)
{
    frame_pack(out, &f);
    memset(out + FRAME_BYTES, 3, HELLO_NONCE);
    return HELLO_BYTES;
}

static size_t answer_rightly(uint8_t out[HELLO_BYTES], const uint8_t hello[HELLO_BYTES])
{
    (void)hello;
    return answer_with(out, right_answer());
}

static size_t answer_in_part(uint8_t out[HELLO_BYTES], const uint8_t hello[HELLO_BYTES])
{
    return answer_rightly(out, hello) - 1;
}

static size_t answer_of_another_job(uint8_t out[HELLO_BYTES], const uint8_t hello[HELLO_BYTES])
{
    struct frame f = right_answer();

    (void)hello;
    f.job = frame_job("j-2");
    return answer_with(out, f);
}

static size_t answer_as_another_node(uint8_t out[HELLO_BYTES], const uint8_t hello[HELLO_BYTES])
{
    struct frame f = right_answer();

    (void)hello;
    f.from = 2;
    return answer_with(out, f);
}

static int listen_here(int *port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_int_equal(bind(fd, (struct sockaddr *)&at, len), 0);
    assert_int_equal(listen(fd, 5), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &len), 0);
    *port = ntohs(at.sin_port);
    return fd;
}

static void give_peer(const struct node_run *t, int port)
{
    char orders[512];

    snprintf(orders, sizeof orders, NODE_RUN_JOB("1000") NODE_RUN_PEERS("1 a:1 127.0.0.1 %d " NODE_RUN_KEY),
             port);
    node_run_give(t, orders);
}

/* The hello of node 0, of which a codec chooses nothing. */
static void check_hello(const uint8_t hello[HELLO_BYTES])
{
    const struct frame mine = {
        .kind = FRAME_HELLO, .job = frame_job("j-1"), .attempt = 1, .from = 0, .to = 1, .len = HELLO_NONCE};
    uint8_t expected[FRAME_BYTES];

    frame_pack(expected, &mine);
    assert_memory_equal(hello, expected, sizeof expected);
}

TEST(a_connection_is_handed_over_only_if_the_peer_answers_as_that_node_of_this_job)
{
    static const struct other_end cases[] = {
        {answer_as_http, "it sent bytes that are not a frame of psgd: does another program use this port?"},
        {say_nothing, "ended the handshake: its key or its job differs, or it has ended"},
        {answer_in_part, "ended the handshake: its key or its job differs, or it has ended"},
        {echo, "sent a handshake that is not for attempt 1 of this node"},
        {answer_of_another_job, "sent a handshake that is not for attempt 1 of this node"},
        {answer_as_another_node, "answers as node 2"},
        {answer_rightly, NULL}};
    int port, listener = listen_here(&port);

    for (size_t i = 0; i < N_OF(cases); i++) {
        uint8_t hello[HELLO_BYTES], answer[HELLO_BYTES], more;
        struct node_run t;
        size_t len;
        int fd;

        node_run_start(&t, "node.log", link_to_peer, (struct node_process){0});
        give_peer(&t, port);
        fd = accept(listener, NULL, NULL);
        assert_int_equal(recv(fd, hello, sizeof hello, MSG_WAITALL), sizeof hello);
        check_hello(hello);
        len = cases[i].answer(answer, hello);
        assert_int_equal(send(fd, answer, len, MSG_NOSIGNAL), len);
        shutdown(fd, SHUT_WR);
        assert_true(recv(fd, &more, 1, 0) <= 0); /* that is all that the node has sent */
        close(fd);
        node_run_finish(&t, "node.log");
        assert_int_equal(WEXITSTATUS(t.status), cases[i].why ? 7 : 8);
        if (cases[i].why) {
            char address[64];

            snprintf(address, sizeof address, "node 1 at 127.0.0.1:%d", port);
            assert_non_null(strstr(t.log, cases[i].why));
            assert_memory_equal(t.log, address, strlen(address));
        }
        node_run_clear(&t);
    }
    close(listener);
}

/* The job process, as link_to_peer, does not give up the connection. */
TEST(a_connection_to_a_program_that_does_not_answer_is_closed)
{
    uint8_t hello[HELLO_BYTES], more;
    int port, fd, listener = listen_here(&port);
    struct node_run t;

    node_run_start(&t, "node.log", link_to_peer, (struct node_process){0});
    give_peer(&t, port);
    fd = accept(listener, NULL, NULL);
    assert_int_equal(recv(fd, hello, sizeof hello, MSG_WAITALL), sizeof hello);
    assert_int_equal(recv(fd, &more, 1, 0), 0);
    close(fd);
    node_run_finish(&t, "node.log");
    assert_int_equal(WEXITSTATUS(t.status), 7);
    assert_non_null(strstr(t.log, "did not finish the handshake in time"));
    close(listener);
    node_run_clear(&t);
}

static int find_one(void *owner, int node, struct tcp_places *out, struct err *why)
{
    (void)owner;
    (void)node;
    (void)why;
    *out = (struct tcp_places){.n = 1};
    return 0;
}

/* `owner`: where the dialer's end is put. */
static int dial_by_packets(void *owner, int node, uint32_t index, const struct tcp_aim *aim)
{
    int ends[2];

    (void)node;
    (void)index;
    (void)aim;
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    *(int *)owner = ends[0];
    return ends[1];
}

/* The kernel reports the reset to the node before it delivers the last report. */
TEST(the_last_report_of_a_connection_arrives_though_the_monitor_has_not_read_the_last_question)
{
    int monitor_fd;
    const struct tcp_dialer d = {find_one, dial_by_packets, true, &monitor_fd};
    const struct mesh_peer peer = {.node = 1, .host = "127.0.0.1", .port = 1};
    const struct tcp_config cfg = {.address = {.peers = &peer, .n_peers = 1, .dialer = &d}};
    struct tcp_link l = {.fd = -1};
    struct tcp_link_report report = {.state = TCP_CONNECTED};
    struct err e = {0};

    assert_ok(tcp_link_resolve(&l, &cfg, &peer, &e));
    assert_ok(tcp_link_connect(&l, &cfg, LINK_PROBING, &e));
    assert_int_equal(send(monitor_fd, &report, sizeof report, 0), sizeof report);
    assert_ok(tcp_link_advance(&l, &cfg, &e));
    assert_int_equal(l.state, LINK_LISTENS);
    tcp_link_peer_silence(&l);
    report = (struct tcp_link_report){
        .state = TCP_FAILED, .code = ERR_LOST, .why = "node 1 closed the connection"};
    assert_int_equal(send(monitor_fd, &report, sizeof report, 0), sizeof report);
    close(monitor_fd);
    assert_int_equal(tcp_link_advance(&l, &cfg, &e), ERR_LOST);
    assert_string_equal(e.text, report.why);
    tcp_link_hang_up(&l);
}

/* To a probe nothing is sent. */
TEST(a_probe_is_not_passed_to_the_node_and_reports_when_the_peer_closes_it)
{
    int port, fd, listener = listen_here(&port);
    struct node_run t;
    uint8_t any;

    node_run_start(&t, "node.log", link_to_peer, (struct node_process){.limit_s = 1});
    give_peer(&t, port);
    fd = accept(listener, NULL, NULL);
    loop_for(0.1);
    assert_int_equal(recv(fd, &any, 1, MSG_DONTWAIT), -1);
    assert_int_equal(errno, EAGAIN);
    close(fd);
    node_run_finish(&t, "node.log");
    assert_int_equal(WEXITSTATUS(t.status), 7);
    assert_string_equal(t.log, "node 1 closed the connection");
    close(listener);
    node_run_clear(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_nodes_in_the_agents_list_are_connected_to),
        cmocka_unit_test(a_connection_is_handed_over_only_if_the_peer_answers_as_that_node_of_this_job),
        cmocka_unit_test(a_connection_to_a_program_that_does_not_answer_is_closed),
        cmocka_unit_test(
            the_last_report_of_a_connection_arrives_though_the_monitor_has_not_read_the_last_question),
        cmocka_unit_test(a_probe_is_not_passed_to_the_node_and_reports_when_the_peer_closes_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
