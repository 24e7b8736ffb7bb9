/* shm_group N_NODES [BYTES...] -- microseconds of an all-reduce through shared memory. Before each one
 * every node writes its vector anew, as a backward pass would, and all wait at a barrier. Columns: bytes,
 * median, least. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/clock.h"
#include "tests/bench/bench.h"
#include "tests/lib/shm_nodes.h"

enum { TIMES_MAX = 2000, SIZES_MAX = 16 };

struct bench {
    int n_sizes;
    size_t bytes[SIZES_MAX];
};

static void must(int rc, const struct err *e)
{
    if (rc < 0) {
        fprintf(stderr, "%s\n", e->text);
        exit(1);
    }
}

static void all_reduce(struct shm_group *a, float *out, size_t n)
{
    struct shm_collective c = {.kind = SHM_ALL_REDUCE, .in = shm_group_in(a), .out = out, .n = n};
    struct err e;

    must(shm_group_start(a, &c, &e), &e);
    must(shm_nodes_poll(a, clock_now() + 60, &e), &e);
}

/* The times of n_times all-reduces, sorted. */
static void measure(struct shm_group *a, float *out, size_t n, double *times, int n_times)
{
    float rendezvous;

    for (int k = -1; k < n_times; k++) {
        double start;

        for (size_t i = 0; i < n; i++)
            shm_group_in(a)[i] = (float)(k + 2);
        all_reduce(a, &rendezvous, 1);
        start = clock_now();
        all_reduce(a, out, n);
        if (k >= 0)
            times[k] = 1e6 * (clock_now() - start);
    }
    qsort(times, (size_t)n_times, sizeof *times, by_size);
}

static int part(struct shm_nodes *c, struct shm_group *a, int me, void *arg)
{
    static double times[TIMES_MAX];
    const struct bench *b = arg;

    (void)c;
    for (int s = 0; s < b->n_sizes; s++) {
        size_t n = b->bytes[s] / sizeof(float);
        int n_times = b->bytes[s] < 1 << 17 ? TIMES_MAX : b->bytes[s] < 1 << 23 ? 300 : 30;
        float *out = calloc(n, sizeof *out);

        if (!out)
            return 1;
        measure(a, out, n, times, n_times);
        if (me == 0)
            printf("%zu\t%.1f\t%.1f\n", b->bytes[s], times[n_times / 2], times[0]);
        fflush(stdout);
        free(out);
    }
    return 0;
}

int main(int argc, char **argv)
{
    struct bench b = {9, {4096, 31400, 65536, 473000, 1 << 20, 2680000, 4800000, 16 << 20, 100 << 20}};
    int n_nodes = argc > 1 ? atoi(argv[1]) : 2;
    size_t most = 0;
    struct shm_nodes c;

    if (n_nodes < 1 || n_nodes > SHM_NODES_MAX || argc - 2 > SIZES_MAX) {
        fprintf(stderr, "usage: shm_group N_NODES [BYTES...]\n");
        return 2;
    }
    for (int i = 2; i < argc; i++) {
        b.n_sizes = i - 1;
        b.bytes[i - 2] = strtoul(argv[i], NULL, 10);
    }
    for (int i = 0; i < b.n_sizes; i++)
        most = b.bytes[i] > most ? b.bytes[i] : most;
    shm_nodes_start(&c, n_nodes, most / sizeof(float), part, &b);
    return shm_nodes_wait(&c) > 0;
}
