/* What a worker does between its steps, over a mesh made to be difficult. */
#include "tests/unit/unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runner/collective/collective.h"
#include "runner/exchange/exchange_private.h"
#include "runner/exchange/stall.h"
#include "runner/node.h"
#include "shared/base/clock.h"
#include "tests/lib/cluster.h"

enum { N_PARAMS = 8 };

/* A mesh of worker 0 in which worker 1 always has another message, or sends nothing and reads nothing. */
struct odd_mesh {
    struct mesh mesh;
    bool floods;
    size_t queued;
    int n_polls;
    double longest;                /* the longest wait requested of a poll */
    const struct mesh_event *next; /* the only event; NULL: none */
};

static int odd_send(struct mesh *m, const struct mesh_head *h, const void *bytes, size_t len,
                    struct mesh_buf *b, struct err *e)
{
    (void)m, (void)h, (void)bytes, (void)len, (void)b, (void)e;
    return 0;
}

static int odd_poll(struct mesh *m, struct mesh_event *out, double deadline, struct err *e)
{
    struct odd_mesh *o = (struct odd_mesh *)m;
    double wait = deadline - clock_now();

    o->longest = wait > o->longest ? wait : o->longest;
    *out = (struct mesh_event){.kind = MESH_NOTHING};
    if (o->next) {
        *out = *o->next;
        o->next = NULL;
    }
    if (!o->floods)
        return 0;
    *out = (struct mesh_event){
        .kind = MESH_MESSAGE,
        .head = {.kind = FRAME_CONTRIBUTION, .peer = 1, .index = 1, .round = (uint64_t)o->n_polls},
        .buf = mesh_buf_take(m)};
    out->buf->len = sizeof(float) * N_PARAMS;
    if (++o->n_polls == 10000000)
        return err_set(e, ERR_INTERNAL, "the node polls without end");
    return 0;
}

static size_t odd_queued(const struct mesh *m)
{
    return ((const struct odd_mesh *)m)->queued;
}

static size_t odd_queued_for(const struct mesh *m, int node)
{
    return node == 1 ? odd_queued(m) : 0;
}

static const struct mesh_ops odd_ops = {
    .send = odd_send, .poll = odd_poll, .queued = odd_queued, .queued_for = odd_queued_for};

/* Worker 0 of two, in the middle of a job with this codec. */
struct bench {
    struct node node;
    struct report report;
    struct odd_mesh mesh;
    struct mesh_pool pool;
    struct cluster c;
};

static void open_bench(struct bench *b, const char *codec, bool is_asgd)
{
    *b = (struct bench){
        .mesh.mesh = {.ops = &odd_ops, .pool = &b->pool}, .pool.limit = 1024, .report.fd = -1};
    cluster_open(
        &b->c, &(struct cluster_config){
                   .codec = codec, .n_workers = 2, .is_asgd = is_asgd, .n_steps = 10, .n_params = N_PARAMS});
    b->node.exchange = b->c.nodes[0].x;
    b->node.mesh = &b->mesh.mesh;
    b->node.report = &b->report;
    b->node.n_peers = 1;
    b->node.set.round_timeout_s = 0.1;
    exchange_attach(b->node.exchange, b->node.mesh, NULL);
    worker_open(&b->node.worker, &(struct worker_config){.set = &b->c.set,
                                                         .exchange = b->node.exchange,
                                                         .step = &b->c.nodes[0].step,
                                                         .blocks = b->c.nodes[0].blocks});
}

static void close_bench(struct bench *b)
{
    exchange_detach(b->node.exchange);
    mesh_pool_clear(&b->pool);
    cluster_close(&b->c);
}

TEST(a_peer_that_sends_endlessly_does_not_keep_a_node_from_computing)
{
    struct bench b;
    struct err e = {0};

    open_bench(&b, "plain", true);
    b.mesh.floods = true;
    assert_ok(node_catch_up(&b.node, &e));
    assert_in_range(b.mesh.n_polls, EXCHANGE_BACKLOG_MAX, 100);
    close_bench(&b);
}

/* Between layers nothing of a collective is awaited, and floods of messages arrive then too. */
TEST(receiving_between_layers_is_bounded)
{
    struct bench b;
    struct err e = {0};

    open_bench(&b, "plain", true);
    b.mesh.floods = true;
    assert_ok(node_receive(&b.node, &e));
    assert_in_range(b.mesh.n_polls, EXCHANGE_BACKLOG_MAX, 100);
    b.mesh.floods = false;
    b.mesh.queued = EXCHANGE_BACKLOG_MAX + 1; /* without waiting */
    assert_ok(node_receive(&b.node, &e));
    assert_true(b.mesh.longest <= 0);
    close_bench(&b);
}

TEST(a_peer_that_does_not_read_is_waited_for)
{
    struct bench b;
    struct err e = {0};

    open_bench(&b, "plain", true);
    b.mesh.queued = EXCHANGE_BACKLOG_MAX + 1;
    assert_int_equal(node_catch_up(&b.node, &e), ERR_TIMEOUT);
    assert_error_has("a peer has not accepted messages for 0.1 s");
    b.mesh.floods = true; /* and messages of the peer do not prolong it */
    assert_int_equal(node_catch_up(&b.node, &e), ERR_TIMEOUT);
    close_bench(&b);
}

/* It computes while they are in flight. */
TEST(doublebuffer_does_not_wait_for_chunks_to_be_received)
{
    struct bench b;
    struct err e = {0};

    open_bench(&b, "doublebuffer", false);
    b.mesh.queued = COLLECTIVE_QUEUE;
    assert_ok(node_catch_up(&b.node, &e));
    assert_true(b.mesh.longest <= 0);
    close_bench(&b);
}

/* While a training program has the turn. */

TEST(what_comes_while_a_program_computes_is_kept_in_its_order_and_bounded)
{
    bool is_full = false, came;
    struct err e = {0};
    struct bench b;

    open_bench(&b, "plain", true);
    b.mesh.floods = true;
    assert_ok(node_keep_events(&b.node, &is_full, &e));
    assert_true(is_full);
    assert_in_range(b.node.n_kept, EXCHANGE_BACKLOG_MAX, 100);
    for (size_t i = 0; i < b.node.n_kept; i++)
        assert_int_equal(b.node.kept[i].head.round, i);
    assert_true(b.mesh.longest <= 0);
    b.mesh.floods = false;
    assert_ok(node_pump(&b.node, 0, &came, &e));
    assert_true(came && b.node.first_kept == 1);
    assert_ok(node_catch_up(&b.node, &e));
    assert_int_equal(b.node.n_kept, 0);
    b.mesh.floods = true;
    assert_ok(node_keep_events(&b.node, &is_full, &e));
    node_drop_kept(&b.node);
    free(b.node.kept);
    close_bench(&b);
}

static int keep(struct bench *b, const struct mesh_event *ev, struct err *e)
{
    bool is_full;

    b->mesh.next = ev;
    return node_keep_events(&b->node, &is_full, e);
}

TEST(a_loss_and_a_wait_that_is_over_are_known_while_a_program_computes)
{
    const struct mesh_event lost = {.kind = MESH_LOST, .head.peer = 1, .why = "it has ended"};
    struct mesh_event waits = {.kind = MESH_MESSAGE, .head = {.kind = FRAME_WAIT, .peer = 1, .index = 0}};
    struct err e = {0};
    char waiting[64];
    struct bench b;

    open_bench(&b, "plain", true);
    assert_false(stall_list_waiting(b.node.exchange, 60, waiting, sizeof waiting));
    assert_ok(keep(&b, &waits, &e));
    assert_int_equal(b.node.n_kept, 0);
    assert_true(stall_list_waiting(b.node.exchange, 60, waiting, sizeof waiting));
    assert_string_equal(waiting, "node 1 waits");
    waits.head.round = 1; /* for too long */
    assert_int_equal(keep(&b, &waits, &e), ERR_TIMEOUT);
    assert_error_has("node 0, holds up the job: node 1 has waited for it too long");
    assert_int_equal(keep(&b, &lost, &e), ERR_LOST);
    assert_error_has("node 1 is lost: it has ended");
    close_bench(&b);
}

TEST(the_first_round_of_training_programs_may_take_ten_minutes)
{
    struct node_wait wait;
    struct bench b;

    open_bench(&b, "plain", false);
    node_wait_begin(&wait, &b.node, 1000);
    assert_true(fabs(wait.deadline - 1000.1) < 1e-9);
    strcpy(b.node.set.trainer, "train.py");
    node_wait_begin(&wait, &b.node, 1000);
    assert_true(fabs(wait.deadline - 1600) < 1e-9);
    exchange_set_rounds(b.node.exchange, 1);
    node_wait_begin(&wait, &b.node, 1000);
    assert_true(fabs(wait.deadline - 1000.1) < 1e-9);
    close_bench(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_peer_that_sends_endlessly_does_not_keep_a_node_from_computing),
        cmocka_unit_test(receiving_between_layers_is_bounded),
        cmocka_unit_test(a_peer_that_does_not_read_is_waited_for),
        cmocka_unit_test(doublebuffer_does_not_wait_for_chunks_to_be_received),
        cmocka_unit_test(what_comes_while_a_program_computes_is_kept_in_its_order_and_bounded),
        cmocka_unit_test(a_loss_and_a_wait_that_is_over_are_known_while_a_program_computes),
        cmocka_unit_test(the_first_round_of_training_programs_may_take_ten_minutes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
