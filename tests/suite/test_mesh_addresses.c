/* A peer's name can have several addresses, of which one is the peer's: /etc/hosts of Debian and Ubuntu has
 * 127.0.0.1 and ::1 for localhost. Each is tried, and a failure names each. */
#include "tests/unit/unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runner/mesh/tcp/tcp.h"
#include "shared/base/clock.h"
#include "tests/lib/mesh_nodes.h"
#include "tests/lib/stderr_catch.h"

static int listen_at(const char *host, int port, int backlog)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_int_equal(inet_pton(AF_INET, host, &a.sin_addr), 1);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on), 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(fd, backlog), 0);
    return fd;
}

/* Opens both nodes, where node 1 finds node 0 at 127.0.0.2 and 127.0.0.1. Returns the seconds it took. */
static double open_by_name(struct pair *p)
{
    struct two_addresses two;
    double began = clock_now();

    opening_name(&p->o[1], &two, "127.0.0.2");
    pair_run(p);
    return clock_now() - began;
}

TEST(an_address_that_refuses_is_followed_by_the_next)
{
    struct stderr_catch caught;
    struct pair p;
    char expected[128];

    pair_prepare(&p);
    snprintf(expected, sizeof expected,
             "node 0 at two.example:%d: 127.0.0.2: Connection refused; 127.0.0.1: not tried yet; retrying",
             p.port);
    stderr_catch_begin(&caught);
    open_by_name(&p);
    stderr_catch_end(&caught);
    assert_non_null(strstr(caught.text, expected));
    assert_true(((struct tcp *)p.o[1].mesh)->peers[0].is_local);
    assert_true(((struct tcp *)p.o[0].mesh)->peers[0].is_local);
    pair_close(&p);
}

/* A machine that drops packets, simulated by a full backlog: it does not take the time of the others. */
TEST(an_address_that_does_not_answer_is_left_after_a_second)
{
    struct pair p;
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1)};
    int silent, filler = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    pair_prepare(&p);
    silent = listen_at("127.0.0.2", p.port, 0);
    a.sin_port = htons((uint16_t)p.port);
    assert_int_equal(connect(filler, (struct sockaddr *)&a, sizeof a), 0);
    assert_true(open_by_name(&p) < MESH_TIMEOUT_S / 2);
    close(filler);
    close(silent);
    pair_close(&p);
}

static void *serve_as_ssh(void *listen_fd)
{
    struct pollfd l = {.fd = *(int *)listen_fd, .events = POLLIN};
    int fd;

    assert_int_equal(poll(&l, 1, 1000 * MESH_TIMEOUT_S), 1);
    fd = accept(l.fd, NULL, NULL);
    assert_true(write(fd, "SSH-2.0-OpenSSH_9.2\r\n", 21) == 21);
    close(fd);
    return NULL;
}

TEST(an_address_where_another_program_answers_is_followed_by_the_next)
{
    struct pair p;
    pthread_t t;
    int other;

    pair_prepare(&p);
    other = listen_at("127.0.0.2", p.port, 8);
    pthread_create(&t, NULL, serve_as_ssh, &other);
    open_by_name(&p);
    pthread_join(t, NULL);
    close(other);
    pair_close(&p);
}

TEST(a_node_that_is_at_none_of_its_addresses_is_reported_at_once_with_all_of_them)
{
    struct two_addresses two;
    struct pair p;
    char expected[160];
    double began = clock_now();

    pair_prepare(&p);
    close(p.o[0].cfg.address.listen_fd);
    opening_name(&p.o[1], &two, "127.0.0.2");
    opening_run_one(&p.o[1]);
    assert_null(p.o[1].mesh);
    assert_int_equal(p.o[1].e.code, ERR_LOST);
    snprintf(expected, sizeof expected,
             "node 0 at two.example:%d: 127.0.0.2: Connection refused; 127.0.0.1: Connection refused",
             p.port);
    assert_string_equal(p.o[1].e.text, expected);
    assert_true(clock_now() - began < MESH_TIMEOUT_S / 2);
}

/* As on a machine without a network of IPv6. */
TEST(an_address_to_which_there_is_no_way_delays_neither_the_error_nor_the_connection)
{
    struct two_addresses two;
    struct pair p;
    char expected[160];
    double began = clock_now();

    pair_prepare(&p);
    opening_name(&p.o[1], &two, "127.0.0.2");
    two.first_error = ENETUNREACH;
    pair_run(&p);
    pair_close(&p);
    pair_prepare(&p);
    close(p.o[0].cfg.address.listen_fd);
    opening_name(&p.o[1], &two, "127.0.0.2");
    two.first_error = ENETUNREACH;
    opening_run_one(&p.o[1]);
    assert_null(p.o[1].mesh);
    snprintf(expected, sizeof expected,
             "node 0 at two.example:%d: 127.0.0.2: Network is unreachable; 127.0.0.1: Connection refused",
             p.port);
    assert_string_equal(p.o[1].e.text, expected);
    assert_true(clock_now() - began < MESH_TIMEOUT_S / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_address_that_refuses_is_followed_by_the_next),
        cmocka_unit_test(an_address_that_does_not_answer_is_left_after_a_second),
        cmocka_unit_test(an_address_where_another_program_answers_is_followed_by_the_next),
        cmocka_unit_test(a_node_that_is_at_none_of_its_addresses_is_reported_at_once_with_all_of_them),
        cmocka_unit_test(an_address_to_which_there_is_no_way_delays_neither_the_error_nor_the_connection),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
