/* Peers of mesh_tcp that die, hang, or say what is not theirs to say. */
#include "tests/unit/unit.h"

#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shared/clock.h"
#include "tests/lib/mesh_nodes.h"
#include "tests/lib/stderr_catch.h"

/* A poll that sleeps on what TLS has read along would take its whole second for each of these. */
TEST(long_messages_go_to_and_fro_without_a_pause)
{
    static const enum mesh_tls modes[] = {MESH_TLS_OFF, MESH_TLS_ON};

    for (size_t k = 0; k < N_OF(modes); k++) {
        struct pair p;
        struct mesh_event ev;
        pid_t child;
        double start;

        pair_prepare(&p);
        for (int i = 0; i < 2; i++)
            p.o[i].cfg.tls = modes[k];
        child = fork();
        if (child == 0) {
            close(p.o[0].cfg.listen_fd);
            opening_run_one(&p.o[1]);
            for (int n = 0; n < 30; n++) {
                seconds_until_event(p.o[1].mesh, &ev);
                send_bytes(p.o[1].mesh, 0, 0, MESH_LIMIT, n);
                mesh_buf_put(p.o[1].mesh, ev.buf);
            }
            opening_close_one(&p.o[1]);
            _exit(0);
        }
        close(p.o[1].cfg.listen_fd);
        opening_run_one(&p.o[0]);
        assert_non_null(p.o[0].mesh);
        start = clock_now();
        for (int n = 0; n < 30; n++) {
            send_bytes(p.o[0].mesh, 1, 0, MESH_LIMIT, n);
            seconds_until_event(p.o[0].mesh, &ev);
            assert_int_equal(ev.kind, MESH_MESSAGE);
            assert_int_equal(ev.buf->bytes[MESH_LIMIT - 1], n);
            mesh_buf_put(p.o[0].mesh, ev.buf);
        }
        assert_true(clock_now() - start < 10);
        opening_close_one(&p.o[0]);
        assert_int_equal(waitpid(child, NULL, 0), child);
    }
}

/* `victim` is a process of its own; the other node is here. */
static void a_killed_node_is_missed(int victim)
{
    struct pair p;
    struct mesh_event ev;
    pid_t child;

    pair_prepare(&p);
    child = fork();
    if (child == 0) {
        close(p.o[!victim].cfg.listen_fd);
        opening_run_one(&p.o[victim]);
        for (;;)
            pause();
    }
    close(p.o[victim].cfg.listen_fd);
    opening_run_one(&p.o[!victim]);
    assert_non_null(p.o[!victim].mesh);
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_true(seconds_until_event(p.o[!victim].mesh, &ev) < 1);
    assert_int_equal(ev.kind, MESH_LOST);
    assert_int_equal(ev.head.peer, victim);
    assert_string_equal(ev.why, "the connection ended: the process is gone");
    mesh_close(p.o[!victim].mesh, clock_now());
}

TEST(a_dead_process_is_lost_within_a_second)
{
    a_killed_node_is_missed(0);
    a_killed_node_is_missed(1);
}

struct raw_pair {
    struct pair p;
    int fd; /* node 1's end */
    struct mesh_event ev;
};

static void raw_open(struct raw_pair *r)
{
    pthread_t t;

    pair_prepare(&r->p);
    close(r->p.o[1].cfg.listen_fd);
    pthread_create(&t, NULL, opening_run_one, &r->p.o[0]);
    r->fd = raw_link(&r->p.o[1]);
    pthread_join(t, NULL);
    assert_non_null(r->p.o[0].mesh);
}

static void raw_close(struct raw_pair *r)
{
    close(r->fd);
    mesh_close(r->p.o[0].mesh, clock_now());
}

TEST(a_frame_that_is_not_the_peers_to_send_loses_it)
{
    struct frame bad[] = {raw_word(1, 1), raw_word(1, 1), raw_word(1, 1), raw_word(1, 1),
                          raw_word(1, 1), raw_word(1, 2), raw_word(1, 1)};
    static const char *const says[] = {"another job, attempt or node",
                                       "another job, attempt or node",
                                       "another job, attempt or node",
                                       "another job, attempt or node",
                                       "at most",
                                       "left a message out",
                                       "acknowledges what was not sent"};

    bad[0].attempt = 0;
    bad[1].job++;
    bad[2].from = -2;
    bad[3].to = 1;
    bad[4].len = MESH_LIMIT + 1;
    bad[6].ack = 1;
    for (size_t k = 0; k < N_OF(bad); k++) {
        struct raw_pair r;
        struct mesh_event ev;

        raw_open(&r);
        say_frame(r.fd, &bad[k]);
        seconds_until_event(r.p.o[0].mesh, &ev);
        assert_int_equal(ev.kind, MESH_LOST);
        assert_true(strstr(ev.why, says[k]) != NULL);
        raw_close(&r);
    }
}

TEST(a_message_said_again_is_heard_once)
{
    static const uint32_t said[] = {1, 2, 1, 2, 2, 3};
    struct raw_pair r;
    struct mesh_event ev;

    raw_open(&r);
    for (size_t k = 0; k < N_OF(said); k++)
        say_frame(r.fd, &(struct frame[]){raw_word(1, said[k])}[0]);
    for (uint64_t k = 1; k <= 3; k++) {
        seconds_until_event(r.p.o[0].mesh, &ev);
        assert_int_equal(ev.kind, MESH_MESSAGE);
        assert_int_equal(ev.head.round, k);
        mesh_buf_put(r.p.o[0].mesh, ev.buf);
    }
    raw_close(&r);
}

static void *await_event(void *arg)
{
    struct raw_pair *r = arg;

    seconds_until_event(r->p.o[0].mesh, &r->ev);
    return NULL;
}

/* As bytes that a line repeats do, behind a handshake that was whole. */
TEST(a_handshake_s_frame_that_comes_again_costs_the_connection_and_not_the_peer)
{
    for (enum frame_kind kind = FRAME_HELLO; kind <= FRAME_PROOF; kind++) {
        struct frame again = raw_word(1, 0), word = raw_word(1, 1);
        struct raw_pair r;
        pthread_t t;
        char byte;

        again.kind = kind;
        raw_open(&r);
        pthread_create(&t, NULL, await_event, &r);
        say_frame(r.fd, &again);
        assert_true(read(r.fd, &byte, 1) <= 0); /* hung up */
        close(r.fd);
        r.fd = raw_link(&r.p.o[1]);
        say_frame(r.fd, &word);
        pthread_join(t, NULL);
        assert_int_equal(r.ev.kind, MESH_MESSAGE);
        assert_int_equal(r.ev.head.round, 1);
        mesh_buf_put(r.p.o[0].mesh, r.ev.buf);
        raw_close(&r);
    }
}

/* Between messages, in a header, behind it, and in a payload. */
TEST(a_peer_that_dies_anywhere_is_lost_and_half_a_message_with_it)
{
    static const size_t says[] = {0, 10, FRAME_BYTES, FRAME_BYTES + 50};

    for (size_t k = 0; k < N_OF(says); k++) {
        uint8_t bytes[FRAME_BYTES + 100] = {0};
        struct frame f = raw_word(1, 1);
        struct raw_pair r;
        struct mesh_event ev;

        f.len = 100;
        frame_pack(bytes, &f);
        raw_open(&r);
        assert_int_equal(write(r.fd, bytes, says[k]), says[k]);
        shutdown(r.fd, SHUT_RDWR);
        assert_true(seconds_until_event(r.p.o[0].mesh, &ev) < 1);
        assert_int_equal(ev.kind, MESH_LOST);
        assert_string_equal(ev.why, "the connection ended: the process is gone");
        raw_close(&r);
    }
}

/* Nobody polls node 1's mesh: its kernel answers, and nothing is taken. */
static void open_to_one_that_hangs(struct pair *p, bool ends_stuck)
{
    struct mesh_head h = {.kind = FRAME_WORD, .peer = 1};
    struct mesh_buf *b;
    struct err e = {0};

    pair_prepare(p);
    pair_run(p);
    p->o[0].mesh->ends_stuck = ends_stuck;
    b = mesh_buf_take(p->o[0].mesh);
    b->len = MESH_LIMIT;
    memset(b->bytes, 1, MESH_LIMIT);
    for (int k = 0; k < 40; k++)
        assert_ok(mesh_send(p->o[0].mesh, &h, b, &e));
    mesh_buf_put(p->o[0].mesh, b);
}

TEST(a_peer_that_hangs_is_lost_in_ten_seconds_where_all_shall_read)
{
    struct pair p[2]; /* in the first, peers may be slow to read */
    struct mesh_event ev[2];
    struct err e = {0};
    double start = clock_now();

    for (int i = 0; i < 2; i++)
        open_to_one_that_hangs(&p[i], i == 1);
    do
        for (int i = 0; i < 2; i++) {
            assert_ok(mesh_poll(p[i].o[0].mesh, &ev[i], clock_now() + 0.01, &e));
            assert_true(i == 1 || ev[i].kind == MESH_NOTHING);
        }
    while (ev[1].kind == MESH_NOTHING && clock_now() < start + 15);
    assert_in_range((unsigned long long)(clock_now() - start), 9, 12);
    assert_int_equal(ev[1].kind, MESH_LOST);
    assert_string_equal(ev[1].why, "it has taken nothing for 9.5 s, although messages wait for it");
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 2; k++)
            mesh_close(p[i].o[k].mesh, clock_now());
}

TEST(a_good_bye_to_one_that_hangs_ends_in_time_and_says_so)
{
    struct pair p;
    struct stderr_catch log;
    double start;

    pair_prepare(&p);
    pair_run(&p);
    stderr_catch_begin(&log);
    start = clock_now();
    mesh_close(p.o[0].mesh, start + 4);
    stderr_catch_end(&log);
    assert_true(clock_now() - start >= 4 && clock_now() - start < 6);
    assert_non_null(
        strstr(log.text, "node 1 has not heard the good-bye; waiting for it another 1 s at most"));
    mesh_close(p.o[1].mesh, clock_now());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(long_messages_go_to_and_fro_without_a_pause),
        cmocka_unit_test(a_dead_process_is_lost_within_a_second),
        cmocka_unit_test(a_frame_that_is_not_the_peers_to_send_loses_it),
        cmocka_unit_test(a_message_said_again_is_heard_once),
        cmocka_unit_test(a_handshake_s_frame_that_comes_again_costs_the_connection_and_not_the_peer),
        cmocka_unit_test(a_peer_that_dies_anywhere_is_lost_and_half_a_message_with_it),
        cmocka_unit_test(a_peer_that_hangs_is_lost_in_ten_seconds_where_all_shall_read),
        cmocka_unit_test(a_good_bye_to_one_that_hangs_ends_in_time_and_says_so),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
