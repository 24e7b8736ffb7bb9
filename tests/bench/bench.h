/* bench -- functions common to the benchmarks. Header only: mpi_peer.c is compiled by mpicc alone. */
#ifndef PSGD_BENCH_H
#define PSGD_BENCH_H

#include <sched.h>
#include <stddef.h>

/* The k-th of the processors that this process may run on, k modulo their number. */
static inline void bind_to_processor(int k)
{
    cpu_set_t all, one;
    int n = 0, wanted;

    sched_getaffinity(0, sizeof all, &all);
    wanted = k % CPU_COUNT(&all);
    for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &all) && n++ == wanted) {
            CPU_ZERO(&one);
            CPU_SET(cpu, &one);
            sched_setaffinity(0, sizeof one, &one);
            return;
        }
}

/* For qsort, of doubles. */
static inline int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

#endif
