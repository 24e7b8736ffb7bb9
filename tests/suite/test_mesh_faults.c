/* Faults of the network between two nodes do not affect mesh_tcp's messages. */
#include "tests/unit/unit.h"

#include <pthread.h>
#include <unistd.h>

#include "shared/base/clock.h"
#include "tests/lib/fault_proxy.h"
#include "tests/lib/mesh_nodes.h"
#include "tests/lib/sealed_memory.h"
#include "tests/lib/send_pools.h"

/* One end of a connection with faults: sends numbered messages of many sizes until told to stop, then their
 * number; checks what it receives. */
struct traffic_end {
    struct mesh *m;
    int to;
    atomic_int *may_stop; /* no end stops before `n_least` are sent */
    /* The number of ends that have received everything; until both have, both keep polling. */
    atomic_int *n_ready;
    uint64_t n_least, n_sent, n_received, n_promised;
    uint64_t ahead; /* maximum of sent minus received messages */
    double deadline;
    bool has_failed;
    char why[MESH_REASON_MAX];
};

static size_t message_size(uint64_t k)
{
    return k % 17 == 0 ? 9000 : (size_t)(k * 2654435761u >> 7) % 3000;
}

static bool receive_one(struct traffic_end *t, const struct mesh_event *ev)
{
    uint64_t k = t->n_received;

    if (ev->head.kind == FRAME_EVENT) {
        t->n_promised = ev->head.round;
        return true;
    }
    if (ev->head.round != k || ev->buf->len != message_size(k))
        return false;
    for (size_t i = 0; i < ev->buf->len; i++)
        if (ev->buf->bytes[i] != (unsigned char)(k * 7 + i))
            return false;
    t->n_received++;
    return true;
}

static void *exchange_messages(void *arg)
{
    struct traffic_end *t = arg;
    bool has_ended = false, is_ready = false;

    while (!t->has_failed && *t->n_ready < 2) {
        struct mesh_head h = {.kind = FRAME_CONTRIBUTION, .peer = t->to, .round = t->n_sent};
        struct mesh_event ev;
        struct err e = {0};

        bool may_contribute = mesh_queued(t->m) < 20 &&
                              (t->n_sent < t->n_received + t->ahead || *t->may_stop);

        if (!has_ended && may_contribute) {
            struct mesh_buf *b = mesh_buf_take(t->m);

            has_ended = *t->may_stop && t->n_sent >= t->n_least;
            h.kind = has_ended ? FRAME_EVENT : FRAME_CONTRIBUTION;
            b->len = has_ended ? 0 : message_size(t->n_sent);
            for (size_t i = 0; i < b->len; i++)
                b->bytes[i] = (unsigned char)(t->n_sent * 7 + i);
            t->n_sent += !has_ended;
            t->has_failed = mesh_send(t->m, &h, b, &e) < 0;
            mesh_buf_put(b);
        }
        if (mesh_poll(t->m, &ev, clock_now() + (has_ended || !may_contribute ? 0.01 : 0), &e) < 0 ||
            clock_now() > t->deadline)
            t->has_failed = true;
        if (ev.kind == MESH_MESSAGE) {
            t->has_failed = !receive_one(t, &ev) || t->has_failed;
            mesh_buf_put(ev.buf);
        } else if (ev.kind != MESH_NOTHING) {
            t->has_failed = true;
            memcpy(t->why, ev.why, sizeof t->why);
        }
        if (!is_ready && has_ended && t->n_received == t->n_promised) {
            is_ready = true;
            ++*t->n_ready;
        }
    }
    return NULL;
}

enum { TRAFFIC_S = 1000 };

/* Traffic over a connection with faults. */
struct traffic {
    struct fault_plan plan;
    enum mesh_tls tls;
    int n_least[N_FAULTS];  /* it ends after so many of each fault */
    uint64_t n_messages;    /* of each end, at least; 0: 40 */
    uint64_t ahead;         /* see traffic_end; 0: without a limit */
    bool has_shared_memory; /* long messages go through shared memory */
    bool stalls;            /* for seconds, forwards, backwards and both ways */
    double seconds;         /* time limit; 0: TRAFFIC_S */
};

/* A failure is reproduced with PSGD_FAULT_SEED. */
static uint64_t fault_seed(void)
{
    const char *seed = getenv("PSGD_FAULT_SEED");

    return seed ? strtoull(seed, NULL, 10) : 5;
}

static bool has_happened(const struct traffic *k, struct fault_proxy *proxy)
{
    for (int i = 0; i < N_FAULTS; i++)
        if (proxy->n[i] < k->n_least[i])
            return false;
    return true;
}

static void stall(struct fault_proxy *proxy)
{
    for (int ways = STALL_FORWARD; ways <= (STALL_FORWARD | STALL_BACK); ways++) {
        proxy->stalls = ways;
        usleep(ways == (STALL_FORWARD | STALL_BACK) ? 4000000 : 1000000);
        proxy->stalls = STALL_NONE;
        usleep(100000);
    }
}

static void check_traffic(const struct traffic *k, struct fault_proxy *proxy, const struct traffic_end t[2])
{
    bool is_whole = has_happened(k, proxy), is_calm = true;

    for (int i = 0; i < 2; i++)
        is_whole = is_whole && !t[i].has_failed && t[i].n_received == t[!i].n_sent;
    for (int i = 0; i < N_FAULTS; i++)
        is_calm = is_calm && k->n_least[i] == 0;
    /* An incomplete TLS record times out sooner than this connection stalls, or than it was suspended. */
    if (!is_whole || (is_calm && !k->stalls && !proxy->was_suspended && proxy->n_connections != 1))
        fail_msg("seed %llu: %d flips, %d repeats, %d cuts, %d resets, %d half-closes; %d connections; "
                 "node 0 received %llu of %llu: %s; node 1 received %llu of %llu: %s",
                 (unsigned long long)k->plan.seed, proxy->n[FAULT_FLIP], proxy->n[FAULT_REPEAT],
                 proxy->n[FAULT_CUT], proxy->n[FAULT_RESET], proxy->n[FAULT_HALF_CLOSE], proxy->n_connections,
                 (unsigned long long)t[0].n_received, (unsigned long long)t[1].n_sent, t[0].why,
                 (unsigned long long)t[1].n_received, (unsigned long long)t[0].n_sent, t[1].why);
}

/* Both ends exchange messages until all faults have happened; every message must arrive once, in order, and
 * unchanged. */
static void run_traffic(struct traffic k)
{
    struct pair p;
    struct fault_proxy proxy;
    struct send_pools send_pools = {0};
    atomic_int may_stop = 0, n_ready = 0;
    struct traffic_end t[2];
    pthread_t thread[2];
    double deadline = clock_now() + (k.seconds > 0 ? k.seconds : TRAFFIC_S);

    k.plan.seed = fault_seed();
    pair_prepare(&p);
    for (int i = 0; i < 2; i++)
        p.o[i].cfg.address.tls = k.tls;
    fault_proxy_open(&proxy, p.port, &k.plan);
    p.o[1].peers[0].port = proxy.port;
    pair_run(&p);
    if (k.has_shared_memory)
        send_pools_open(&send_pools, (struct mesh *[]){p.o[0].mesh, p.o[1].mesh}, 2);
    proxy.is_on = true;
    for (int i = 0; i < 2; i++) {
        t[i] = (struct traffic_end){.m = p.o[i].mesh,
                                    .to = !i,
                                    .may_stop = &may_stop,
                                    .n_ready = &n_ready,
                                    .n_least = k.n_messages ? k.n_messages : 40,
                                    .n_promised = UINT64_MAX,
                                    .ahead = k.ahead ? k.ahead : UINT32_MAX,
                                    .deadline = deadline};
        pthread_create(&thread[i], NULL, exchange_messages, &t[i]);
    }
    if (k.stalls)
        stall(&proxy);
    while (!has_happened(&k, &proxy) && clock_now() < deadline - 10)
        usleep(10000);
    may_stop = 1;
    for (int i = 0; i < 2; i++)
        pthread_join(thread[i], NULL);
    check_traffic(&k, &proxy, t);
    if (k.seconds > 0)
        print_message("# %d flipped bits in %llu messages over %d connections, and no message changed\n",
                      proxy.n[FAULT_FLIP], (unsigned long long)(t[0].n_received + t[1].n_received),
                      proxy.n_connections);
    pair_close(&p);
    send_pools_close(&send_pools);
    fault_proxy_close(&proxy);
}

/* PSGD_SOAK_FLIPS=1000000 (make soak): so many; LONG=1: 1,000. */
TEST(no_flipped_bit_changes_a_message)
{
    const char *soak = getenv("PSGD_SOAK_FLIPS");
    int n = soak ? atoi(soak) : unit_is_long() ? 1000 : 150;

    run_traffic((struct traffic){.plan = {.every = {[FAULT_FLIP] = 10000}},
                                 .tls = MESH_TLS_OFF,
                                 .n_least = {[FAULT_FLIP] = n},
                                 .ahead = 16,
                                 .seconds = soak ? TRAFFIC_S + n / 100.0 : 0});
    run_traffic((struct traffic){.plan = {.every = {[FAULT_FLIP] = 20000}},
                                 .tls = MESH_TLS_ON,
                                 .n_least = {[FAULT_FLIP] = unit_is_long() ? 300 : 50}});
}

TEST(every_message_arrives_once_under_all_faults_combined)
{
    static const struct fault_plan plan = {.every = {[FAULT_FLIP] = 50000,
                                                     [FAULT_REPEAT] = 50000,
                                                     [FAULT_CUT] = 200000,
                                                     [FAULT_RESET] = 100000,
                                                     [FAULT_HALF_CLOSE] = 100000},
                                           .jitter = 0.002};
    int n = unit_is_long() ? 10 : 3;

    for (enum mesh_tls tls = MESH_TLS_ON; tls <= MESH_TLS_OFF; tls++)
        run_traffic((struct traffic){.plan = plan, .tls = tls, .n_least = {2 * n, 2 * n, n, n, n}});
    if (sealed_memory_exists())
        run_traffic((struct traffic){.plan = plan,
                                     .tls = MESH_TLS_OFF,
                                     .has_shared_memory = true,
                                     .n_least = {2 * n, 2 * n, n, n, n}});
}

/* The length of a TLS record is used before the record is complete: the reader would wait for bytes that
 * are never sent. */
TEST(a_flipped_bit_in_the_length_of_a_record_delays_its_message)
{
    struct fault_proxy proxy;
    struct mesh_event ev;
    struct pair p;
    struct err e = {0};
    double end;

    pair_prepare(&p);
    for (int i = 0; i < 2; i++)
        p.o[i].cfg.address.tls = MESH_TLS_ON;
    fault_proxy_open(&proxy, p.port, &(struct fault_plan){0});
    p.o[1].peers[0].port = proxy.port;
    pair_run(&p);
    proxy.flip_in[0] = 4;
    send_bytes(p.o[1].mesh, 0, 7, 300, 1);
    end = clock_now() + MESH_TIMEOUT_S;
    do {
        assert_ok(mesh_poll(p.o[1].mesh, &ev, clock_now() + 0.005, &e));
        assert_ok(mesh_poll(p.o[0].mesh, &ev, clock_now() + 0.005, &e));
    } while (ev.kind == MESH_NOTHING && clock_now() < end);
    assert_int_equal(proxy.n[FAULT_FLIP], 1);
    assert_int_equal(ev.kind, MESH_MESSAGE);
    assert_int_equal(ev.head.round, 7);
    mesh_buf_put(ev.buf);
    pair_close(&p);
    fault_proxy_close(&proxy);
}

TEST(every_message_arrives_byte_by_byte)
{
    run_traffic((struct traffic){.plan = {.one_byte_reads = true}, .tls = MESH_TLS_OFF, .n_messages = 10});
    run_traffic((struct traffic){.plan = {.one_byte_reads = true}, .tls = MESH_TLS_ON, .n_messages = 10});
}

TEST(a_slow_and_jittery_path_has_no_effect)
{
    run_traffic((struct traffic){.plan = {.delay = 0.05, .jitter = 0.05}, .tls = MESH_TLS_OFF});
    run_traffic((struct traffic){.plan = {.delay = 0.05, .jitter = 0.05}, .tls = MESH_TLS_ON});
}

/* More messages than a sender keeps: it has to wait for the reader. */
TEST(a_slow_reader_has_no_effect)
{
    run_traffic((struct traffic){.plan = {.rate = 2e6}, .tls = MESH_TLS_OFF, .n_messages = 1000});
    run_traffic((struct traffic){.plan = {.rate = 2e6}, .tls = MESH_TLS_ON, .n_messages = 1000});
}

TEST(a_connection_that_stalls_for_seconds_has_no_effect)
{
    run_traffic((struct traffic){.tls = MESH_TLS_ON, .stalls = true});
}

/* During a long step a node does not poll: that does not count as silence of the peer. */
TEST(a_broken_connection_during_a_long_step_loses_no_node)
{
    struct pair p;
    struct fault_proxy proxy;
    struct mesh_event ev;
    struct err e = {0};

    pair_prepare(&p);
    fault_proxy_open(&proxy, p.port, &(struct fault_plan){.every = {[FAULT_CUT] = 1}});
    p.o[1].peers[0].port = proxy.port;
    pair_run(&p);
    proxy.is_on = true;
    send_bytes(p.o[1].mesh, 0, 7, 10, 1);
    while (proxy.n[FAULT_CUT] == 0)
        usleep(1000);
    for (int i = 0; i < 2; i++) /* both notice */
        assert_ok(mesh_poll(p.o[i].mesh, &ev, clock_now() + 0.01, &e));
    proxy.is_on = false;
    usleep(10000000);
    for (double end = clock_now() + MESH_TIMEOUT_S; ev.kind == MESH_NOTHING && clock_now() < end;) {
        assert_ok(mesh_poll(p.o[1].mesh, &ev, clock_now() + 0.001, &e));
        assert_int_equal(ev.kind, MESH_NOTHING);
        assert_ok(mesh_poll(p.o[0].mesh, &ev, clock_now() + 0.001, &e));
    }
    assert_int_equal(ev.kind, MESH_MESSAGE);
    assert_int_equal(ev.head.round, 7);
    mesh_buf_put(ev.buf);
    pair_close(&p);
    fault_proxy_close(&proxy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_flipped_bit_changes_a_message),
        cmocka_unit_test(every_message_arrives_once_under_all_faults_combined),
        cmocka_unit_test(a_flipped_bit_in_the_length_of_a_record_delays_its_message),
        cmocka_unit_test(every_message_arrives_byte_by_byte),
        cmocka_unit_test(a_slow_and_jittery_path_has_no_effect),
        cmocka_unit_test(a_slow_reader_has_no_effect),
        cmocka_unit_test(a_connection_that_stalls_for_seconds_has_no_effect),
        cmocka_unit_test(a_broken_connection_during_a_long_step_loses_no_node),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
