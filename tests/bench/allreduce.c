/* allreduce NODES [ALGORITHM [BYTES...]] -- microseconds of an all-reduce between processes of this machine,
 * each bound to a processor, over the runner's own mesh and collectives. Prints, for each length: bytes,
 * median, least, most, GB/s of vector. Lengths of 1 MiB and more are begun together. With TLS=on in the
 * environment connections are encrypted. Started by mpirun with NODES processes, the mesh is that over
 * MPI, which the algorithm `mpi` needs. */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runner/collective/collective.h"
#include "runner/mesh/mpi/mesh_mpi.h"
#include "runner/mesh/mpi_library.h"
#include "runner/mesh/tcp/mesh_tcp.h"
#include "shared/base/choice.h"
#include "shared/base/clock.h"
#include "tests/bench/bench.h"
#include "tests/lib/cluster.h"
#include "tests/lib/mesh_nodes.h"

enum { RANKS_MAX = 64, TIMES_MAX = 2000, TOGETHER = 1 << 20 };

static const atomic_bool never = false;
static const int one_machine[RANKS_MAX]; /* as in plan_request: all run where node 0 does */

struct bench {
    int n_nodes, me;
    struct mesh *mesh;
    struct collective *collective;
    float *in, *out[2]; /* as long as the longest */
    int turn;
    struct stopwatch watch;
    struct err e;
};

static void must(int rc, const struct bench *b, const char *what)
{
    if (rc >= 0)
        return;
    fprintf(stderr, "node %d: %s: %s\n", b->me, what, b->e.text);
    exit(1);
}

static int send_chunk(void *owner, const struct mesh_head *h, const void *bytes, size_t len)
{
    struct bench *b = owner;

    return mesh_send_view(b->mesh, h, bytes, len, &b->e);
}

static void received_chunk(void *owner, int from, size_t len)
{
    (void)owner, (void)from, (void)len;
}

static enum mesh_sink_result chunk_sink(void *owner, const struct mesh_head *h, size_t len, void **at)
{
    return collective_sink(((struct bench *)owner)->collective, h, len, at);
}

static void all_reduce(struct bench *b, size_t n)
{
    struct collective_request request = {
        .kind = COLLECTIVE_ALL_REDUCE, .is_mean = true, .in = b->in, .out = b->out[b->turn++ % 2], .n = n};
    int rc = collective_start(b->collective, &request, &b->e);

    while (rc == COLLECTIVE_UNDER_WAY) {
        struct mesh_event ev;

        must(mesh_poll(b->mesh, &ev, clock_now() + 10, &b->e), b, "poll");
        if (ev.kind == MESH_LOST) {
            fprintf(stderr, "node %d: node %d is lost: %s\n", b->me, ev.head.peer, ev.why);
            exit(1);
        }
        rc = collective_on_event(b->collective, &ev, &b->e);
    }
    must(rc, b, "all-reduce");
}

static void measure(struct bench *b, size_t bytes)
{
    static double us[TIMES_MAX];
    size_t n = bytes / sizeof(float);
    int times = bytes <= 4096       ? 2000
                : bytes < TOGETHER  ? 1000
                : bytes <= 8 << 20  ? 200
                : bytes <= 32 << 20 ? 20
                                    : 7;
    int warm = times / 10 + 2;

    for (size_t i = 0; i < n; i++)
        b->in[i] = (float)b->me;
    for (int i = -warm; i < times; i++) {
        double start;

        if (bytes >= TOGETHER)
            all_reduce(b, 1);
        start = clock_now();
        all_reduce(b, n);
        if (i >= 0)
            us[i] = (clock_now() - start) * 1e6;
    }
    for (size_t i = 0; i < n; i += 1001)
        if (b->out[(b->turn - 1) % 2][i] != (float)(b->n_nodes - 1) / 2) {
            fprintf(stderr, "node %d: number %zu is %g\n", b->me, i, (double)b->out[(b->turn - 1) % 2][i]);
            exit(1);
        }
    qsort(us, (size_t)times, sizeof *us, by_size);
    if (b->me == 0) {
        printf("%zu\t%.1f\t%.1f\t%.1f\t%.2f\n", bytes, us[times / 2], us[0], us[times - 1],
               (double)bytes / us[times / 2] / 1e3);
        fflush(stdout);
    }
}

static void take_vectors(struct bench *b, int n, const size_t *bytes)
{
    size_t longest = sizeof(float);

    for (int i = 0; i < n; i++)
        longest = bytes[i] > longest ? bytes[i] : longest;
    b->in = malloc(longest);
    b->out[0] = malloc(longest);
    b->out[1] = malloc(longest);
    if (!b->in || !b->out[0] || !b->out[1])
        exit(1);
}

static void open_tcp(struct bench *b, const int *ports, const int *fds)
{
    struct mesh_peer peers[RANKS_MAX];
    const char *tls = getenv("TLS");
    struct mesh_tcp_address address = {.job = "j-bench",
                                       .attempt = 1,
                                       .listen_fd = fds[b->me],
                                       .peers = peers,
                                       .tls = tls && strcmp(tls, "on") == 0 ? MESH_TLS_ON : MESH_TLS_AUTO};
    const struct mesh_spec spec = {.transport = &mesh_tcp,
                                   .address = &address,
                                   .node = b->me,
                                   .limit = 64,
                                   .deadline = clock_now() + 10,
                                   .interrupted = &never};

    for (int k = 0; k < b->n_nodes; k++) {
        if (k == b->me)
            continue;
        close(fds[k]);
        peers[address.n_peers] = (struct mesh_peer){.node = k, .host = "127.0.0.1", .port = ports[k]};
        address.n_peers++;
    }
    must(mesh_open(&b->mesh, &spec, &b->e), b, "open");
}

static void open_mpi(struct bench *b)
{
    int peers[RANKS_MAX];
    char folder[PATH_MAX];
    struct mesh_mpi_address address = {
        .job = "j-bench", .attempt = 1, .n_workers = b->n_nodes, .peers = peers};
    struct mesh_spec spec = {
        .address = &address, .node = b->me, .limit = 64, .deadline = clock_now() + 10, .interrupted = &never};

    for (int k = 0; k < b->n_nodes; k++)
        if (k != b->me)
            peers[address.n_peers++] = k;
    snprintf(folder, sizeof folder, "%s/transports", test_build_dir());
    must(mpi_library_load(&spec.transport, folder, &b->e), b, "MPI");
    must(mesh_open(&b->mesh, &spec, &b->e), b, "open");
}

static int run_node(struct bench *b, enum collective_algorithm algorithm, int n_wanted, const size_t *wanted)
{
    struct collective_config config = {.n_nodes = b->n_nodes,
                                       .me = b->me,
                                       .algorithm = algorithm,
                                       .send = send_chunk,
                                       .received = received_chunk,
                                       .watch = &b->watch,
                                       .owner = b};

    must(collective_new(&b->collective, &config, &b->e), b, "collective");
    collective_attach(b->collective, b->mesh, one_machine);
    b->mesh->sink = chunk_sink;
    b->mesh->owner = b;
    take_vectors(b, n_wanted, wanted);
    for (int i = 0; i < n_wanted; i++)
        measure(b, wanted[i]);
    all_reduce(b, 1); /* no node is behind any more */
    mesh_close(b->mesh, clock_now() + 5);
    return 0;
}

/* Of mpirun; -1: none has started this process. */
static int find_rank(void)
{
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");

    rank = rank ? rank : getenv("PMI_RANK");
    return rank ? atoi(rank) : -1;
}

int main(int argc, char **argv)
{
    struct bench b = {.n_nodes = argc > 1 ? atoi(argv[1]) : 0};
    int algorithm = choice_find(ALLREDUCE_CHOICES, argc > 2 ? argv[2] : "auto");
    int ports[RANKS_MAX], fds[RANKS_MAX], status, bad = 0;
    size_t wanted[64] = {4096, 31400, 65536, 473128, 1 << 20, 2679848, 4800000, 16 << 20, 100 << 20};
    int n_wanted = 9;

    b.me = find_rank();
    if (b.n_nodes < 1 || b.n_nodes > RANKS_MAX || algorithm < 0 ||
        (algorithm == COLLECTIVE_MPI && b.me < 0)) {
        fprintf(stderr, "allreduce NODES [" ALLREDUCE_CHOICES " [BYTES...]]\n");
        return 2;
    }
    for (int i = 3; i < argc && i < 64; i++, n_wanted = i - 3)
        wanted[i - 3] = strtoul(argv[i], NULL, 10) / sizeof(float) * sizeof(float);
    if (b.me >= 0) {
        bind_to_processor(b.me);
        open_mpi(&b);
        return run_node(&b, (enum collective_algorithm)algorithm, n_wanted, wanted);
    }
    for (int k = 0; k < b.n_nodes; k++) {
        fds[k] = listen_anywhere(&ports[k]);
        setsockopt(fds[k], IPPROTO_TCP, TCP_CONGESTION, "cubic", 5); /* as the agent does */
    }
    for (b.me = 0; b.me < b.n_nodes; b.me++)
        if (fork() == 0) {
            bind_to_processor(b.me);
            open_tcp(&b, ports, fds);
            return run_node(&b, (enum collective_algorithm)algorithm, n_wanted, wanted);
        }
    for (int k = 0; k < b.n_nodes; k++)
        close(fds[k]);
    while (wait(&status) > 0)
        bad |= status;
    return bad != 0;
}
