/* Every mesh fulfills the contract of mesh.h: the same cases over mesh_mem, over mesh_sim, over each
 * transport between processes, with and without TLS, and with shared memory, and over Open MPI and MPICH
 * where they are. */
#include "tests/unit/unit.h"

#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include "runner/mesh/mpi/mesh_mpi.h"
#include "shared/base/clock.h"
#include "sim/mesh_sim.h"
#include "tests/lib/mesh_mem.h"
#include "tests/lib/mesh_nodes.h"
#include "tests/lib/mesh_remote.h"
#include "tests/lib/sealed_memory.h"
#include "tests/lib/send_pools.h"

/* Of mesh_mpi_address, where bodies are to have several pieces: MPI takes one at once. */
enum { PIECE = 8192 };

struct net {
    size_t piece;
    struct mesh *node[MESH_NODES]; /* workers 0, 1 and server -2 */
    struct mesh_mem *mem;
    struct mesh_sim *sim;
    struct mesh_remotes *remotes;
    struct send_pools send_pools;
};

static void open_mem(struct net *n, const struct mesh_transport *none)
{
    (void)none;
    n->mem = mesh_mem_new(2, 1, MESH_LIMIT, 1);
    for (int i = 0; i < MESH_NODES; i++)
        n->node[i] = mesh_mem_node(n->mem, mesh_ids[i]);
}

static int deliver_at_once(void *owner, struct sim_message *m, struct err *e)
{
    const struct net *n = owner;

    (void)e;
    mesh_sim_deliver(n->sim, m);
    return 0;
}

static void open_sim(struct net *n, const struct mesh_transport *none)
{
    const struct mesh_sim_config cfg = {
        .n_workers = 2, .n_servers = 1, .limit = MESH_LIMIT, .carry = deliver_at_once, .owner = n};
    struct err e;

    (void)none;
    assert_ok(mesh_sim_new(&n->sim, &cfg, &e));
    for (int i = 0; i < MESH_NODES; i++)
        n->node[i] = mesh_sim_node(n->sim, i);
}

static void open_links(struct net *n, const struct mesh_transport *transport, enum mesh_tls tls)
{
    struct opening o[MESH_NODES];

    opening_prepare(o, 10, tls);
    for (int i = 0; i < MESH_NODES; i++)
        o[i].cfg.spec.transport = transport;
    opening_run(o);
    for (int i = 0; i < MESH_NODES; i++) {
        assert_non_null(o[i].mesh);
        n->node[i] = o[i].mesh;
    }
}

static void open_plain(struct net *n, const struct mesh_transport *transport)
{
    open_links(n, transport, MESH_TLS_AUTO);
}

static void open_tls(struct net *n, const struct mesh_transport *transport)
{
    open_links(n, transport, MESH_TLS_ON);
}

static void open_send_pools(struct net *n, const struct mesh_transport *transport)
{
    open_plain(n, transport);
    send_pools_open(&n->send_pools, n->node, MESH_NODES);
}

static void open_openmpi(struct net *n, const struct mesh_transport *none)
{
    (void)none;
    n->remotes = mesh_remotes_begin("openmpi", n->piece, n->node);
}

static void open_mpich(struct net *n, const struct mesh_transport *none)
{
    (void)none;
    n->remotes = mesh_remotes_begin("mpich", n->piece, n->node);
}

/* The last one needs shared memory, those of MPI may open nothing. */
#define TRANSPORT(transport) {open_plain, &transport}, {open_tls, &transport},
static const struct {
    void (*open)(struct net *, const struct mesh_transport *);
    const struct mesh_transport *transport;
} meshes[] = {{open_mem, NULL},
              {open_sim, NULL},
              {open_openmpi, NULL},
              {open_mpich, NULL},
              MESH_TRANSPORTS(TRANSPORT){open_send_pools, &mesh_tcp}};
#undef TRANSPORT

/* The next event at `to`, while the other nodes are polled, so that they send queued messages. There is
 * no timeout, because a gibibyte takes minutes under an emulator; the test's own limit ends it. */
static struct mesh_event next_event(struct net *n, int to)
{
    struct mesh_event ev, other;
    struct err e = {0};

    do {
        assert_ok(mesh_poll(n->node[to], &ev, clock_now() + 0.001, &e));
        for (int i = 0; i < MESH_NODES && ev.kind == MESH_NOTHING; i++)
            if (i != to && n->node[i]) {
                assert_ok(mesh_poll(n->node[i], &other, 0, &e));
                assert_true(other.kind == MESH_NOTHING || other.kind == MESH_LEFT);
            }
    } while (ev.kind == MESH_NOTHING);
    return ev;
}

static void assert_receives_nothing(struct mesh *m)
{
    struct mesh_event ev;
    struct err e = {0};

    assert_ok(mesh_poll(m, &ev, clock_now() + 0.02, &e));
    assert_int_equal(ev.kind, MESH_NOTHING);
}

static void finish(struct net *n)
{
    /* Nodes in one thread cannot wait for each other's BYE frame: a short time must do. */
    for (int i = MESH_NODES - 1; i >= 0; i--)
        if (n->node[i])
            mesh_close(n->node[i], clock_now() + 0.02);
    if (n->mem)
        mesh_mem_free(n->mem);
    mesh_sim_free(n->sim);
    if (n->remotes)
        mesh_remotes_end(n->remotes);
    send_pools_close(&n->send_pools);
}

/* Node 1 receives messages of these sizes, as node 0 has sent them by send_bytes(). */
static void assert_messages_arrive(struct net *n, const size_t *sizes, size_t n_sizes)
{
    for (size_t k = 0; k < n_sizes; k++) {
        struct mesh_event ev = next_event(n, 1);

        assert_int_equal(ev.kind, MESH_MESSAGE);
        assert_int_equal(ev.head.peer, 0);
        assert_int_equal(ev.head.round, k);
        assert_int_equal(ev.head.index, 3);
        assert_int_equal(ev.head.channel, 2);
        assert_int_equal(ev.buf->len, sizes[k]);
        for (size_t i = 0; i < sizes[k]; i++)
            assert_int_equal(ev.buf->bytes[i], (int)k + 1);
        mesh_buf_put(ev.buf);
    }
}

static void messages_arrive_whole_and_in_order(struct net *n)
{
    static const size_t sizes[] = {1, 0, 64, 4096, MESH_LIMIT, 3, 50000, 100000};

    for (size_t k = 0; k < N_OF(sizes); k++)
        send_bytes(n->node[0], 1, k, sizes[k], (int)k + 1);
    assert_messages_arrive(n, sizes, N_OF(sizes));
}

/* The next message may use the buffer of one that has left. */
static void a_message_stays_as_it_is_while_later_ones_are_sent(struct net *n)
{
    static const size_t sizes[] = {100000, 41000, 50000, 100000, 41000};

    for (size_t k = 0; k < N_OF(sizes); k++) {
        send_bytes(n->node[0], 1, k, sizes[k], (int)k + 1);
        assert_receives_nothing(n->node[0]);
    }
    assert_messages_arrive(n, sizes, N_OF(sizes));
}

static void every_node_reaches_every_other(struct net *n)
{
    for (int from = 0; from < MESH_NODES; from++)
        for (int to = 0; to < MESH_NODES; to++) {
            struct mesh_event ev;

            if (from == to)
                continue;
            send_bytes(n->node[from], mesh_ids[to], 9, 10, from);
            ev = next_event(n, to);
            assert_int_equal(ev.kind, MESH_MESSAGE);
            assert_int_equal(ev.head.peer, mesh_ids[from]);
            mesh_buf_put(ev.buf);
        }
}

static void one_buffer_goes_to_many(struct net *n)
{
    struct mesh_head h = {.kind = FRAME_REPLY};
    struct mesh_buf *b = mesh_buf_take(n->node[2]);
    struct err e = {0};

    b->len = 5000;
    memset(b->bytes, 'l', b->len);
    memcpy(b->bytes + b->len - 5, "hello", 5);
    for (h.peer = 0; h.peer < 2; h.peer++)
        assert_ok(mesh_send(n->node[2], &h, b, &e));
    mesh_buf_put(b);
    for (int to = 0; to < 2; to++) {
        struct mesh_event ev = next_event(n, to);

        assert_int_equal(ev.head.kind, FRAME_REPLY);
        assert_int_equal(ev.buf->len, 5000);
        assert_memory_equal(ev.buf->bytes + 4995, "hello", 5);
        mesh_buf_put(ev.buf);
    }
}

/* Node 0 and the server exchange many messages while node `asleep` does nothing. */
static void other_nodes_exchange_messages(struct net *n, int asleep)
{
    struct mesh *m = n->node[asleep];

    n->node[asleep] = NULL;
    for (uint64_t k = 0; k < 2 * MESH_QUEUE_MAX; k++) {
        int from = k % 2 ? 2 : 0;
        struct mesh_event ev;

        send_bytes(n->node[from], mesh_ids[2 - from], k, 100, 1);
        ev = next_event(n, 2 - from);
        assert_int_equal(ev.kind, MESH_MESSAGE);
        assert_int_equal(ev.head.round, k);
        mesh_buf_put(ev.buf);
    }
    n->node[asleep] = m;
}

static void sends_to_a_peer_that_does_not_read_are_refused(struct net *n)
{
    struct mesh_head h = {.kind = FRAME_CONTRIBUTION, .peer = 1};
    struct mesh_buf *b = mesh_buf_take(n->node[0]);
    struct err e = {0};
    int sent = 0;

    b->len = MESH_LIMIT;
    memset(b->bytes, 1, MESH_LIMIT);
    while (sent < 10 * MESH_QUEUE_MAX && mesh_send(n->node[0], &h, b, &e) == 0)
        sent++;
    mesh_buf_put(b);
    assert_int_equal(e.code, ERR_REFUSED);
    assert_in_range(sent, MESH_QUEUE_MAX, 2 * MESH_QUEUE_MAX);
    assert_int_equal(mesh_queued(n->node[0]), MESH_QUEUE_MAX);
    assert_int_equal(mesh_queued_for(n->node[0], 1), MESH_QUEUE_MAX);
    assert_int_equal(mesh_queued_for(n->node[0], -2), 0);
    other_nodes_exchange_messages(n, 1);
    for (int k = 0; k < sent; k++) {
        struct mesh_event ev = next_event(n, 1);

        assert_int_equal(ev.kind, MESH_MESSAGE);
        mesh_buf_put(ev.buf);
    }
    while (mesh_queued(n->node[0]) > 0) /* a transport may learn from the peer that a message is sent */
        assert_receives_nothing(n->node[0]);
}

static bool is_readable(const struct mesh *m)
{
    struct pollfd p = {.fd = mesh_descriptor(m), .events = POLLIN};

    return poll(&p, 1, 0) == 1;
}

/* For a process that waits for something else, too. */
static void a_message_makes_the_descriptor_readable_until_it_is_received(struct net *n)
{
    struct mesh_event ev = {.kind = MESH_NOTHING};
    struct err e = {0};

    if (mesh_descriptor(n->node[1]) < 0)
        return;
    while (is_readable(n->node[1]))
        assert_receives_nothing(n->node[1]);
    send_bytes(n->node[0], 1, 9, 10, 1);
    while (!is_readable(n->node[1]))
        assert_receives_nothing(n->node[0]);
    while (ev.kind == MESH_NOTHING)
        assert_ok(mesh_poll(n->node[1], &ev, 0, &e));
    mesh_buf_put(ev.buf);
    while (is_readable(n->node[1]))
        assert_receives_nothing(n->node[1]);
}

static void messages_of_a_paused_peer_are_kept(struct net *n)
{
    struct mesh_event ev;

    mesh_pause(n->node[1], 0, true);
    send_bytes(n->node[0], 1, 1, 10, 1);
    send_bytes(n->node[2], 1, 2, 10, 1);
    ev = next_event(n, 1);
    assert_int_equal(ev.head.peer, -2);
    mesh_buf_put(ev.buf);
    assert_receives_nothing(n->node[1]);
    mesh_pause(n->node[1], 0, false);
    ev = next_event(n, 1);
    assert_int_equal(ev.head.peer, 0);
    mesh_buf_put(ev.buf);
}

static void messages_sent_before_a_good_bye_arrive(struct net *n)
{
    struct mesh_event ev;

    send_bytes(n->node[2], 1, 5, 1000, 1);
    mesh_close(n->node[2], clock_now() + 0.02);
    n->node[2] = NULL;
    ev = next_event(n, 1);
    assert_int_equal(ev.kind, MESH_MESSAGE);
    mesh_buf_put(ev.buf);
    ev = next_event(n, 1);
    assert_int_equal(ev.kind, MESH_LEFT);
    assert_int_equal(ev.head.peer, -2);
    send_bytes(n->node[1], -2, 1, 10, 1); /* silently dropped */
}

/* Sinks of chunks: one after the other in `bytes`. */
struct sinks {
    enum mesh_sink_result where;
    int n_asked;
    struct mesh_head head;
    size_t len, end;
    unsigned char bytes[3 * MESH_LIMIT];
};

static enum mesh_sink_result find_sink(void *owner, const struct mesh_head *h, size_t len, void **at)
{
    struct sinks *p = owner;

    p->n_asked++;
    p->head = *h;
    p->len = len;
    if (p->where == MESH_SINK_READY) {
        *at = p->bytes + p->end;
        p->end += len;
    }
    return p->where;
}

static struct sinks *sinks_with(struct mesh *m, enum mesh_sink_result where)
{
    static struct sinks sinks;

    sinks = (struct sinks){.where = where};
    m->sink = find_sink;
    m->owner = &sinks;
    return &sinks;
}

static void send_chunk(struct mesh *m, int to, uint64_t round, const void *bytes, size_t len)
{
    struct mesh_head h = {.kind = FRAME_CHUNK, .peer = to, .index = 6, .round = round, .channel = 1};
    struct err e = {0};

    assert_ok(mesh_send_view(m, &h, bytes, len, &e));
}

static void a_chunk_fills_its_sink(struct net *n)
{
    static const size_t sizes[] = {4, 0, 1 << 16, 1 << 18, MESH_LIMIT + 4};
    static unsigned char bytes[2 * MESH_LIMIT];
    struct sinks *p = sinks_with(n->node[1], MESH_SINK_READY);
    size_t end = 0;

    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(i * 7 + i / 256);
    for (size_t k = 0; k < N_OF(sizes); end += sizes[k++])
        send_chunk(n->node[0], 1, k, bytes + end, sizes[k]);
    for (size_t k = 0; k < N_OF(sizes); k++) {
        struct mesh_event ev = next_event(n, 1);

        assert_int_equal(ev.kind, MESH_MESSAGE);
        assert_int_equal(ev.head.kind, FRAME_CHUNK);
        assert_int_equal(ev.head.peer, 0);
        assert_int_equal(ev.head.round, k);
        assert_int_equal(ev.head.index, 6);
        assert_int_equal(ev.head.channel, 1);
        assert_null(ev.buf);
        assert_int_equal(p->n_asked, k + 1);
        assert_int_equal(p->len, sizes[k]);
        assert_int_equal(p->head.kind, ev.head.kind); /* not by memcmp: it has padding */
        assert_int_equal(p->head.peer, ev.head.peer);
        assert_int_equal(p->head.round, ev.head.round);
        assert_int_equal(p->head.index, ev.head.index);
        assert_int_equal(p->head.channel, ev.head.channel);
    }
    assert_memory_equal(p->bytes, bytes, end);
}

static enum mesh_sink_result sink_at_owner(void *owner, const struct mesh_head *h, size_t len, void **at)
{
    (void)h;
    (void)len;
    *at = owner;
    return MESH_SINK_READY;
}

static void a_chunk_of_a_gibibyte_arrives(struct net *n)
{
    const size_t len = (size_t)1 << 30, marks[] = {0, 12345, len / 2 + 1, len - 1};
    long pages = sysconf(_SC_AVPHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    unsigned char *map[2];
    struct mesh_event ev;

    /* Sanitizers check every byte of it, which takes too much time and memory. */
    if (IS_SANITIZED || pages < (long)(3 * len) / page) {
        print_message("# a chunk of a gibibyte is skipped: %s\n",
                      IS_SANITIZED ? "this is a sanitizer's build" : "3 GiB of memory are not free");
        return;
    }
    for (int i = 0; i < 2; i++) {
        map[i] = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        assert_true(map[i] != MAP_FAILED);
        madvise(map[i], len, MADV_HUGEPAGE);
    }
    for (size_t k = 0; k < N_OF(marks); k++)
        map[0][marks[k]] = (unsigned char)(k + 1);
    n->node[1]->sink = sink_at_owner;
    n->node[1]->owner = map[1];
    send_chunk(n->node[0], 1, 1, map[0], len);
    send_bytes(n->node[0], 1, 2, 10, 1);
    ev = next_event(n, 1);
    assert_int_equal(ev.kind, MESH_MESSAGE);
    assert_int_equal(ev.head.round, 1);
    assert_int_equal(memcmp(map[0], map[1], len), 0); /* cmocka compares byte by byte */
    ev = next_event(n, 1);
    assert_int_equal(ev.head.round, 2);
    mesh_buf_put(ev.buf);
    for (int i = 0; i < 2; i++)
        munmap(map[i], len);
}

/* Node 0 sends node 1 a chunk that has no sink yet. */
static struct sinks *send_early_chunk(struct net *n, const char *bytes)
{
    struct sinks *p = sinks_with(n->node[1], MESH_SINK_LATER);

    send_chunk(n->node[0], 1, 8, bytes, strlen(bytes));
    assert_receives_nothing(n->node[1]);
    assert_int_equal(p->n_asked, 1);
    return p;
}

static void a_chunk_without_a_sink_waits_with_all_later_messages(struct net *n)
{
    struct sinks *p = send_early_chunk(n, "chunk");
    struct mesh_event ev;

    send_bytes(n->node[0], 1, 9, 10, 1);
    send_bytes(n->node[2], 1, 2, 10, 1);
    ev = next_event(n, 1);
    assert_int_equal(ev.head.peer, -2);
    mesh_buf_put(ev.buf);
    assert_receives_nothing(n->node[1]);
    assert_int_equal(p->n_asked, 1);
    mesh_pause(n->node[1], 0, false);
    assert_receives_nothing(n->node[1]);
    assert_int_equal(p->n_asked, 2);
    p->where = MESH_SINK_READY;
    mesh_pause(n->node[1], 0, false);
    ev = next_event(n, 1);
    assert_int_equal(ev.head.round, 8);
    assert_memory_equal(p->bytes, "chunk", 5);
    ev = next_event(n, 1);
    assert_int_equal(ev.head.round, 9);
    mesh_buf_put(ev.buf);
}

/* An empty chunk is complete with its header: no later byte triggers the mesh. */
static void a_delayed_empty_chunk_arrives_without_further_bytes(struct net *n)
{
    struct sinks *p = send_early_chunk(n, "");
    struct mesh_event ev;

    p->where = MESH_SINK_READY;
    mesh_pause(n->node[1], 0, false);
    ev = next_event(n, 1);
    assert_int_equal(ev.kind, MESH_MESSAGE);
    assert_int_equal(ev.head.round, 8);
}

static void a_wrong_chunk_loses_its_sender(struct net *n)
{
    struct mesh_event ev;

    sinks_with(n->node[1], MESH_SINK_REFUSED);
    send_chunk(n->node[0], 1, 1, "chunk", 5);
    ev = next_event(n, 1);
    assert_int_equal(ev.kind, MESH_LOST);
    assert_int_equal(ev.head.peer, 0);
    send_chunk(n->node[0], -2, 1, "chunk", 5); /* where no sink can be provided */
    ev = next_event(n, 2);
    assert_int_equal(ev.kind, MESH_LOST);
    assert_int_equal(ev.head.peer, 0);
}

static void a_closing_mesh_asks_for_no_sink(struct net *n)
{
    struct sinks *p = send_early_chunk(n, "chunk");
    struct mesh_event ev;

    mesh_close(n->node[1], clock_now() + 0.02);
    n->node[1] = NULL;
    assert_int_equal(p->n_asked, 1);
    ev = next_event(n, 0);
    assert_int_equal(ev.kind, MESH_LEFT);
}

TEST(every_mesh_fulfills_its_contract)
{
    static void (*const cases[])(struct net *) = {
        messages_arrive_whole_and_in_order,
        a_message_stays_as_it_is_while_later_ones_are_sent,
        every_node_reaches_every_other,
        one_buffer_goes_to_many,
        sends_to_a_peer_that_does_not_read_are_refused,
        a_message_makes_the_descriptor_readable_until_it_is_received,
        messages_of_a_paused_peer_are_kept,
        messages_sent_before_a_good_bye_arrive,
        a_chunk_fills_its_sink,
        a_chunk_of_a_gibibyte_arrives,
        a_chunk_without_a_sink_waits_with_all_later_messages,
        a_delayed_empty_chunk_arrives_without_further_bytes,
        a_wrong_chunk_loses_its_sender,
        a_closing_mesh_asks_for_no_sink,
    };

    bool has_gibibyte = false;

    for (size_t m = 0; m < N_OF(meshes) - !sealed_memory_exists(); m++)
        for (size_t k = 0; k < N_OF(cases); k++) {
            bool has_pieces = cases[k] == a_message_stays_as_it_is_while_later_ones_are_sent;
            struct net n = {.piece = has_pieces ? PIECE : MESH_MPI_PIECE};

            /* A gibibyte without LONG=1 only over one transport: it costs a second of processor time. */
            if (cases[k] == a_chunk_of_a_gibibyte_arrives) {
                if (!unit_is_long() && (has_gibibyte || !meshes[m].transport))
                    continue;
                has_gibibyte = true;
            }
            /* An mpirun for each case takes half of the time: in make check mpi.bats sets this. */
            if (meshes[m].open == open_mpich && !unit_is_long() && !getenv("PSGD_TEST_EACH_MPI"))
                break;
            meshes[m].open(&n, meshes[m].transport);
            if (!n.node[0]) {
                print_message("# an MPI is skipped: it is not installed, or psgd was built without it\n");
                break;
            }
            cases[k](&n);
            finish(&n);
        }
}

int main(int argc, char **argv)
{
    int status;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_mesh_fulfills_its_contract),
    };

    if (mesh_remote_is_rank(argc, argv, &status))
        return status;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
