/* mpi_reduce -- sums over all nodes by MPI's own all-reduce. A call that waits, MPI_Allreduce, could not be
 * ended by a signal or a deadline: mesh_poll asks instead whether the oldest sum is complete, by which MPI
 * makes progress with all of them. */
#include <assert.h>

#include "runner/mesh/mpi/mesh_mpi_private.h"

int mpi_reduce(struct mesh *m, const float *in, float *out, size_t n, struct err *e)
{
    struct mpi *t = (struct mpi *)m;
    int rc;

    assert(n > 0 && n <= MESH_REDUCE_LONGEST && t->n_sums < MESH_REDUCE_MAX);
    rc = MPI_Iallreduce(in, out, (int)n, MPI_FLOAT, MPI_SUM, t->sum_comm,
                        &t->sums[(t->first_sum + t->n_sums) % MESH_REDUCE_MAX]);
    if (rc != MPI_SUCCESS)
        return mpi_fail(e, ERR_IO, rc, "MPI_Iallreduce");
    t->n_sums++;
    return 0;
}

size_t mpi_reducing(const struct mesh *m)
{
    return ((const struct mpi *)m)->n_sums;
}

int mpi_reduce_advance(struct mpi *t, struct err *e)
{
    while (t->n_sums > 0) {
        int is_done = 0, rc = MPI_Test(&t->sums[t->first_sum], &is_done, MPI_STATUS_IGNORE);

        if (rc != MPI_SUCCESS)
            return mpi_fail(e, ERR_IO, rc, "MPI_Iallreduce");
        if (!is_done)
            return 0;
        t->first_sum = (t->first_sum + 1) % MESH_REDUCE_MAX;
        t->n_sums--;
    }
    return 0;
}
