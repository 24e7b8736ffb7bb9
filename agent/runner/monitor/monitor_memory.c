#include <errno.h>
#include <sys/resource.h>
#include <unistd.h>

#include "agent/runner/monitor/monitor_state.h"
#include "agent/runner/sandbox/own_user.h"
#include "agent/runner/shm/shm_source.h"
#include "shared/process.h"

/* Without CAP_SYS_RESOURCE, which most containers lack, a limit is lowered by a process with the same real
 * user and group only: root's monitor has the job's for this call. */
static int lower(pid_t job, const struct rlimit *to)
{
    uid_t id = own_user_id(job);
    int rc = prlimit(job, RLIMIT_DATA, to, NULL);

    if (rc == 0 || errno != EPERM || geteuid() != 0)
        return rc;
    if (setresgid(id, (gid_t)-1, (gid_t)-1) == 0 && setresuid(id, (uid_t)-1, (uid_t)-1) == 0)
        rc = prlimit(job, RLIMIT_DATA, to, NULL);
    if (setresuid(0, (uid_t)-1, (uid_t)-1) < 0 || setresgid(0, (gid_t)-1, (gid_t)-1) < 0)
        return -1;
    return rc;
}

/* RLIMIT_DATA counts a process's private memory, and no memory that is shared: without this a node could
 * hold as much again. The memory stays counted when it is unmapped: the monitor cannot see whether it is. */
int monitor_make_memory(struct monitor_state *m, uint64_t bytes)
{
    const struct rlimit less = {m->memory_left - bytes, m->memory_left - bytes};
    uint64_t used;

    if (m->memory_left == RLIM_INFINITY)
        return shm_own.memory(NULL, bytes);
    if (!process_data(&used, m->job))
        return -1;
    if (used > m->memory_left || bytes > m->memory_left - used) {
        errno = ENOMEM;
        return -1;
    }
    if (lower(m->job, &less) < 0)
        return -1;
    m->memory_left -= bytes;
    return shm_own.memory(NULL, bytes);
}
