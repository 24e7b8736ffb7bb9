/* Collectives over mesh_mem: long vectors, unexpected chunks, error messages. */
#include "tests/unit/unit.h"

#include <malloc.h>
#include <math.h>

#include "runner/collective/collective.h"
#include "tests/lib/mesh_mem.h"

/* glibc has it since 2.33; before, mallinfo's numbers are ints. */
#if defined __GLIBC__ && !__GLIBC_PREREQ(2, 33)
#define mallinfo2 mallinfo
#endif

enum { N_NODES = 3, CHUNK = COLLECTIVE_CHUNK / sizeof(float), N = 7 * CHUNK + 17 };

struct node {
    struct stopwatch watch;
    struct mesh *mesh;
    struct collective *c;
    float *in, *out[2];
    size_t n_sent, n_received;
    bool is_done;
};

static struct mesh_mem *net;
static struct node nodes[N_NODES];
static struct err e;

static int send_chunk(void *owner, const struct mesh_head *h, const void *bytes, size_t len)
{
    struct node *n = owner;

    n->n_sent += len;
    return mesh_send_view(n->mesh, h, bytes, len, &e);
}

static void received_chunk(void *owner, int from, size_t len)
{
    struct node *n = owner;

    assert_true(from >= 0 && from < N_NODES);
    n->n_received += len;
}

static enum mesh_sink_result chunk_sink(void *owner, const struct mesh_head *h, size_t len, void **at)
{
    return collective_sink(((struct node *)owner)->c, h, len, at);
}

static void open_all(enum collective_algorithm algorithm, uint64_t seed)
{
    net = mesh_mem_new(N_NODES, 0, 64, seed);
    for (int i = 0; i < N_NODES; i++) {
        struct node *n = &nodes[i];

        *n = (struct node){.mesh = mesh_mem_node(net, i)};
        assert_ok(collective_new(&n->c,
                                 &(struct collective_config){.n_nodes = N_NODES,
                                                             .me = i,
                                                             .algorithm = algorithm,
                                                             .send = send_chunk,
                                                             .received = received_chunk,
                                                             .watch = &n->watch,
                                                             .owner = n},
                                 &e));
        collective_attach(n->c, n->mesh, NULL);
        n->mesh->sink = chunk_sink;
        n->mesh->owner = n;
        n->in = calloc(3 * N, sizeof *n->in);
        n->out[0] = n->in + N;
        n->out[1] = n->in + 2 * N;
    }
}

static void close_all(void)
{
    for (int i = 0; i < N_NODES; i++)
        mesh_close(nodes[i].mesh, 0);
    mesh_mem_free(net);
    for (int i = 0; i < N_NODES; i++) {
        collective_free(nodes[i].c);
        free(nodes[i].in);
    }
}

static struct collective_request mean_of(struct node *n, int turn)
{
    return (struct collective_request){
        .kind = COLLECTIVE_ALL_REDUCE, .is_mean = true, .in = n->in, .out = n->out[turn % 2], .n = N};
}

static void begin(struct node *n, int turn)
{
    struct collective_request request = mean_of(n, turn);
    int rc;

    for (size_t i = 0; i < N; i++)
        n->in[i] = (float)((n - nodes) * 3 + (long)(i % 1000) + turn);
    rc = collective_start(n->c, &request, &e);
    assert_ok(rc);
    n->is_done = rc == COLLECTIVE_DONE;
}

static void receive(struct node *n)
{
    struct mesh_event ev;

    assert_ok(mesh_poll(n->mesh, &ev, 0, &e));
    assert_true(ev.kind != MESH_LOST);
    if (!n->is_done) {
        int rc = collective_on_event(n->c, &ev, &e);

        assert_ok(rc);
        n->is_done = rc == COLLECTIVE_DONE;
    }
}

/* One collective; node 0 starts long after the others. */
static void run(int turn)
{
    bool all_done = false;

    for (int i = 1; i < N_NODES; i++)
        begin(&nodes[i], turn);
    for (int k = 0; k < 20; k++)
        receive(&nodes[1 + k % 2]);
    begin(&nodes[0], turn);
    for (int k = 0; k < 100000 && !all_done; k++) {
        receive(&nodes[k % N_NODES]);
        all_done = nodes[0].is_done && nodes[1].is_done && nodes[2].is_done;
    }
    assert_true(all_done);
}

static void assert_mean(int turn)
{
    for (int k = 0; k < N_NODES; k++)
        for (size_t i = 0; i < N; i++) /* mean of 0, 3 and 6 */
            if (fabsf(nodes[k].out[turn % 2][i] - (float)(3 + i % 1000 + (size_t)turn)) > 1e-3f)
                fail_msg("number %zu of node %d is %g", i, k, (double)nodes[k].out[turn % 2][i]);
}

TEST(vectors_of_many_chunks_are_averaged_by_every_algorithm)
{
    for (int a = COLLECTIVE_RING; a <= COLLECTIVE_MPI; a++) {
        open_all((enum collective_algorithm)a, (uint64_t)a);
        for (int turn = 0; turn < 3; turn++) {
            run(turn);
            assert_mean(turn);
            for (int i = 1; i < N_NODES; i++)
                assert_memory_equal(nodes[0].out[turn % 2], nodes[i].out[turn % 2], N * sizeof(float));
        }
        assert_int_equal(nodes[0].n_sent + nodes[1].n_sent + nodes[2].n_sent,
                         nodes[0].n_received + nodes[1].n_received + nodes[2].n_received);
        close_all();
    }
}

/* Starts with no number ready: numbers that are not ready have wrong values. */
static void begin_with_nothing(struct node *n, const size_t *buckets, size_t n_buckets)
{
    struct collective_request request = mean_of(n, 0);

    for (size_t i = 0; i < N; i++)
        n->in[i] = -1e6f;
    request.ready = N;
    request.buckets = buckets;
    request.n_buckets = n_buckets;
    assert_int_equal(collective_start(n->c, &request, &e), COLLECTIVE_UNDER_WAY);
    n->is_done = false;
}

static void make_ready(struct node *n, size_t from, size_t to)
{
    int rc;

    for (size_t i = from; i < to; i++)
        n->in[i] = (float)((n - nodes) * 3 + (long)(i % 1000));
    rc = collective_ready(n->c, from, &e);
    assert_ok(rc);
    n->is_done = rc == COLLECTIVE_DONE;
}

static void receive_all(int times)
{
    for (int k = 0; k < times * N_NODES; k++)
        receive(&nodes[k % N_NODES]);
}

TEST(a_vector_can_be_reduced_while_it_is_computed_from_end_to_front)
{
    enum { PARTS = 5 };
    static const size_t buckets[] = {N / 2, N / 5, 0};

    for (int a = COLLECTIVE_RING; a <= COLLECTIVE_MPI; a++) {
        open_all((enum collective_algorithm)a, 1);
        for (int i = 0; i < N_NODES; i++)
            begin_with_nothing(&nodes[i], buckets, N_OF(buckets));
        receive_all(100);
        for (int i = 0; i < N_NODES; i++)
            assert_int_equal(nodes[i].n_sent, 0);
        for (size_t part = PARTS; part-- > 0;) {
            for (int i = 0; i < N_NODES; i++) {
                assert_false(nodes[i].is_done);
                make_ready(&nodes[i], N * part / PARTS, N * (part + 1) / PARTS);
            }
            receive_all(200);
            if (part == 2) /* the first bucket does not wait for the others */
                assert_float_equal(nodes[1].out[0][N - 1], 3 + (N - 1) % 1000, 1e-3);
        }
        for (int i = 0; i < N_NODES; i++)
            assert_true(nodes[i].is_done);
        assert_mean(0);
        close_all();
    }
}

/* mesh_mem allocates each message and frees it; nothing else may stay allocated. */
TEST(the_third_collective_allocates_no_more_memory_than_the_second)
{
    for (int a = COLLECTIVE_RING; a <= COLLECTIVE_MPI; a++) {
        struct mallinfo2 before, after;

        open_all((enum collective_algorithm)a, 1);
        run(0);
        run(1);
        before = mallinfo2();
        run(2);
        after = mallinfo2();
        assert_int_equal(before.uordblks, after.uordblks);
        assert_int_equal(before.hblkhd, after.hblkhd);
        close_all();
    }
}

TEST(an_unexpected_chunk_is_refused_before_it_is_read)
{
    static const struct mesh_head right = {.kind = FRAME_CHUNK, .peer = 2, .round = 1, .index = 0};
    struct mesh_head h = right;
    size_t slice = collective_slice(N, 2, N_NODES) - collective_slice(N, 1, N_NODES);
    size_t len = (slice - collective_slice(slice, 2, 3)) *
                 sizeof(
                     float); /* a slice of two and a third chunks makes three; the last one is sent first */
    struct collective_request request;
    void *at = NULL;

    open_all(COLLECTIVE_RING, 1);
    request = mean_of(&nodes[0], 0);
    assert_int_equal(collective_sink(nodes[0].c, &h, len, &at),
                     MESH_SINK_LATER); /* of a collective not started yet */
    h.round = 2;
    assert_int_equal(collective_sink(nodes[0].c, &h, len, &at), MESH_SINK_REFUSED);
    assert_int_equal(collective_start(nodes[0].c, &request, &e), COLLECTIVE_UNDER_WAY);
    assert_int_equal(collective_sink(nodes[0].c, &h, len, &at), MESH_SINK_LATER); /* of the next collective */
    h.round = 3;
    assert_int_equal(collective_sink(nodes[0].c, &h, len, &at), MESH_SINK_REFUSED);
    h.round = 0;
    assert_int_equal(collective_sink(nodes[0].c, &h, len, &at), MESH_SINK_REFUSED);
    h = right;
    h.index = 1;
    assert_int_equal(collective_sink(nodes[0].c, &h, len, &at), MESH_SINK_REFUSED);
    h = right;
    for (int peer = -3; peer <= N_NODES + 1; peer++) { /* in a ring a node receives from one side only */
        h.peer = peer;
        assert_int_equal(collective_sink(nodes[0].c, &h, len, &at),
                         peer == 2 ? MESH_SINK_READY : MESH_SINK_REFUSED);
    }
    h = right;
    for (size_t wrong = 1; wrong != 0; wrong *= 2) {
        assert_int_equal(collective_sink(nodes[0].c, &h, len + wrong, &at), MESH_SINK_REFUSED);
        assert_int_equal(collective_sink(nodes[0].c, &h, len - wrong, &at), MESH_SINK_REFUSED);
    }
    assert_int_equal(collective_sink(nodes[0].c, &h, len, &at), MESH_SINK_READY);
    memset(at, 0, len); /* the sink is large enough */
    close_all();
}

TEST(a_collective_reports_the_sender_whose_chunk_it_waits_for)
{
    struct collective_request request;
    char text[128];

    open_all(COLLECTIVE_RING, 1);
    request = mean_of(&nodes[1], 0);
    run(0);
    request.out = nodes[1].out[1];
    assert_int_equal(collective_start(nodes[1].c, &request, &e), COLLECTIVE_UNDER_WAY);
    assert_int_equal(collective_awaits(nodes[1].c), 0);
    collective_waits_for(nodes[1].c, text, sizeof text);
    assert_string_equal(text, "chunk 1 of node 0 in all-reduce 2");
    close_all();
    open_all(COLLECTIVE_MPI, 1);
    request = mean_of(&nodes[1], 0);
    assert_int_equal(collective_start(nodes[1].c, &request, &e), COLLECTIVE_UNDER_WAY);
    assert_int_equal(collective_awaits(nodes[1].c), -1);
    collective_waits_for(nodes[1].c, text, sizeof text);
    assert_string_equal(text, "the sum of all workers in all-reduce 1");
    close_all();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vectors_of_many_chunks_are_averaged_by_every_algorithm),
        cmocka_unit_test(a_vector_can_be_reduced_while_it_is_computed_from_end_to_front),
        cmocka_unit_test(the_third_collective_allocates_no_more_memory_than_the_second),
        cmocka_unit_test(an_unexpected_chunk_is_refused_before_it_is_read),
        cmocka_unit_test(a_collective_reports_the_sender_whose_chunk_it_waits_for),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
