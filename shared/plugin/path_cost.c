#include "shared/plugin/path_cost.h"

double path_cost_time(struct path_cost c)
{
    return (16 << 10) * (double)c.messages + c.bytes;
}

struct path_cost path_cost_direct(int n_workers, double bytes)
{
    return (struct path_cost){1, (n_workers - 1) * bytes};
}

struct path_cost path_cost_circulant(int n_workers, double bytes)
{
    struct path_cost c = {2, 2.0 * (n_workers - 1) / n_workers * bytes};

    /* From 3: of three slices none waits for another. */
    for (int reached = 3; reached < n_workers; reached *= 2)
        c.messages += 2;
    return c;
}

/* Of the algorithms, as collective_choose() has it. */
static struct path_cost flat(int n_workers, double bytes)
{
    struct path_cost direct = path_cost_direct(n_workers, bytes);
    struct path_cost circulant = path_cost_circulant(n_workers, bytes);

    return path_cost_time(direct) <= path_cost_time(circulant) ? direct : circulant;
}

struct path_cost path_cost(enum combine_path_kind kind, const struct path_layout *l)
{
    double others = l->n_workers - l->n_here_most; /* to which each worker of that machine sends */
    struct path_cost c;

    if (l->n_workers < 2 || l->n_machines < 2 || kind == COMBINE_PATH_SERVERS)
        return (struct path_cost){0};
    if (kind == COMBINE_PATH_TREE)
        return path_cost_circulant(l->n_machines, l->bytes);
    c = kind == COMBINE_PATH_GATHER ? path_cost_direct(l->n_workers, l->bytes) : flat(l->n_workers, l->bytes);
    c.bytes *= l->n_here_most * others / (l->n_workers - 1);
    return c;
}
