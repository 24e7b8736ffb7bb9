/* Peers of mesh_tcp that die, hang, or send invalid messages. */
#include "tests/unit/unit.h"

#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runner/mesh/tcp/mesh_tcp.h"
#include "shared/base/clock.h"
#include "shared/base/crc32c.h"
#include "tests/lib/mesh_nodes.h"
#include "tests/lib/sealed_memory.h"
#include "tests/lib/send_pools.h"
#include "tests/lib/stderr_catch.h"

/* A poll that sleeps although TLS has buffered bytes would take its whole second for each of these. */
TEST(long_messages_are_exchanged_without_a_pause)
{
    static const enum mesh_tls modes[] = {MESH_TLS_OFF, MESH_TLS_ON};

    for (size_t k = 0; k < N_OF(modes); k++) {
        struct pair p;
        struct mesh_event ev;
        pid_t child;
        double least = INFINITY;

        pair_prepare(&p);
        for (int i = 0; i < 2; i++)
            p.o[i].cfg.address.tls = modes[k];
        child = fork();
        if (child == 0) {
            close(p.o[0].cfg.address.listen_fd);
            opening_run_one(&p.o[1]);
            for (int n = 0; n < 30; n++) {
                seconds_until_event(p.o[1].mesh, &ev);
                send_bytes(p.o[1].mesh, 0, 0, MESH_LIMIT, n);
                mesh_buf_put(ev.buf);
            }
            opening_close_one(&p.o[1]);
            _exit(0);
        }
        close(p.o[1].cfg.address.listen_fd);
        opening_run_one(&p.o[0]);
        assert_non_null(p.o[0].mesh);
        for (int n = 0; n < 30; n++) {
            send_bytes(p.o[0].mesh, 1, 0, MESH_LIMIT, n);
            least = fmin(least, seconds_until_event(p.o[0].mesh, &ev));
            assert_int_equal(ev.kind, MESH_MESSAGE);
            assert_int_equal(ev.buf->bytes[MESH_LIMIT - 1], n);
            mesh_buf_put(ev.buf);
        }
        assert_true(least < 0.9);
        opening_close_one(&p.o[0]);
        assert_int_equal(waitpid(child, NULL, 0), child);
    }
}

/* `killed` is a separate process; the other node is here. */
static void a_killed_node_is_missed(int killed)
{
    struct pair p;
    struct mesh_event ev;
    pid_t child;

    pair_prepare(&p);
    child = fork();
    if (child == 0) {
        close(p.o[!killed].cfg.address.listen_fd);
        opening_run_one(&p.o[killed]);
        for (;;)
            pause();
    }
    close(p.o[killed].cfg.address.listen_fd);
    opening_run_one(&p.o[!killed]);
    assert_non_null(p.o[!killed].mesh);
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_true(watched_until_event(p.o[!killed].mesh, &ev) < 1);
    assert_int_equal(ev.kind, MESH_LOST);
    assert_int_equal(ev.head.peer, killed);
    assert_string_equal(ev.why, "the connection ended: the process has ended");
    mesh_close(p.o[!killed].mesh, clock_now());
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
    close(r->p.o[1].cfg.address.listen_fd);
    pthread_create(&t, NULL, opening_run_one, &r->p.o[0]);
    r->fd = raw_link(&r->p.o[1], 0);
    pthread_join(t, NULL);
    assert_non_null(r->p.o[0].mesh);
}

static void raw_close(struct raw_pair *r)
{
    close(r->fd);
    mesh_close(r->p.o[0].mesh, clock_now());
}

TEST(a_frame_that_the_peer_may_not_send_loses_it)
{
    struct frame bad[] = {raw_contribution(1, 1), raw_contribution(1, 1), raw_contribution(1, 1),
                          raw_contribution(1, 1), raw_contribution(1, 1), raw_contribution(1, 2),
                          raw_contribution(1, 1)};
    static const char *const expected[] = {"another job, attempt or node",
                                           "another job, attempt or node",
                                           "another job, attempt or node",
                                           "another job, attempt or node",
                                           "at most",
                                           "skipped a message",
                                           "acknowledged a message that was not sent"};

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
        send_raw_frame(r.fd, &bad[k]);
        seconds_until_event(r.p.o[0].mesh, &ev);
        assert_int_equal(ev.kind, MESH_LOST);
        assert_true(strstr(ev.why, expected[k]) != NULL);
        raw_close(&r);
    }
}

/* Node 1's memory, as node 0 sees it. */
static unsigned char shown[8192];

/* Node 1 sends a descriptor of its message number `seq` in that memory. */
static void send_descriptor(int fd, uint32_t seq, uint64_t offset, uint64_t len, size_t n_sent)
{
    uint8_t bytes[FRAME_BYTES + FRAME_DESCRIPTOR_BYTES];
    struct frame f = raw_contribution(1, seq);

    f.is_descriptor = true;
    f.len = n_sent;
    frame_descriptor_pack(bytes + FRAME_BYTES, offset, len);
    f.crc = crc32c(bytes + FRAME_BYTES, n_sent);
    frame_pack(bytes, &f);
    assert_int_equal(write(fd, bytes, FRAME_BYTES + n_sent), FRAME_BYTES + n_sent);
}

TEST(a_message_named_by_a_descriptor_is_copied_once)
{
    struct raw_pair r;
    struct mesh_event ev;

    raw_open(&r);
    mesh_tcp_attach(r.p.o[0].mesh, 1, (struct sealed){shown, sizeof shown});
    memset(shown, 3, sizeof shown);
    for (int sent = 0; sent < 2; sent++)
        send_descriptor(r.fd, 1, 100, 5000, FRAME_DESCRIPTOR_BYTES);
    seconds_until_event(r.p.o[0].mesh, &ev);
    memset(shown, 4, sizeof shown);
    assert_int_equal(ev.kind, MESH_MESSAGE);
    assert_int_equal(ev.buf->len, 5000);
    for (size_t i = 0; i < ev.buf->len; i++)
        assert_int_equal(ev.buf->bytes[i], 3);
    mesh_buf_put(ev.buf);
    send_descriptor(r.fd, 2, sizeof shown, 0, FRAME_DESCRIPTOR_BYTES); /* empty, at the end */
    seconds_until_event(r.p.o[0].mesh, &ev);
    assert_int_equal(ev.kind, MESH_MESSAGE);
    assert_int_equal(ev.head.round, 2);
    assert_int_equal(ev.buf->len, 0);
    mesh_buf_put(ev.buf);
    raw_close(&r);
}

TEST(a_descriptor_out_of_bounds_loses_its_sender)
{
    static const struct {
        uint64_t offset, len;
        size_t n_sent, n_shown;
        const char *expected;
    } cases[] = {
        {0, 5000, FRAME_DESCRIPTOR_BYTES, 0, "but shares no memory"},
        {0, 5000, FRAME_DESCRIPTOR_BYTES - 1, sizeof shown, "but shares no memory"},
        {0, 5000, 0, sizeof shown, "but shares no memory"},
        {0, sizeof shown + 1, FRAME_DESCRIPTOR_BYTES, sizeof shown, "beyond its memory or longer"},
        {1, sizeof shown, FRAME_DESCRIPTOR_BYTES, sizeof shown, "beyond its memory or longer"},
        {sizeof shown + 1, 0, FRAME_DESCRIPTOR_BYTES, sizeof shown, "beyond its memory or longer"},
        {UINT64_MAX, 2, FRAME_DESCRIPTOR_BYTES, sizeof shown, "beyond its memory or longer"},
        {2, UINT64_MAX, FRAME_DESCRIPTOR_BYTES, sizeof shown, "beyond its memory or longer"},
        /* It is not examined, as it is longer than any message. */
        {0, MESH_LIMIT + 1, FRAME_DESCRIPTOR_BYTES, 2 * MESH_LIMIT, "beyond its memory or longer"},
    };

    for (size_t k = 0; k < N_OF(cases); k++) {
        struct raw_pair r;
        struct mesh_event ev;

        raw_open(&r);
        if (cases[k].n_shown > 0)
            mesh_tcp_attach(r.p.o[0].mesh, 1, (struct sealed){shown, cases[k].n_shown});
        send_descriptor(r.fd, 1, cases[k].offset, cases[k].len, cases[k].n_sent);
        seconds_until_event(r.p.o[0].mesh, &ev);
        assert_int_equal(ev.kind, MESH_LOST);
        assert_true(strstr(ev.why, cases[k].expected) != NULL);
        raw_close(&r);
    }
}

/* Sends long messages of node 0, number k filled with k. */
static void send_messages(struct mesh *m, int from, int n)
{
    for (int k = from; k < from + n; k++) {
        struct mesh_head h = {.kind = FRAME_CONTRIBUTION, .peer = 1, .round = (uint64_t)k};
        struct mesh_buf *b = mesh_buf_take(m);
        struct err e = {0};

        b->len = 2 * SEND_POOL_MIN_BYTES;
        memset(b->bytes, k, b->len);
        assert_ok(mesh_send(m, &h, b, &e));
        mesh_buf_put(b);
    }
}

static void receive_messages(struct mesh *m, int from, int n)
{
    for (int k = from; k < from + n; k++) {
        struct mesh_event ev;

        seconds_until_event(m, &ev);
        assert_int_equal(ev.kind, MESH_MESSAGE);
        assert_int_equal(ev.head.round, k);
        assert_int_equal(ev.buf->len, 2 * SEND_POOL_MIN_BYTES);
        for (size_t i = 0; i < ev.buf->len; i++)
            assert_int_equal(ev.buf->bytes[i], k);
        mesh_buf_put(ev.buf);
    }
}

static void open_with_send_pools(struct pair *p, struct send_pools *s, struct mesh *m[2])
{
    pair_prepare(p);
    pair_run(p);
    for (int i = 0; i < 2; i++)
        m[i] = p->o[i].mesh;
    send_pools_open(s, m, 2);
}

/* The number of free slots; overwrites them. */
static size_t n_free_slots(struct send_pool *s, struct mesh *m)
{
    struct mesh_buf *b[SEND_POOL_SLOTS + 1], *slots[SEND_POOL_SLOTS + 1];
    size_t n = 0;

    do {
        b[n] = mesh_buf_take(m);
        b[n]->len = 2 * SEND_POOL_MIN_BYTES;
        memset(b[n]->bytes, 99, b[n]->len);
        slots[n] = send_pool_copy(s, b[n]);
    } while (slots[n++]);
    for (size_t k = 0; k < n; k++) {
        mesh_buf_put(b[k]);
        mesh_buf_put(slots[k]);
    }
    return n - 1;
}

TEST(a_peer_that_does_not_read_occupies_only_some_slots_of_the_send_pool)
{
    struct send_pools send_pools;
    struct mesh *m[2];
    struct pair p;

    needs_sealed_memory();
    open_with_send_pools(&p, &send_pools, m);
    send_messages(m[0], 1, 4 * SEND_POOL_SLOTS);
    assert_int_equal(n_free_slots(send_pools.of[0], m[0]), SEND_POOL_SLOTS - SEND_POOL_DESCRIPTORS_MAX);
    receive_messages(m[1], 1, 4 * SEND_POOL_SLOTS);
    pair_close(&p);
    send_pools_close(&send_pools);
}

static void poll_until_free(struct send_pool *s, struct mesh *m, size_t n)
{
    double end = clock_now() + MESH_TIMEOUT_S;
    struct mesh_event ev;

    while (n_free_slots(s, m) < n && clock_now() < end)
        poll_shortly(m, &ev);
    assert_in_range(n_free_slots(s, m), n, SEND_POOL_SLOTS);
}

/* In one direction only, so that no message of the peer acknowledges others. */
TEST(a_send_pool_slot_is_freed_when_its_message_has_been_received)
{
    struct send_pools send_pools;
    struct mesh_event ev;
    struct mesh *m[2];
    struct pair p;

    needs_sealed_memory();
    open_with_send_pools(&p, &send_pools, m);
    send_messages(m[0], 1, SEND_POOL_DESCRIPTORS_MAX);
    poll_shortly(m[0], &ev);
    assert_int_equal(n_free_slots(send_pools.of[0], m[0]), SEND_POOL_SLOTS - SEND_POOL_DESCRIPTORS_MAX);
    receive_messages(m[1], 1, SEND_POOL_DESCRIPTORS_MAX);
    poll_until_free(send_pools.of[0], m[0], SEND_POOL_SLOTS);
    for (int k = 0; k < 50; k++) {
        size_t n_free = n_free_slots(send_pools.of[0], m[0]);

        send_messages(m[0], k + 20, 1);
        assert_int_equal(n_free_slots(send_pools.of[0], m[0]), n_free - 1);
        receive_messages(m[1], k + 20, 1);
        /* The next one has a slot, too. */
        poll_until_free(send_pools.of[0], m[0], SEND_POOL_SLOTS - SEND_POOL_DESCRIPTORS_MAX + 1);
    }
    pair_close(&p);
    send_pools_close(&send_pools);
}

TEST(a_dropped_peer_whose_process_runs_can_still_read_the_messages_described_to_it)
{
    struct send_pools send_pools;
    struct mesh *m[2];
    struct pair p;

    needs_sealed_memory();
    open_with_send_pools(&p, &send_pools, m);
    send_messages(m[0], 1, 2);
    mesh_drop(m[0], 1, "it has taken nothing");
    assert_int_equal(n_free_slots(send_pools.of[0], m[0]), SEND_POOL_SLOTS - 2);
    receive_messages(m[1], 1, 2);
    pair_close(&p);
    send_pools_close(&send_pools);
}

/* Node 0's send pool, without a reader. */
static void open_lone_send_pool(struct send_pool **s, struct mesh *m)
{
    const size_t bytes = send_pool_bytes(MESH_LIMIT, 2);
    const struct rendezvous_config cfg = {
        .n = 1, .nodes = mesh_ids, .bytes = bytes, .min_bytes = bytes, .max_bytes = bytes};
    struct rendezvous *joined;
    struct err e = {0};

    assert_ok(rendezvous_open(&joined, &cfg, &e));
    assert_ok(send_pool_open(s, joined, MESH_LIMIT, &e));
    mesh_tcp_expose(m, 1, send_pool_memory(*s, 0));
    mesh_tcp_use_pool(m, *s);
}

TEST(a_dead_process_occupies_no_slot_of_the_send_pool)
{
    struct send_pool *send_pool;
    struct mesh_event ev;
    struct pair p;
    pid_t child;

    needs_sealed_memory();
    pair_prepare(&p);
    child = fork();
    if (child == 0) {
        close(p.o[0].cfg.address.listen_fd);
        opening_run_one(&p.o[1]);
        for (;;)
            pause();
    }
    close(p.o[1].cfg.address.listen_fd);
    opening_run_one(&p.o[0]);
    assert_non_null(p.o[0].mesh);
    open_lone_send_pool(&send_pool, p.o[0].mesh);
    send_messages(p.o[0].mesh, 1, 2);
    assert_int_equal(n_free_slots(send_pool, p.o[0].mesh), SEND_POOL_SLOTS - 2);
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
    seconds_until_event(p.o[0].mesh, &ev);
    assert_int_equal(ev.kind, MESH_LOST);
    assert_int_equal(n_free_slots(send_pool, p.o[0].mesh), SEND_POOL_SLOTS);
    mesh_close(p.o[0].mesh, clock_now());
    send_pool_close(send_pool);
}

/* As event rules may do. */
TEST(a_message_changed_after_it_was_sent_is_copied_again)
{
    static const size_t lengths[] = {SEND_POOL_MIN_BYTES, SEND_POOL_MIN_BYTES, SEND_POOL_MIN_BYTES + 100};
    struct mesh_head h = {.kind = FRAME_EVENT, .peer = 1};
    struct send_pools send_pools;
    struct mesh_event ev;
    struct mesh_buf *b;
    struct mesh *m[2];
    struct pair p;
    struct err e = {0};

    needs_sealed_memory();
    open_with_send_pools(&p, &send_pools, m);
    b = mesh_buf_take(m[0]);
    for (size_t k = 0; k < N_OF(lengths); k++) {
        memset(b->bytes + b->len, (int)k + 1, lengths[k] - b->len);
        b->len = lengths[k];
        assert_ok(mesh_send(m[0], &h, b, &e));
        assert_int_equal(n_free_slots(send_pools.of[0], m[0]), SEND_POOL_SLOTS - (k < 2 ? 1 : 2));
    }
    assert_int_equal(n_free_slots(send_pools.of[0], m[0]), SEND_POOL_SLOTS - 2);
    mesh_buf_put(b);
    for (size_t k = 0; k < N_OF(lengths); k++) {
        seconds_until_event(m[1], &ev);
        assert_int_equal(ev.kind, MESH_MESSAGE);
        assert_int_equal(ev.buf->len, lengths[k]);
        assert_int_equal(ev.buf->bytes[SEND_POOL_MIN_BYTES - 1], 1);
        assert_int_equal(ev.buf->bytes[lengths[k] - 1], k < 2 ? 1 : 3);
        mesh_buf_put(ev.buf);
    }
    pair_close(&p);
    send_pools_close(&send_pools);
}

TEST(a_retransmitted_message_is_delivered_once)
{
    static const uint32_t sent[] = {1, 2, 1, 2, 2, 3};
    struct raw_pair r;
    struct mesh_event ev;

    raw_open(&r);
    for (size_t k = 0; k < N_OF(sent); k++)
        send_raw_frame(r.fd, &(struct frame[]){raw_contribution(1, sent[k])}[0]);
    for (uint64_t k = 1; k <= 3; k++) {
        seconds_until_event(r.p.o[0].mesh, &ev);
        assert_int_equal(ev.kind, MESH_MESSAGE);
        assert_int_equal(ev.head.round, k);
        mesh_buf_put(ev.buf);
    }
    raw_close(&r);
}

static void *await_event(void *arg)
{
    struct raw_pair *r = arg;

    seconds_until_event(r->p.o[0].mesh, &r->ev);
    return NULL;
}

/* As bytes repeated by the network, after a complete handshake. */
TEST(a_repeated_handshake_frame_costs_the_connection_and_not_the_peer)
{
    for (enum frame_kind kind = FRAME_HELLO; kind <= FRAME_PROOF; kind++) {
        struct frame again = raw_contribution(1, 0), message = raw_contribution(1, 1);
        struct raw_pair r;
        pthread_t t;
        char byte;

        again.kind = kind;
        raw_open(&r);
        pthread_create(&t, NULL, await_event, &r);
        send_raw_frame(r.fd, &again);
        assert_true(read(r.fd, &byte, 1) <= 0); /* closed */
        close(r.fd);
        r.fd = raw_link(&r.p.o[1], 0);
        send_raw_frame(r.fd, &message);
        pthread_join(t, NULL);
        assert_int_equal(r.ev.kind, MESH_MESSAGE);
        assert_int_equal(r.ev.head.round, 1);
        mesh_buf_put(r.ev.buf);
        raw_close(&r);
    }
}

/* More bytes than the kernel keeps of a connection that is not read. */
enum { N_LONG = 16 };

/* Reads node 0's next message, and returns its number of the round. */
static uint64_t read_message(int fd)
{
    static uint8_t payload[MESH_LIMIT];
    uint8_t header[FRAME_BYTES];
    struct frame f;
    struct err e = {0};

    assert_int_equal(recv(fd, header, sizeof header, MSG_WAITALL), sizeof header);
    assert_ok(frame_unpack(&f, header, &e));
    assert_true(f.len <= sizeof payload);
    if (f.len > 0) /* of no bytes, recv waits for one */
        assert_int_equal(recv(fd, payload, f.len, MSG_WAITALL), f.len);
    return f.round;
}

static void send_contribution(int fd, uint32_t seq, uint32_t ack)
{
    struct frame f = raw_contribution(1, seq);

    f.ack = ack;
    send_raw_frame(fd, &f);
}

/* Node 1 connects again, and reports the number of messages that it has received. Returns when node 0
 * sends on the new connection. */
static void reconnect(struct raw_pair *r, uint32_t received)
{
    int before = r->fd;
    char byte;

    r->fd = raw_link(&r->p.o[1], received);
    if (received == 0)
        assert_int_equal(recv(r->fd, &byte, 1, MSG_PEEK), 1);
    close(before);
}

static void check_next_message(struct raw_pair *r, uint64_t round)
{
    assert_int_equal(r->ev.kind, MESH_MESSAGE);
    assert_int_equal(r->ev.head.round, round);
    mesh_buf_put(r->ev.buf);
}

TEST(a_message_received_on_one_connection_may_be_acknowledged_on_a_later_one)
{
    for (int by_handshake = 0; by_handshake < 2; by_handshake++) {
        uint64_t n_again = 0;
        struct raw_pair r;
        pthread_t polling;

        raw_open(&r);
        for (uint64_t k = 0; k < N_LONG; k++)
            send_bytes(r.p.o[0].mesh, 1, k, MESH_LIMIT, 7);
        pthread_create(&polling, NULL, await_event, &r);
        for (uint64_t k = 0; k < N_LONG; k++)
            assert_int_equal(read_message(r.fd), k);
        reconnect(&r, 0); /* node 0 sends all messages again */
        if (by_handshake)
            reconnect(&r, N_LONG);
        send_contribution(r.fd, 1, N_LONG);
        pthread_join(polling, NULL);
        check_next_message(&r, 1);
        send_bytes(r.p.o[0].mesh, 1, N_LONG, 10, 8);
        pthread_create(&polling, NULL, await_event, &r);
        while (read_message(r.fd) != N_LONG)
            n_again++;
        /* At most the messages that node 0 sent before it got the acknowledgement. */
        assert_true(n_again < (by_handshake ? 1 : N_LONG));
        send_contribution(r.fd, 2, N_LONG + 1);
        pthread_join(polling, NULL);
        check_next_message(&r, 2);
        raw_close(&r);
    }
}

/* The good-bye, too, may have been received before. */
TEST(a_node_closes_once_its_good_bye_was_received_on_any_connection)
{
    struct raw_pair r;
    pthread_t closing;
    const struct frame ack = {
        .kind = FRAME_ACK, .job = frame_job("j-test01"), .attempt = 1, .from = 1, .to = 0, .ack = N_LONG + 1};
    static char rest[1 << 16];
    double start;

    raw_open(&r);
    for (uint64_t k = 0; k < N_LONG; k++)
        send_bytes(r.p.o[0].mesh, 1, k, MESH_LIMIT, 7);
    start = clock_now();
    pthread_create(&closing, NULL, opening_close_one, &r.p.o[0]);
    for (uint64_t k = 0; k <= N_LONG; k++)
        read_message(r.fd);
    reconnect(&r, 0);
    send_raw_frame(r.fd, &ack);
    while (recv(r.fd, rest, sizeof rest, 0) > 0)
        continue;
    pthread_join(closing, NULL);
    assert_true(clock_now() - start < MESH_TIMEOUT_S);
    close(r.fd);
}

/* Between messages, in a header, after it, and in a payload. */
TEST(a_peer_that_dies_at_any_byte_is_lost_with_its_partial_message)
{
    static const size_t expected[] = {0, 10, FRAME_BYTES, FRAME_BYTES + 50};

    for (size_t k = 0; k < N_OF(expected); k++) {
        uint8_t bytes[FRAME_BYTES + 100] = {0};
        struct frame f = raw_contribution(1, 1);
        struct raw_pair r;
        struct mesh_event ev;

        f.len = 100;
        frame_pack(bytes, &f);
        raw_open(&r);
        assert_int_equal(write(r.fd, bytes, expected[k]), expected[k]);
        shutdown(r.fd, SHUT_RDWR);
        assert_true(seconds_until_event(r.p.o[0].mesh, &ev) < 1);
        assert_int_equal(ev.kind, MESH_LOST);
        assert_string_equal(ev.why, "the connection ended: the process has ended");
        raw_close(&r);
    }
}

/* Node 1's mesh is never polled: its kernel answers, and nothing is read. */
static void open_to_hanging_peer(struct pair *p, bool drops_stalled)
{
    struct mesh_head h = {.kind = FRAME_CONTRIBUTION, .peer = 1};
    struct mesh_buf *b;
    struct err e = {0};

    pair_prepare(p);
    p->o[0].cfg.spec.drops_stalled = drops_stalled;
    pair_run(p);
    b = mesh_buf_take(p->o[0].mesh);
    b->len = MESH_LIMIT;
    memset(b->bytes, 1, MESH_LIMIT);
    for (int k = 0; k < 40; k++)
        assert_ok(mesh_send(p->o[0].mesh, &h, b, &e));
    mesh_buf_put(b);
}

TEST(a_peer_that_hangs_is_lost_after_ten_seconds_if_all_are_expected_to_read)
{
    struct pair p[2]; /* in the first, peers may be slow to read */
    struct mesh_event ev[2];
    double start = clock_now(), watched = 0;

    for (int i = 0; i < 2; i++)
        open_to_hanging_peer(&p[i], i == 1);
    do
        for (int i = 0; i < 2; i++) {
            watched += poll_shortly(p[i].o[0].mesh, &ev[i]);
            assert_true(i == 1 || ev[i].kind == MESH_NOTHING);
        }
    while (ev[1].kind == MESH_NOTHING && watched < 12);
    assert_true(clock_now() - start >= 9 && watched < 12);
    assert_int_equal(ev[1].kind, MESH_LOST);
    assert_string_equal(ev[1].why, "it has received nothing for 9.5 s, although messages are queued for it");
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 2; k++)
            mesh_close(p[i].o[k].mesh, clock_now());
}

TEST(a_good_bye_to_a_hanging_peer_times_out_with_a_report)
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
    assert_true(clock_now() - start >= 4);
    assert_non_null(strstr(log.text, "node 1 has not acknowledged the BYE; waiting for it another "));
    mesh_close(p.o[1].mesh, clock_now());
}

/* Also with what was queued: the peer may need it to end well. */
TEST(a_node_that_is_interrupted_still_leaves_its_peers)
{
    static atomic_bool is_told;
    struct mesh_event ev;
    struct pair p;
    pthread_t t;

    is_told = false;
    pair_prepare(&p);
    p.o[0].cfg.spec.interrupted = &is_told;
    pair_run(&p);
    flag_raise(&is_told);
    send_bytes(p.o[0].mesh, 1, 1, 1000, 1);
    pthread_create(&t, NULL, opening_close_one, &p.o[0]);
    seconds_until_event(p.o[1].mesh, &ev);
    assert_int_equal(ev.kind, MESH_MESSAGE);
    mesh_buf_put(ev.buf);
    seconds_until_event(p.o[1].mesh, &ev);
    assert_int_equal(ev.kind, MESH_LEFT);
    opening_close_one(&p.o[1]);
    pthread_join(t, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(long_messages_are_exchanged_without_a_pause),
        cmocka_unit_test(a_dead_process_is_lost_within_a_second),
        cmocka_unit_test(a_frame_that_the_peer_may_not_send_loses_it),
        cmocka_unit_test(a_message_named_by_a_descriptor_is_copied_once),
        cmocka_unit_test(a_descriptor_out_of_bounds_loses_its_sender),
        cmocka_unit_test(a_peer_that_does_not_read_occupies_only_some_slots_of_the_send_pool),
        cmocka_unit_test(a_send_pool_slot_is_freed_when_its_message_has_been_received),
        cmocka_unit_test(a_dropped_peer_whose_process_runs_can_still_read_the_messages_described_to_it),
        cmocka_unit_test(a_dead_process_occupies_no_slot_of_the_send_pool),
        cmocka_unit_test(a_message_changed_after_it_was_sent_is_copied_again),
        cmocka_unit_test(a_retransmitted_message_is_delivered_once),
        cmocka_unit_test(a_repeated_handshake_frame_costs_the_connection_and_not_the_peer),
        cmocka_unit_test(a_message_received_on_one_connection_may_be_acknowledged_on_a_later_one),
        cmocka_unit_test(a_node_closes_once_its_good_bye_was_received_on_any_connection),
        cmocka_unit_test(a_peer_that_dies_at_any_byte_is_lost_with_its_partial_message),
        cmocka_unit_test(a_peer_that_hangs_is_lost_after_ten_seconds_if_all_are_expected_to_read),
        cmocka_unit_test(a_good_bye_to_a_hanging_peer_times_out_with_a_report),
        cmocka_unit_test(a_node_that_is_interrupted_still_leaves_its_peers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
