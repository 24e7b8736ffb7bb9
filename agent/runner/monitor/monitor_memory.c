#include <errno.h>
#include <sys/resource.h>

#include "agent/runner/monitor/monitor_state.h"
#include "agent/runner/shm/shm_source.h"
#include "shared/process.h"

/* RLIMIT_DATA counts a process's private memory, and no memory that is shared: without this a node could
 * hold as much again. The memory stays counted when it is unmapped: the monitor cannot see whether it is. */
int monitor_make_memory(struct monitor_state *m, uint64_t bytes)
{
    struct rlimit lower = {m->memory_left - bytes, m->memory_left - bytes};
    uint64_t used;

    if (m->memory_left == RLIM_INFINITY)
        return shm_own.memory(NULL, bytes);
    if (!process_data(&used, m->job))
        return -1;
    if (used > m->memory_left || bytes > m->memory_left - used) {
        errno = ENOMEM;
        return -1;
    }
    if (prlimit(m->job, RLIMIT_DATA, &lower, NULL) < 0)
        return -1;
    m->memory_left -= bytes;
    return shm_own.memory(NULL, bytes);
}
