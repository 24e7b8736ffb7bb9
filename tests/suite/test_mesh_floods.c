/* A peer that sends without pause does not delay other work. */
#include "tests/unit/unit.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

#include "shared/base/clock.h"
#include "shared/base/crc32c.h"
#include "tests/lib/mesh_nodes.h"

enum { FRAMES = 1024 }; /* bytes sent at once by a flood */

struct flood {
    int fd;
    struct frame frame;
    atomic_bool is_over;
};

/* The same frame repeated, which is valid for an acknowledgement only. */
static void *flood_run(void *arg)
{
    static uint8_t bytes[FRAMES * FRAME_BYTES];
    struct flood *f = arg;

    for (size_t k = 0; k < FRAMES; k++)
        frame_pack(bytes + k * FRAME_BYTES, &f->frame);
    for (size_t at = 0; !f->is_over;) {
        ssize_t n = send(f->fd, bytes + at, sizeof bytes - at, MSG_NOSIGNAL | MSG_DONTWAIT);

        at = n > 0 ? (at + (size_t)n) % sizeof bytes : at;
    }
    return NULL;
}

/* Node 0 opens; the others are bare sockets that connect to it. */
static void open_node_0(struct opening o[MESH_NODES], int fds[MESH_NODES])
{
    pthread_t opener;

    opening_prepare(o, MESH_TIMEOUT_S, MESH_TLS_OFF);
    pthread_create(&opener, NULL, opening_run_one, &o[0]);
    for (int i = 1; i < MESH_NODES; i++) {
        close(o[i].cfg.address.listen_fd);
        fds[i] = raw_link(&o[i], 0);
    }
    pthread_join(opener, NULL);
    assert_non_null(o[0].mesh);
}

static void close_node_0(struct opening o[MESH_NODES], const int fds[MESH_NODES])
{
    for (int i = 1; i < MESH_NODES; i++)
        close(fds[i]);
    mesh_close(o[0].mesh, clock_now());
}

/* A poll that continued while there is input would never return. */
TEST(a_flood_of_acknowledgements_does_not_prolong_a_poll)
{
    struct opening o[MESH_NODES];
    struct flood f = {.frame = raw_contribution(1, 0)};
    pthread_t flooder;
    int fds[MESH_NODES];

    open_node_0(o, fds);
    f.fd = fds[1];
    f.frame.kind = FRAME_ACK;
    pthread_create(&flooder, NULL, flood_run, &f);
    for (int k = 0; k < 20; k++) {
        struct mesh_event ev;
        struct err e = {0};

        assert_ok(mesh_poll(o[0].mesh, &ev, clock_now() + 0.02, &e));
        assert_int_equal(ev.kind, MESH_NOTHING);
    }
    f.is_over = true;
    pthread_join(flooder, NULL);
    close_node_0(o, fds);
}

/* A contribution of five bytes, so that frames do not fill a receive buffer exactly. */
static void send_message(int fd, int from, uint32_t seq)
{
    uint8_t bytes[FRAME_BYTES + 5] = {0};
    struct frame contribution = raw_contribution(from, seq);

    contribution.len = 5;
    contribution.crc = crc32c(bytes + FRAME_BYTES, 5);
    frame_pack(bytes, &contribution);
    assert_int_equal(send(fd, bytes, sizeof bytes, MSG_DONTWAIT), sizeof bytes);
}

/* Node 1 has sent 8192 messages before the server sends one, which must not wait for them. */
TEST(a_flood_of_messages_does_not_block_other_peers)
{
    struct opening o[MESH_NODES];
    int fds[MESH_NODES], n_before = 0;
    struct mesh_event ev;

    open_node_0(o, fds);
    for (uint32_t seq = 1; seq <= 8192; seq++)
        send_message(fds[1], 1, seq);
    send_message(fds[2], -2, 1);
    for (;; n_before++) {
        seconds_until_event(o[0].mesh, &ev);
        assert_int_equal(ev.kind, MESH_MESSAGE);
        mesh_buf_put(ev.buf);
        if (ev.head.peer == -2)
            break;
    }
    assert_true(n_before < 100);
    for (int k = n_before; k < 8192; k++) { /* and no node is lost */
        seconds_until_event(o[0].mesh, &ev);
        assert_int_equal(ev.head.round, k + 1);
        mesh_buf_put(ev.buf);
    }
    close_node_0(o, fds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_flood_of_acknowledgements_does_not_prolong_a_poll),
        cmocka_unit_test(a_flood_of_messages_does_not_block_other_peers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
