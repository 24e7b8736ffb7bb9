#include "runner/base/affinity.h"

#include <assert.h>
#include <sched.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

enum { SPINNERS_MAX = 4 }; /* nodes a processor */

_Static_assert(sizeof(struct affinity) == sizeof(cpu_set_t), "the processors of a cpu_set_t");

/* sched_getaffinity fails where the machine has more processors than a cpu_set_t. */
void affinity_read(struct affinity *out)
{
    cpu_set_t own;

    *out = (struct affinity){{0}};
    if (sched_getaffinity(0, sizeof own, &own) < 0)
        return;
    for (size_t i = 0; i < CPU_SETSIZE; i++)
        out->words[i / 64] |= (uint64_t)(CPU_ISSET(i, &own) != 0) << i % 64;
}

static int count_processors(const struct affinity *a)
{
    int n = 0;

    for (int i = 0; i < AFFINITY_WORDS; i++)
        n += __builtin_popcountll(a->words[i]);
    if (n == 0)
        n = (int)sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? n : 1;
}

static bool shares_any(const struct affinity *a, const struct affinity *b)
{
    uint64_t both = 0;

    for (int i = 0; i < AFFINITY_WORDS; i++)
        both |= a->words[i] & b->words[i];
    return both != 0;
}

static bool is_within(const struct affinity *a, const struct affinity *b)
{
    uint64_t outside = 0;

    for (int i = 0; i < AFFINITY_WORDS; i++)
        outside |= a->words[i] & ~b->words[i];
    return outside == 0;
}

/* Adds the processors of the nodes that share some of `all`, until there is none left. */
static void join_neighbors(struct affinity *all, const struct affinity *nodes, int n)
{
    for (bool has_grown = true; has_grown;) {
        has_grown = false;
        for (int k = 0; k < n; k++)
            if (shares_any(&nodes[k], all) && !is_within(&nodes[k], all)) {
                for (int i = 0; i < AFFINITY_WORDS; i++)
                    all->words[i] |= nodes[k].words[i];
                has_grown = true;
            }
    }
}

static enum affinity_crowding crowding_of(int n_nodes, int n_processors)
{
    return n_nodes <= n_processors                        ? AFFINITY_ALONE
           : n_nodes <= (long)SPINNERS_MAX * n_processors ? AFFINITY_SHARED
                                                          : AFFINITY_CROWDED;
}

/* Of the nodes that can run on these processors only. */
static enum affinity_crowding crowding_within(const struct affinity *all, const struct affinity *nodes, int n)
{
    int n_within = 0;

    for (int k = 0; k < n; k++)
        n_within += is_within(&nodes[k], all);
    return crowding_of(n_within, count_processors(all));
}

enum affinity_crowding affinity_crowding(const struct affinity *nodes, int n, int me)
{
    struct affinity all = nodes[me];
    enum affinity_crowding own = crowding_within(&all, nodes, n), together;

    join_neighbors(&all, nodes, n);
    together = crowding_within(&all, nodes, n);
    return own > together ? own : together;
}

enum affinity_crowding affinity_crowding_alike(int n)
{
    struct affinity own;

    affinity_read(&own);
    return crowding_of(n, count_processors(&own));
}
