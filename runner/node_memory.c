/* node_memory -- the memory that a node's job will hold, known before its first step. What the model and the
 * optimizer need is allocated and written when they are made (nn/net.h); the rest, vectors and messages of
 * exchanges, in the first steps, where the kernel would kill the process in the midst of them. */
#include <stdio.h>

#include "runner/node.h"
#include "shared/base/memory.h"

static double vectors(const struct node *n, size_t count)
{
    return (double)count * (double)net_n_params(n->net) * sizeof(float);
}

static double optimizer_bytes(const struct node *n)
{
    struct tensor_view of[OPTIMIZER_TENSORS];

    return n->step.optimizer ? vectors(n, optimizer_tensors(n->step.optimizer, of)) : 0;
}

/* Gradients in shared memory are counted there, not with the network. */
static double shared_bytes(const struct node *n)
{
    if (n->shm_group)
        return (double)shm_group_bytes(net_n_params(n->net), shm_group_n(n->shm_group)) - vectors(n, 1);
    return n->send_pool ? (double)send_pool_bytes(n->mesh->pool->limit, n->n_peers) : 0;
}

static int n_workers_here(const struct node *n)
{
    int count = 0;

    for (int k = 0; k < n->set.node_count; k++)
        count += n->job.node >= 0 && n->machines[k] == n->machines[n->job.node];
    return count > 0 ? count : 1;
}

/* Shared memory is allocated when it is made (shm/sealed.h). */
int node_check_memory(const struct node *n, struct err *e)
{
    double model = net_bytes(n->spec, n->max_batch) + optimizer_bytes(n);
    double own = exchange_bytes(n->exchange) + (n->model ? vectors(n, 1) : 0), shared = shared_bytes(n);
    double available = memory_shared();
    int n_here = n_workers_here(n);

    fprintf(stderr, "memory: %.3g GB, %.3g for the model and its optimizer, %.3g for exchanges\n",
            (model + own + shared) / 1e9, model / 1e9, (own + shared) / 1e9);
    if (own * n_here <= available)
        return 0;
    err_set(
        e, ERR_NOMEM,
        "the vectors of exchanges take %.3g GB in each of the job's %d workers on this machine, and there "
        "are %.3g GB",
        own / 1e9, n_here, available / 1e9);
    return err_hint(
        e, "A smaller model, or fewer workers on a machine, take less; of the paths, allreduce does.");
}
