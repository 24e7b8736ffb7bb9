/* mpi_peer N_NODES [BYTES...] -- the median time of MPI_Allreduce and a division by N_NODES over so many
 * bytes of float32, on N_NODES processes started by mpirun, each bound to a processor of its own.
 * tests/bench/comm compares it with psgd, and describes the common interface. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/bench/bench.h"

enum { TIMES_MAX = 2000, LONG = 1 << 20 };

static double median_us(size_t bytes, int n_times)
{
    static double us[TIMES_MAX];
    size_t n = bytes / sizeof(float);
    float *in = malloc(n * sizeof *in + 1), *out = malloc(n * sizeof *out + 1);
    int warm = n_times / 10 + 2, n_nodes;
    float mean;

    if (!in || !out)
        MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Comm_size(MPI_COMM_WORLD, &n_nodes);
    mean = 1.0f / (float)n_nodes;
    for (size_t i = 0; i < n; i++)
        in[i] = 1;
    for (int i = -warm; i < n_times; i++) {
        double start;

        if (bytes >= LONG)
            MPI_Barrier(MPI_COMM_WORLD);
        start = MPI_Wtime();
        MPI_Allreduce(in, out, (int)n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        for (size_t k = 0; k < n; k++)
            out[k] *= mean;
        if (i >= 0)
            us[i] = (MPI_Wtime() - start) * 1e6;
    }
    free(in);
    free(out);
    qsort(us, (size_t)n_times, sizeof *us, by_size);
    return us[n_times / 2];
}

int main(int argc, char **argv)
{
    int rank, n_nodes;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &n_nodes);
    if (argc < 2 || atoi(argv[1]) != n_nodes) {
        fprintf(stderr, "usage: mpirun -np N_NODES mpi_peer N_NODES [BYTES...]\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    bind_to_processor(rank);
    for (int i = 2; i < argc; i++) {
        size_t bytes = strtoul(argv[i], NULL, 10);
        int n_times = bytes <= 4096       ? 2000
                      : bytes < LONG      ? 1000
                      : bytes <= 8 << 20  ? 200
                      : bytes <= 32 << 20 ? 20
                                          : 7;
        double us = median_us(bytes, n_times);

        if (rank == 0)
            printf("%zu %.1f\n", bytes, us);
        fflush(stdout);
    }
    MPI_Finalize();
    return 0;
}
