/* How nodes of one machine connect, and which connections are refused. */
#include "runner/shm/rendezvous.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "shared/base/crypto.h"
#include "tests/lib/rendezvous_pair.h"
#include "tests/lib/shm_nodes.h"
#include "tests/unit/unit.h"

static const uint8_t another[RENDEZVOUS_SECRET_BYTES] = {1, 2, 4};

/* The second node presents this secret to the first, and fails with this message; the first one waits for
 * it. */
static void pair_fail(struct rendezvous_pair *p, const uint8_t shown[RENDEZVOUS_SECRET_BYTES], int code,
                      const char *expected)
{
    int rc[2];
    struct err e, ends[2];

    assert_ok(rendezvous_connect(p->m[1], 0, rendezvous_name(p->m[0]), shown, &e));
    rendezvous_pair_advance(p, rc, ends);
    assert_int_equal(rc[1], code);
    e = ends[1];
    assert_error_has(expected);
    assert_int_equal(rc[0], 0);
}

TEST(two_nodes_connect_and_leave_no_descriptor_or_mapping)
{
    int fds = count_open_fds(), mappings = count_shared_mappings();
    struct rendezvous_pair p;

    rendezvous_pair_open(&p, 1000, 1000);
    rendezvous_pair_join(&p);
    assert_int_equal(count_shared_mappings(), mappings + 4);
    assert_int_equal(count_open_fds(), fds + 4); /* an epoll and a connection each */
    rendezvous_pair_close(&p);
    assert_int_equal(count_open_fds(), fds);
    assert_int_equal(count_shared_mappings(), mappings);
}

TEST(a_node_with_another_secret_is_refused)
{
    struct rendezvous_pair p;
    int mappings = count_shared_mappings();
    struct err e;

    rendezvous_pair_open(&p, 1000, 1000);
    pair_fail(&p, another, ERR_LOST,
              "node 4, on this machine, ended the connection: its secret differs, or it has ended");
    assert_int_equal(rendezvous_late(p.m[0], &e), ERR_TIMEOUT);
    assert_error_has("node 7 has not joined");
    assert_int_equal(count_shared_mappings(), mappings + 2);
    rendezvous_pair_close(&p);
}

TEST(a_process_that_occupies_a_name_without_the_secret_gets_nothing)
{
    struct rendezvous_pair p, squatter;
    int rc[2], mappings;
    struct err e, ends[2];

    rendezvous_pair_open(&p, 1000, 1000);
    rendezvous_pair_open(&squatter, 1000, 1000);
    mappings = count_shared_mappings();
    rendezvous_expect(squatter.m[0], 1, another);
    assert_ok(rendezvous_connect(p.m[1], 0, rendezvous_name(squatter.m[0]), rendezvous_pair_secret, &e));
    for (int k = 0; k < 3; k++) {
        rc[0] = rendezvous_advance(squatter.m[0], &ends[0]);
        rc[1] = rendezvous_advance(p.m[1], &ends[1]);
    }
    assert_int_equal(rc[0], 0);
    assert_int_equal(rc[1], ERR_LOST);
    assert_int_equal(count_shared_mappings(), mappings);
    rendezvous_pair_close(&squatter);
    rendezvous_pair_close(&p);
}

/* Creates a listener with this name by hand. */
static int listen_as(const uint8_t name[RENDEZVOUS_NAME_BYTES])
{
    struct sockaddr_un at = {.sun_family = AF_UNIX, .sun_path = "\0psgd-"};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    hex_encode(at.sun_path + 6, name, RENDEZVOUS_NAME_BYTES);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at.sun_family + 6 + 2 * RENDEZVOUS_NAME_BYTES),
                     0);
    assert_int_equal(listen(fd, 1), 0);
    return fd;
}

/* Sends a packet with a descriptor. */
static void send_with_fd(int to, const void *bytes, size_t len, int fd)
{
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } control = {.head = {CMSG_LEN(sizeof fd), SOL_SOCKET, SCM_RIGHTS}};
    struct iovec v = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = len};
    struct msghdr h = {
        .msg_iov = &v, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = CMSG_LEN(sizeof fd)};

    memcpy(CMSG_DATA(&control.head), &fd, sizeof fd);
    assert_int_equal(sendmsg(to, &h, 0), len);
}

TEST(an_unproven_answer_is_refused_and_the_secret_is_never_sent)
{
    static const size_t lengths[] = {64, 63, 65, 1, 0}; /* lengths of the answer */
    int fds = count_open_fds();

    for (size_t i = 0; i < N_OF(lengths); i++) {
        uint8_t packet[128];
        uint32_t head[4]; /* magic, kind, from, to */
        struct rendezvous_pair p;
        struct err e;
        int fd, listener = listen_as(another);

        rendezvous_pair_open(&p, 1000, 1000);
        assert_ok(rendezvous_connect(p.m[1], 0, another, rendezvous_pair_secret, &e));
        fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        assert_int_equal(recv(fd, packet, sizeof packet, MSG_DONTWAIT), 64);
        assert_null(memmem(packet, sizeof packet, rendezvous_pair_secret, sizeof rendezvous_pair_secret));
        memcpy(head, packet, sizeof head);
        head[1] = 2;
        head[2] = 0;
        head[3] = 1;
        memcpy(packet, head, sizeof head);
        send_with_fd(fd, packet, lengths[i], listener);
        close(fd);
        close(listener);
        assert_int_equal(rendezvous_advance(p.m[1], &e), lengths[i] ? ERR_AUTH : ERR_LOST);
        if (lengths[i])
            assert_error_has(
                "the process that answers for node 4, on this machine, does not know its secret");
        rendezvous_pair_close(&p);
        assert_int_equal(count_open_fds(), fds);
    }
}

TEST(any_number_of_unauthenticated_connections_does_not_block_a_node)
{
    struct rendezvous *unproven[RENDEZVOUS_UNPROVEN_MAX + RENDEZVOUS_UNPROVEN_MAX / 2];
    struct rendezvous_pair p;
    struct err e;

    rendezvous_pair_open(&p, 1000, 1000);
    for (size_t i = 0; i < N_OF(unproven); i++) {
        assert_ok(rendezvous_open(
            &unproven[i], &(struct rendezvous_config){2, rendezvous_pair_nodes, 1, 10, 10, 10, NULL, NULL},
            &e));
        assert_ok(rendezvous_connect(unproven[i], 0, rendezvous_name(p.m[0]), another, &e));
    }
    rendezvous_pair_join(&p);
    for (size_t i = 0; i < N_OF(unproven); i++)
        rendezvous_close(unproven[i]);
    rendezvous_pair_close(&p);
}

TEST(an_unused_name_is_unreachable)
{
    struct rendezvous_pair p;
    struct err e;

    rendezvous_pair_open(&p, 1000, 1000);
    assert_int_equal(rendezvous_connect(p.m[1], 0, rendezvous_pair_secret, rendezvous_pair_secret, &e),
                     ERR_UNREACHABLE);
    assert_error_has("node 4, on this machine: ");
    rendezvous_pair_close(&p);
}

TEST(memory_of_another_size_is_refused)
{
    struct rendezvous_pair p;

    rendezvous_pair_open(&p, 28000, 820000);
    pair_fail(&p, rendezvous_pair_secret, ERR_PROTOCOL,
              "node 4: it shares 28672 bytes, expected 823296 to 823296");
    rendezvous_pair_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_nodes_connect_and_leave_no_descriptor_or_mapping),
        cmocka_unit_test(a_node_with_another_secret_is_refused),
        cmocka_unit_test(a_process_that_occupies_a_name_without_the_secret_gets_nothing),
        cmocka_unit_test(an_unproven_answer_is_refused_and_the_secret_is_never_sent),
        cmocka_unit_test(any_number_of_unauthenticated_connections_does_not_block_a_node),
        cmocka_unit_test(an_unused_name_is_unreachable),
        cmocka_unit_test(memory_of_another_size_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
