/* How nodes of one machine find each other, and who is sent away. */
#include "agent/runner/shm/rendezvous.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "shared/crypto.h"
#include "tests/lib/rendezvous_pair.h"
#include "tests/lib/shm_crew.h"
#include "tests/unit/unit.h"

static const uint8_t another[RENDEZVOUS_SECRET_BYTES] = {1, 2, 4};

/* The second node shows the first this secret, and fails with these words; the first waits for it. */
static void pair_fail(struct rendezvous_pair *p, const uint8_t shown[RENDEZVOUS_SECRET_BYTES], int code,
                      const char *words)
{
    int rc[2];
    struct err e, ends[2];

    assert_ok(rendezvous_connect(p->m[1], 0, rendezvous_name(p->m[0]), shown, &e));
    rendezvous_pair_advance(p, rc, ends);
    assert_int_equal(rc[1], code);
    e = ends[1];
    assert_says(words);
    assert_int_equal(rc[0], 0);
}

TEST(two_nodes_meet_and_leave_no_descriptor_and_no_mapping)
{
    int fds = crew_fds(), mappings = crew_mappings();
    struct rendezvous_pair p;

    rendezvous_pair_open(&p, 1000, 1000);
    rendezvous_pair_join(&p);
    assert_int_equal(crew_mappings(), mappings + 4);
    assert_int_equal(crew_fds(), fds + 4); /* an epoll and a connection each */
    rendezvous_pair_close(&p);
    assert_int_equal(crew_fds(), fds);
    assert_int_equal(crew_mappings(), mappings);
}

TEST(who_shows_another_secret_gets_nothing)
{
    struct rendezvous_pair p;
    int mappings = crew_mappings();
    struct err e;

    rendezvous_pair_open(&p, 1000, 1000);
    pair_fail(&p, another, ERR_LOST,
              "node 4, on this machine, ended the connection: another secret, or it is gone");
    assert_int_equal(rendezvous_late(p.m[0], &e), ERR_TIMEOUT);
    assert_says("node 7 has not joined");
    assert_int_equal(crew_mappings(), mappings + 2);
    rendezvous_pair_close(&p);
}

TEST(who_sits_on_a_name_without_the_secret_gets_nothing)
{
    struct rendezvous_pair p, squatter;
    int rc[2], mappings;
    struct err e, ends[2];

    rendezvous_pair_open(&p, 1000, 1000);
    rendezvous_pair_open(&squatter, 1000, 1000);
    mappings = crew_mappings();
    rendezvous_expect(squatter.m[0], 1, another);
    assert_ok(rendezvous_connect(p.m[1], 0, rendezvous_name(squatter.m[0]), rendezvous_pair_secret, &e));
    for (int k = 0; k < 3; k++) {
        rc[0] = rendezvous_advance(squatter.m[0], &ends[0]);
        rc[1] = rendezvous_advance(p.m[1], &ends[1]);
    }
    assert_int_equal(rc[0], 0);
    assert_int_equal(rc[1], ERR_LOST);
    assert_int_equal(crew_mappings(), mappings);
    rendezvous_pair_close(&squatter);
    rendezvous_pair_close(&p);
}

/* A listener of this name, made by hand. */
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

/* A packet with a descriptor. */
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

TEST(an_answer_without_proof_is_refused_and_the_secret_is_never_sent)
{
    static const size_t lengths[] = {64, 63, 65, 1, 0}; /* of the answer */
    int fds = crew_fds();

    for (size_t i = 0; i < N_OF(lengths); i++) {
        uint8_t word[128];
        uint32_t head[4]; /* magic, kind, from, to */
        struct rendezvous_pair p;
        struct err e;
        int fd, listener = listen_as(another);

        rendezvous_pair_open(&p, 1000, 1000);
        assert_ok(rendezvous_connect(p.m[1], 0, another, rendezvous_pair_secret, &e));
        fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        assert_int_equal(recv(fd, word, sizeof word, MSG_DONTWAIT), 64);
        assert_null(memmem(word, sizeof word, rendezvous_pair_secret, sizeof rendezvous_pair_secret));
        memcpy(head, word, sizeof head);
        head[1] = 2;
        head[2] = 0;
        head[3] = 1;
        memcpy(word, head, sizeof head);
        send_with_fd(fd, word, lengths[i], listener);
        close(fd);
        close(listener);
        assert_int_equal(rendezvous_advance(p.m[1], &e), lengths[i] ? ERR_AUTH : ERR_LOST);
        if (lengths[i])
            assert_says("who answers for node 4, on this machine, does not hold its secret");
        rendezvous_pair_close(&p);
        assert_int_equal(crew_fds(), fds);
    }
}

TEST(strangers_in_any_number_do_not_keep_a_node_out)
{
    struct rendezvous *strangers[RENDEZVOUS_UNPROVEN_MAX + RENDEZVOUS_UNPROVEN_MAX / 2];
    struct rendezvous_pair p;
    struct err e;

    rendezvous_pair_open(&p, 1000, 1000);
    for (size_t i = 0; i < N_OF(strangers); i++) {
        assert_ok(rendezvous_open(
            &strangers[i], &(struct rendezvous_config){2, rendezvous_pair_nodes, 1, 10, 10, 10, NULL}, &e));
        assert_ok(rendezvous_connect(strangers[i], 0, rendezvous_name(p.m[0]), another, &e));
    }
    rendezvous_pair_join(&p);
    for (size_t i = 0; i < N_OF(strangers); i++)
        rendezvous_close(strangers[i]);
    rendezvous_pair_close(&p);
}

TEST(a_name_that_nobody_has_is_unreachable)
{
    struct rendezvous_pair p;
    struct err e;

    rendezvous_pair_open(&p, 1000, 1000);
    assert_int_equal(rendezvous_connect(p.m[1], 0, rendezvous_pair_secret, rendezvous_pair_secret, &e),
                     ERR_UNREACHABLE);
    assert_says("node 4, on this machine: ");
    rendezvous_pair_close(&p);
}

TEST(a_memory_of_another_size_is_refused)
{
    struct rendezvous_pair p;

    rendezvous_pair_open(&p, 28000, 820000);
    pair_fail(&p, rendezvous_pair_secret, ERR_PROTOCOL,
              "node 4: it shares 28672 bytes, where 823296 to 823296 are right");
    rendezvous_pair_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_nodes_meet_and_leave_no_descriptor_and_no_mapping),
        cmocka_unit_test(who_shows_another_secret_gets_nothing),
        cmocka_unit_test(who_sits_on_a_name_without_the_secret_gets_nothing),
        cmocka_unit_test(an_answer_without_proof_is_refused_and_the_secret_is_never_sent),
        cmocka_unit_test(strangers_in_any_number_do_not_keep_a_node_out),
        cmocka_unit_test(a_name_that_nobody_has_is_unreachable),
        cmocka_unit_test(a_memory_of_another_size_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
