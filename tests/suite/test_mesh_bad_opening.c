/* Opening links over a bad path and beside many unauthenticated connections. */
#include "tests/unit/unit.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "shared/base/clock.h"
#include "shared/base/flag.h"
#include "tests/lib/fault_proxy.h"
#include "tests/lib/mesh_nodes.h"

enum { N_UNPROVEN = 900, UNPROVEN_PAUSE_US = 200 };

struct opener {
    struct opening *o;
    atomic_bool is_done;
};

static void *run_opener(void *arg)
{
    struct opener *opener = arg;

    opening_run_one(opener->o);
    opener->is_done = true;
    return NULL;
}

/* Node 1 connects to node 0 through the proxy. The node that is linked first polls meanwhile, as a node
 * whose job has begun does. */
static void open_through(struct pair *p, struct fault_proxy *proxy)
{
    static atomic_bool is_over;
    struct opener openers[2] = {{.o = &p->o[0]}, {.o = &p->o[1]}};
    pthread_t threads[2];

    is_over = false;
    p->o[1].peers[0].port = proxy->port;
    for (int i = 0; i < 2; i++) {
        p->o[i].cfg.spec.interrupted = &is_over;
        pthread_create(&threads[i], NULL, run_opener, &openers[i]);
    }
    while (!openers[0].is_done || !openers[1].is_done)
        for (int i = 0; i < 2; i++) {
            struct mesh_event ev;
            struct err e = {0};

            if (openers[i].is_done && !p->o[i].mesh)
                flag_raise(&is_over); /* the other one would wait in vain */
            if (!openers[i].is_done || !p->o[i].mesh)
                usleep(1000);
            else if (!openers[!i].is_done)
                assert_ok(mesh_poll(p->o[i].mesh, &ev, clock_now() + 0.005, &e));
        }
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
}

/* Both send a message and receive the other's. */
static void assert_they_exchange_messages(struct pair *p)
{
    struct mesh_event received[2] = {{.kind = MESH_NOTHING}, {.kind = MESH_NOTHING}};

    for (int i = 0; i < 2; i++)
        send_bytes(p->o[i].mesh, !i, 7, 100, i + 1);
    for (double end = clock_now() + MESH_TIMEOUT_S;
         clock_now() < end && !(received[0].buf && received[1].buf);)
        for (int i = 0; i < 2;
             i++) { /* also a node that has received: the connection may have to be made again */
            struct mesh_event ev;
            struct err e = {0};

            assert_ok(mesh_poll(p->o[i].mesh, &ev, clock_now() + 0.005, &e));
            if (ev.kind != MESH_NOTHING)
                received[i] = ev;
        }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(received[i].kind, MESH_MESSAGE);
        assert_int_equal(received[i].buf->bytes[99], !i + 1);
        mesh_buf_put(received[i].buf);
    }
}

static void open_with_a_flip(enum mesh_tls tls, int side, int at)
{
    struct fault_proxy proxy;
    struct pair p;

    pair_prepare(&p);
    for (int i = 0; i < 2; i++)
        p.o[i].cfg.address.tls = tls;
    fault_proxy_open(&proxy, p.port, &(struct fault_plan){0});
    proxy.flip_in[side] = at;
    open_through(&p, &proxy);
    for (int i = 0; i < 2; i++)
        if (!p.o[i].mesh)
            fail_msg("byte %d of side %d, TLS %d: node %d: %s", at, side, (int)tls, i, p.o[i].e.text);
    assert_they_exchange_messages(&p);
    assert_int_equal(proxy.n[FAULT_FLIP], 1);
    pair_close(&p);
    fault_proxy_close(&proxy);
}

/* Without TLS each end sends 176 bytes: a hello, then challenge or proof. */
TEST(a_flipped_bit_in_the_first_handshake_does_not_end_the_job)
{
    for (int side = 0; side < 2; side++) {
        for (int at = 1; at <= 176; at += 8)
            open_with_a_flip(MESH_TLS_OFF, side, at);
        for (int at = 1; at <= 480; at += 32)
            open_with_a_flip(MESH_TLS_ON, side, at);
    }
}

/* A permanent refusal is not retried until the deadline. */
TEST(a_wrong_key_ends_opening_at_the_second_refusal)
{
    struct fault_proxy proxy;
    struct pair p;

    pair_prepare(&p);
    p.o[1].peers[0].key[3] ^= 1;
    fault_proxy_open(&proxy, p.port, &(struct fault_plan){0});
    open_through(&p, &proxy);
    assert_null(p.o[1].mesh);
    assert_int_equal(p.o[1].e.code, ERR_AUTH);
    assert_int_equal(proxy.n_connections, 2);
    fault_proxy_close(&proxy);
}

struct unproven {
    int port, fds[N_UNPROVEN];
    int n;
    atomic_bool is_over;
};

/* Unauthenticated clients that connect, one after the other, send nothing and stay. */
static void *connect_unproven(void *arg)
{
    struct unproven *c = arg;

    for (; c->n < N_UNPROVEN && !c->is_over; c->n++) {
        c->fds[c->n] = connect_to(c->port);
        usleep(UNPROVEN_PAUSE_US);
    }
    return NULL;
}

/* Its hello takes so long that a hundred unauthenticated connections precede it. */
TEST(many_unauthenticated_connections_do_not_keep_a_job_from_opening)
{
    struct fault_proxy proxy;
    struct pair p;
    struct unproven unproven = {0};
    pthread_t thread;

    pair_prepare(&p);
    fault_proxy_open(&proxy, p.port, &(struct fault_plan){.delay = 0.05});
    unproven.port = p.port;
    pthread_create(&thread, NULL, connect_unproven, &unproven);
    open_through(&p, &proxy);
    unproven.is_over = true;
    pthread_join(thread, NULL);
    for (int i = 0; i < 2; i++)
        if (!p.o[i].mesh)
            fail_msg("node %d: %s", i, p.o[i].e.text);
    print_message("# opened with connection %d, beside %d unauthenticated ones\n", proxy.n_connections,
                  unproven.n);
    assert_they_exchange_messages(&p);
    pair_close(&p);
    fault_proxy_close(&proxy);
    for (int i = 0; i < unproven.n; i++)
        close(unproven.fds[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_flipped_bit_in_the_first_handshake_does_not_end_the_job),
        cmocka_unit_test(a_wrong_key_ends_opening_at_the_second_refusal),
        cmocka_unit_test(many_unauthenticated_connections_do_not_keep_a_job_from_opening),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
