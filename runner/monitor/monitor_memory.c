/* monitor_memory -- enforces the limits of a node's memory and threads (how many: sandbox_threads()), and
 * makes memory for the job process. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "runner/monitor/monitor_state.h"
#include "runner/shm/shm_source.h"
#include "shared/base/process.h"
#include "shared/job/reason.h"
#include "shared/sandbox/sandbox.h"

/* A check takes some 10 us. The next one is due when a process that uses all processors could have reached
 * the limit, but no later than after LOOK_MOST_S, because threads are counted as well. */
static const double LOOK_LEAST_S = 0.01, LOOK_MOST_S = 0.1;
static const double FASTEST = 4e9; /* bytes that a processor allocates and clears in a second */

/* A node may exceed the limit by memory that RLIMIT_DATA does not count: the code and read-only data of its
 * libraries, stacks, and page tables, which take one 512th of the mapped memory. */
enum { LOADED = 64 << 20, TABLES_PART = 256 };

/* Without CAP_SYS_RESOURCE, which most containers lack, only a process with the same real user and group may
 * lower another's limit: a monitor of root takes the job's ids for this call. */
static int lower_limit(pid_t job, const struct rlimit *to)
{
    uid_t id = sandbox_user_id(job);
    int rc = prlimit(job, RLIMIT_DATA, to, NULL);

    if (rc == 0 || errno != EPERM || geteuid() != 0)
        return rc;
    if (setresgid(id, (gid_t)-1, (gid_t)-1) == 0 && setresuid(id, (uid_t)-1, (uid_t)-1) == 0)
        rc = prlimit(job, RLIMIT_DATA, to, NULL);
    if (setresuid(0, (uid_t)-1, (uid_t)-1) < 0 || setresgid(0, (gid_t)-1, (gid_t)-1) < 0)
        return -1;
    return rc;
}

/* RLIMIT_DATA counts private memory only: without this reduction a node could hold as much shared memory
 * again. The reduction remains when the memory is unmapped, because the monitor cannot see that. */
int monitor_make_memory(struct monitor_state *m, uint64_t bytes)
{
    const struct rlimit less = {m->memory_left - bytes, m->memory_left - bytes};
    struct process_memory now;
    int fd;

    if (m->memory_left == RLIM_INFINITY)
        return shm_own.memory(NULL, bytes);
    if (!process_memory(&now, m->status_fd, m->job))
        return -1;
    if (now.data_bytes > m->memory_left || bytes > m->memory_left - now.data_bytes) {
        errno = ENOMEM;
        return -1;
    }
    if (lower_limit(m->job, &less) < 0)
        return -1;
    m->memory_left -= bytes;
    pthread_mutex_unlock(&m->lock);
    fd = shm_own.memory(NULL, bytes);
    pthread_mutex_lock(&m->lock);
    return fd;
}

static double next_look(uint64_t room)
{
    return fmax(LOOK_LEAST_S, fmin(LOOK_MOST_S, (double)room / (FASTEST * sandbox_processors())));
}

static bool has_too_much(struct monitor_state *m, const struct process_memory *p)
{
    uint64_t shared = m->memory_most - m->memory_left, used = p->private_bytes + p->table_bytes + shared;
    uint64_t most = m->memory_most + m->memory_most / TABLES_PART + LOADED;
    char text[256];

    m->memory_at += next_look(used < most ? most - used : 0);
    if (used <= most)
        return false;
    snprintf(
        text, sizeof text,
        "the node uses %.2f GiB of memory, of the %.2f GiB that a job may use here: %.2f GiB are private, "
        "%.2f GiB shared, %.2f GiB page tables",
        (double)used / 0x1p30, (double)m->memory_most / 0x1p30, (double)p->private_bytes / 0x1p30,
        (double)shared / 0x1p30, (double)p->table_bytes / 0x1p30);
    monitor_report(m, REASON_OUT_OF_MEMORY, text);
    return true;
}

/* Threads are limited because each takes kernel memory; RLIMIT_NPROC limits them only where the node has its
 * own user. */
static bool has_too_many_threads(struct monitor_state *m, const struct process_memory *p)
{
    char text[128];

    if (p->n_threads <= sandbox_threads())
        return false;
    snprintf(text, sizeof text, "the node has %d threads, and at most %d are allowed here", p->n_threads,
             sandbox_threads());
    monitor_report(m, REASON_CODEC_FAILED, text);
    return true;
}

bool monitor_check_memory(struct monitor_state *m, double now)
{
    struct process_memory p;

    if (now < m->memory_at)
        return false;
    m->memory_at = now;
    if (m->status_fd < 0 || !process_memory(&p, m->status_fd, m->job)) {
        m->memory_at += LOOK_MOST_S;
        return false;
    }
    if (m->memory_most == RLIM_INFINITY)
        m->memory_at += LOOK_MOST_S;
    else if (has_too_much(m, &p))
        return true;
    return has_too_many_threads(m, &p);
}
