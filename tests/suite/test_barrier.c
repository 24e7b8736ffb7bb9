/* Barriers of asynchronous jobs with servers: the servers' parameters are every worker's result, no node
 * continues before all have arrived, and frames that a correct node never sends are refused. */
#include "tests/unit/unit.h"

#include "runner/exchange/barrier.h"
#include "runner/exchange/exchange_private.h"
#include "runner/exchange/exchange_state.h"
#include "runner/exchange/exchange_step.h"
#include "shared/base/file.h"
#include "tests/lib/run_well.h"

enum { N_PARAMS = 26, WORKERS = 3, SERVER = WORKERS /* slot */ };

static void assert_has_result(const struct cluster *c, int worker)
{
    const struct cluster_node *n = &c->nodes[worker];
    float model[N_PARAMS];

    if (!exchange_model(n->x, model))
        memcpy(model, n->params, sizeof model);
    for (int s = 0; s < c->cfg.n_servers; s++) {
        size_t from = collective_slice(N_PARAMS, s, c->cfg.n_servers);
        size_t to = collective_slice(N_PARAMS, s + 1, c->cfg.n_servers);
        const float *theirs = c->nodes[c->cfg.n_workers + s].params;

        assert_memory_equal(model + from, theirs + from, (to - from) * sizeof *model);
    }
}

TEST(every_worker_ends_with_the_servers_parameters)
{
    static const struct cluster_config cases[] = {
        {.codec = "ps"},
        {.codec = "dc_asgd"},
        {.codec = "dc_qsgd"},
        {.codec = "sync_replicas", .options = "backups=1"},
        {.codec = "downpour", .options = "n_push=2,n_fetch=4"},
        {.codec = "asgd", .local_steps = 3},
        {.codec = "easgd", .local_steps = 2},
        {.codec = "easgd_grad", .local_steps = 2},
        {.codec = "fedavg", .local_steps = 5, .goes_on = 2},
    };

    for (size_t k = 0; k < N_OF(cases); k++)
        for (uint64_t seed = 1; seed <= 6; seed++) {
            struct cluster_config cfg = cases[k];
            struct cluster c;

            cfg.seed = seed;
            cfg.n_workers = 3;
            cfg.n_servers = 1 + (int)seed % 3;
            cfg.n_params = N_PARAMS;
            cfg.n_steps = 11;
            cfg.is_asgd = true;
            run_well(&c, &cfg);
            for (int w = 0; w < cfg.n_workers; w++)
                assert_has_result(&c, w);
            cluster_close(&c);
        }
}

TEST(workers_keep_their_own_where_the_servers_hold_no_model)
{
    struct cluster c;

    run_well(&c, &(struct cluster_config){.codec = "dummy",
                                          .n_workers = WORKERS,
                                          .n_servers = 1,
                                          .is_asgd = true,
                                          .n_steps = 3,
                                          .n_params = N_PARAMS});
    assert_memory_not_equal(c.nodes[0].params, c.nodes[1].params, N_PARAMS * sizeof(float));
    assert_memory_not_equal(c.nodes[0].params, c.nodes[SERVER].params, N_PARAMS * sizeof(float));
    cluster_close(&c);
}

/* A job of ps with a server, which the test drives by hand. */
struct bench {
    struct cluster c;
    struct exchange *workers[WORKERS], *server;
    double now;
};

static void open_bench(struct bench *b, int goes_on)
{
    *b = (struct bench){.now = 100};
    cluster_open(&b->c, &(struct cluster_config){.codec = "ps",
                                                 .n_workers = WORKERS,
                                                 .n_servers = 1,
                                                 .goes_on = goes_on,
                                                 .is_asgd = true,
                                                 .n_steps = 10,
                                                 .n_params = N_PARAMS});
    for (int i = 0; i <= SERVER; i++)
        b->c.nodes[i].x->watch->time = &b->now;
    for (int w = 0; w < WORKERS; w++)
        b->workers[w] = b->c.nodes[w].x;
    b->server = b->c.nodes[SERVER].x;
}

/* Passes everything that has been sent to that node. Returns the result of the last event; *n: how many. */
static int receive(struct bench *b, int slot, int *n, struct err *e)
{
    struct mesh_event ev;
    int rc = CODEC_GO;

    *n = 0;
    while (rc >= 0 && mesh_poll(b->c.nodes[slot].mesh, &ev, 0, e) == 0 && ev.kind != MESH_NOTHING) {
        rc = exchange_on_event(b->c.nodes[slot].x, &ev, e);
        ++*n;
    }
    return rc;
}

static void assert_receives(struct bench *b, int slot, int n, int rc)
{
    struct err e = {0};
    int n_received;

    assert_int_equal(receive(b, slot, &n_received, &e), rc);
    assert_int_equal(n_received, n);
}

static void reach(struct bench *b, int worker, enum barrier_kind kind, uint64_t epoch)
{
    struct err e = {0};

    assert_int_equal(barrier_reach(b->workers[worker], kind, epoch, &e), CODEC_WAIT);
    assert_true(barrier_waits(b->workers[worker]));
    assert_receives(b, SERVER, 1, CODEC_GO);
}

static bool is_reached(const struct bench *b, enum barrier_kind kind, uint64_t epoch)
{
    enum barrier_kind has_kind;
    uint64_t has_epoch;

    return barrier_is_reached(b->server, &has_kind, &has_epoch) && has_kind == kind && has_epoch == epoch;
}

static void release(struct bench *b)
{
    struct err e = {0};

    assert_int_equal(barrier_release(b->server, &e), CODEC_GO);
}

TEST(a_worker_waits_until_all_have_completed_the_epoch)
{
    struct bench b;

    open_bench(&b, 0);
    for (int w = WORKERS - 1; w >= 0; w--) {
        release(&b); /* has no effect yet */
        assert_receives(&b, WORKERS - 1, 0, CODEC_GO);
        reach(&b, w, BARRIER_POINT, 3);
    }
    assert_true(is_reached(&b, BARRIER_POINT, 3));
    assert_receives(&b, 0, 0, CODEC_GO); /* only when the server has saved its state */
    release(&b);
    for (int w = 0; w < WORKERS; w++) {
        assert_receives(&b, w, 1, CODEC_GO);
        assert_false(barrier_waits(b.workers[w]));
    }
    cluster_close(&b.c);
}

TEST(no_node_waits_for_a_worker_that_has_ended_and_it_gets_the_result_last)
{
    struct bench b;

    open_bench(&b, 0);
    reach(&b, 0, BARRIER_END, 1);
    reach(&b, 1, BARRIER_POINT, 2);
    reach(&b, 2, BARRIER_POINT, 2);
    assert_true(is_reached(&b, BARRIER_POINT, 2));
    release(&b);
    assert_receives(&b, 0, 0, CODEC_GO);
    assert_receives(&b, 1, 1, CODEC_GO);
    assert_receives(&b, 2, 1, CODEC_GO);
    reach(&b, 1, BARRIER_END, 4);
    reach(&b, 2, BARRIER_END, 3);
    assert_true(is_reached(&b, BARRIER_END, 1));
    b.c.nodes[SERVER].params[5] = 77;
    release(&b);
    for (int w = 0; w < WORKERS; w++) {
        assert_receives(&b, w, 1, CODEC_GO);
        assert_has_result(&b.c, w);
        assert_true(b.c.nodes[w].params[5] == 77);
    }
    assert_false(exchange_is_over(b.server)); /* the workers are still there */
    cluster_close(&b.c);
}

/* An event of worker 0 at the server. */
static int lose_worker_0(struct bench *b, struct err *e)
{
    struct mesh_event ev = {.kind = MESH_LOST, .head.peer = 0, .why = "it was killed"};

    return exchange_on_event(b->server, &ev, e);
}

TEST(a_worker_that_is_lost_at_a_barrier_ends_the_job_or_is_no_longer_waited_for)
{
    static const enum barrier_kind kinds[] = {BARRIER_POINT, BARRIER_END};

    for (size_t k = 0; k < N_OF(kinds); k++)
        for (int goes_on = 0; goes_on <= 1; goes_on++) {
            struct err e = {0};
            struct bench b;

            open_bench(&b, goes_on);
            reach(&b, 0, kinds[k], 1);
            assert_int_equal(lose_worker_0(&b, &e), goes_on ? CODEC_GO : ERR_LOST);
            if (!goes_on)
                assert_error_has("node 0 is lost: it was killed");
            reach(&b, 1, BARRIER_END, 1);
            reach(&b, 2, BARRIER_END, 1);
            assert_true(is_reached(&b, BARRIER_END, 1));
            cluster_close(&b.c);
        }
}

/* Worker w sends a gradient, and the server its reply. */
static void train(struct bench *b, int w)
{
    struct err e = {0};

    assert_int_equal(exchange_on_grad(b->workers[w], 10, &e), CODEC_WAIT);
    assert_receives(b, SERVER, 1, CODEC_GO);
    assert_receives(b, w, 1, CODEC_GO);
}

/* Whether the server sends BARRIER_UNDER_WAY to worker 0, which waits at the barrier. */
static bool is_told(struct bench *b)
{
    struct err e = {0};
    int n;

    assert_int_equal(barrier_send_under_way(b->server, 1, &e), CODEC_GO);
    assert_in_range(receive(b, 0, &n, &e), CODEC_GO, CODEC_WAIT);
    assert_in_range(n, 0, 1);
    return n == 1;
}

TEST(waiting_nodes_learn_which_nodes_compute_and_name_the_silent_one)
{
    struct bench b;
    struct err e = {0};

    open_bench(&b, 0);
    assert_int_equal(stall_awaits(b.server), STALL_NO_NODE);
    reach(&b, 0, BARRIER_END, 1);
    assert_int_equal(stall_awaits(b.workers[0]), -2);
    assert_false(is_told(&b));
    train(&b, 1);
    assert_false(is_told(&b)); /* 2 has sent nothing */
    assert_int_equal(stall_awaits(b.server), 2);
    assert_int_equal(barrier_send_computing(b.workers[2], 1, &e), CODEC_GO);
    assert_receives(&b, SERVER, 1, CODEC_GO);
    assert_true(is_told(&b));
    b.now += 0.5;
    train(&b, 1);
    train(&b, 2);
    assert_false(is_told(&b)); /* not so soon again */
    b.now += 0.5;
    assert_true(is_told(&b));
    /* Worker 2 hangs while worker 1 continues. */
    for (int i = 0; i < 9; i++) {
        b.now += 1;
        train(&b, 1);
        assert_false(is_told(&b));
        assert_int_equal(stall_awaits(b.server), 2);
    }
    stall_send_wait(b.server, &e);
    assert_receives(&b, 0, 1, CODEC_WAIT);
    assert_int_equal(stall_blocking_node(b.workers[0], 8), 2);
    barrier_drop_silent(b.server, 5); /* no node, in a job that ends with a lost node */
    assert_receives(&b, SERVER, 0, CODEC_GO);
    cluster_close(&b.c);
}

TEST(a_job_that_continues_drops_the_silent_node_while_others_wait)
{
    struct bench b;

    open_bench(&b, 2);
    train(&b, 2);
    b.now += 9;
    barrier_drop_silent(b.server, 5); /* nobody waits */
    reach(&b, 0, BARRIER_END, 1);
    barrier_drop_silent(b.server, 5); /* not for long */
    b.now += 4;
    train(&b, 1);
    barrier_drop_silent(b.server, 5);
    assert_receives(&b, SERVER, 0, CODEC_GO);
    b.now += 2;
    barrier_drop_silent(b.server, 5);
    assert_receives(&b, SERVER, 1, CODEC_GO);
    assert_true(channel_has_left(exchange_channel(b.server, 0), 2));
    assert_false(channel_has_left(exchange_channel(b.server, 0), 1));
    reach(&b, 1, BARRIER_END, 1);
    assert_true(is_reached(&b, BARRIER_END, 1));
    cluster_close(&b.c);
}

/* The staleness that the server records of the next gradient of worker 1. */
static double staleness(struct bench *b)
{
    train(b, 1);
    return b->c.nodes[SERVER].record.value;
}

TEST(a_checkpoint_at_a_barrier_is_one_state_of_all_nodes)
{
    struct bench b, rest;
    const char *folder = unit_folder();
    char path[256];
    struct err e = {0};

    open_bench(&b, 0);
    train(&b, 1);
    for (int i = 0; i < 4; i++)
        train(&b, i % WORKERS);
    train(&b, 2);
    for (int w = 0; w < WORKERS; w++)
        reach(&b, w, BARRIER_POINT, 1);
    open_bench(&rest, 0);
    assert_ok(file_join(path, sizeof path, folder, "state.safetensors", &e));
    for (int i = 0; i <= SERVER; i++) {
        struct exchange_state s;
        struct tensor_file f;

        assert_ok(exchange_save(&s, b.c.nodes[i].x, 0, &e));
        assert_ok(tensor_file_write(path, s.tensors, s.n, NULL, &e));
        exchange_state_clear(&s);
        assert_ok(tensor_file_open(&f, path, &e));
        assert_ok(exchange_restore(rest.c.nodes[i].x, &f, 0, &e));
        tensor_file_close(&f);
        memcpy(rest.c.nodes[i].params, b.c.nodes[i].params, N_PARAMS * sizeof(float));
    }
    release(&b);
    for (int w = 0; w < WORKERS; w++)
        assert_receives(&b, w, 1, CODEC_GO);
    assert_true(staleness(&b) == 3);
    assert_true(staleness(&rest) == 3);
    assert_memory_equal(b.c.nodes[SERVER].params, rest.c.nodes[SERVER].params, N_PARAMS * sizeof(float));
    assert_memory_equal(b.c.nodes[1].params, rest.c.nodes[1].params, N_PARAMS * sizeof(float));
    cluster_close(&b.c);
    cluster_close(&rest.c);
    unit_remove(folder);
}

struct forged {
    struct mesh_head head;
    size_t len;
};

static int forge(struct bench *b, int slot, const struct forged *f, struct err *e)
{
    struct mesh_event ev = {
        .kind = MESH_MESSAGE, .head = f->head, .buf = mesh_buf_take(b->c.nodes[slot].mesh)};

    memset(ev.buf->bytes, 0, f->len);
    ev.buf->len = f->len;
    ev.head.kind = FRAME_BARRIER;
    return exchange_on_event(b->c.nodes[slot].x, &ev, e);
}

TEST(a_barrier_that_a_correct_node_never_sends_is_refused)
{
    static const struct forged to_server[] = {
        {{.peer = 0, .index = BARRIER_POINT, .round = 4}, 0}, /* it waits already */
        {{.peer = 0, .index = BARRIER_COMPUTES}, 0},
        {{.peer = 1, .index = BARRIER_UNDER_WAY, .round = 4}, 0},
        {{.peer = 1, .index = BARRIER_COMPUTES}, 1},
        {{.peer = 1, .index = BARRIER_KINDS, .round = 4}, 0},
        {{.peer = 1, .index = BARRIER_END, .round = 4}, 4},
        {{.peer = 1, .index = BARRIER_POINT, .channel = 1, .round = 4}, 0},
    };
    static const struct forged to_worker[] = {
        {{.peer = -2, .index = BARRIER_POINT, .round = 4}, 0}, /* it is at another one */
        {{.peer = -2, .index = BARRIER_END, .round = 3}, sizeof(float) * N_PARAMS},
        {{.peer = -2, .index = BARRIER_END, .round = 4}, sizeof(float) * N_PARAMS - 1},
        {{.peer = -2, .index = BARRIER_END, .channel = 1, .round = 4}, sizeof(float) * N_PARAMS},
        {{.peer = -2, .index = BARRIER_UNDER_WAY, .round = 4}, 1},
        {{.peer = 1, .index = BARRIER_END, .round = 4}, sizeof(float) * N_PARAMS},
    };
    static const struct forged back = {{.peer = 1, .index = BARRIER_POINT, .round = 1}, 0};
    struct err e = {0};
    struct bench b;
    int n;

    for (size_t k = 0; k < N_OF(to_server); k++)
        for (int goes_on = 0; goes_on <= 1; goes_on++) {
            open_bench(&b, goes_on);
            reach(&b, 0, BARRIER_POINT, 4);
            assert_int_equal(forge(&b, SERVER, &to_server[k], &e), goes_on ? CODEC_GO : ERR_PROTOCOL);
            assert_receives(&b, SERVER, goes_on, CODEC_GO); /* only its sender is lost */
            cluster_close(&b.c);
        }
    for (size_t k = 0; k < N_OF(to_worker); k++) {
        open_bench(&b, 0);
        reach(&b, 0, BARRIER_END, 4);
        assert_int_equal(forge(&b, 0, &to_worker[k], &e), ERR_PROTOCOL);
        assert_int_equal(forge(&b, 1, &to_worker[k], &e), ERR_PROTOCOL); /* it is at none */
        cluster_close(&b.c);
    }
    open_bench(&b, 0);
    for (int w = 0; w < WORKERS; w++)
        reach(&b, w, BARRIER_POINT, 2);
    release(&b);
    assert_int_equal(forge(&b, SERVER, &back, &e), ERR_PROTOCOL); /* epochs do not decrease */
    cluster_close(&b.c);
    open_bench(&b, 0); /* a worker that waits sends nothing */
    assert_int_equal(exchange_on_grad(b.workers[1], 10, &e), CODEC_WAIT);
    assert_int_equal(barrier_reach(b.workers[0], BARRIER_POINT, 1, &e), CODEC_WAIT);
    assert_int_equal(exchange_on_grad(b.workers[0], 10, &e), CODEC_WAIT);
    assert_int_equal(receive(&b, SERVER, &n, &e), ERR_PROTOCOL);
    assert_error_has("node 0 waits at a barrier and sent a message");
    cluster_close(&b.c);
}

TEST(a_synchronous_job_has_no_barriers)
{
    static const struct forged f = {{.peer = 0, .index = BARRIER_END, .round = 1}, 0};
    struct err e = {0};
    struct bench b = {.now = 1};

    cluster_open(
        &b.c, &(struct cluster_config){
                  .codec = "ps", .n_workers = WORKERS, .n_servers = 1, .n_steps = 10, .n_params = N_PARAMS});
    assert_false(barrier_is_used(b.c.nodes[SERVER].x));
    assert_int_equal(forge(&b, SERVER, &f, &e), ERR_PROTOCOL);
    assert_error_has("this job has none");
    cluster_close(&b.c);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_worker_ends_with_the_servers_parameters),
        cmocka_unit_test(workers_keep_their_own_where_the_servers_hold_no_model),
        cmocka_unit_test(a_worker_waits_until_all_have_completed_the_epoch),
        cmocka_unit_test(no_node_waits_for_a_worker_that_has_ended_and_it_gets_the_result_last),
        cmocka_unit_test(a_worker_that_is_lost_at_a_barrier_ends_the_job_or_is_no_longer_waited_for),
        cmocka_unit_test(waiting_nodes_learn_which_nodes_compute_and_name_the_silent_one),
        cmocka_unit_test(a_job_that_continues_drops_the_silent_node_while_others_wait),
        cmocka_unit_test(a_checkpoint_at_a_barrier_is_one_state_of_all_nodes),
        cmocka_unit_test(a_barrier_that_a_correct_node_never_sends_is_refused),
        cmocka_unit_test(a_synchronous_job_has_no_barriers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
