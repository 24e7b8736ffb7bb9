#include "runner/base/affinity.h"

#include <sched.h>
#include <unistd.h>

enum { SPINNERS_MAX = 4 }; /* nodes a processor */

/* sched_getaffinity fails where the machine has more processors than a cpu_set_t. */
int affinity_processors(void)
{
    cpu_set_t own;
    long n = sched_getaffinity(0, sizeof own, &own) == 0 ? CPU_COUNT(&own) : sysconf(_SC_NPROCESSORS_ONLN);

    return n > 0 ? (int)n : 1;
}

bool affinity_is_crowded(int n_nodes)
{
    return n_nodes > (long)SPINNERS_MAX * affinity_processors();
}
