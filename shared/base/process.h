/* process -- reads the state of a process from /proc, and ends the descendants of a process. */
#ifndef PSGD_PROCESS_H
#define PSGD_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct process {
    uint64_t start_ticks; /* field 22 of /proc/PID/stat: with the pid it identifies a process uniquely */
    pid_t parent;
    bool has_ended;  /* all its threads have, and it has not been waited for */
    bool is_stopped; /* by SIGSTOP or the like */
};

/* Opens /proc/PID/stat. The descriptor refers to this process, never to a later one with the same pid. -1
 * and errno: ENOENT, no such process. */
int process_open(pid_t pid);

/* Reads the current state. Returns false and sets errno: ESRCH, it has ended and been waited for. */
bool process_read(struct process *out, int fd);

/* process_open and process_read at once. Returns false if there is no such process. */
bool process_look(struct process *out, pid_t pid);

/* Writes the identifier of this boot of the machine: a pid of another boot means another process. "" where
 * /proc does not have it. */
enum { PROCESS_BOOT = 37 };
void process_boot(char out[PROCESS_BOOT]);

/* Memory of a process alone, without mapped files and shared memory. RLIMIT_DATA limits the part of it that
 * the process may write to; it limits neither pages that were made read-only after they were written, nor
 * page tables. */
struct process_memory {
    uint64_t private_bytes; /* resident and swapped out, huge pages included */
    uint64_t table_bytes;   /* the page tables of its address space */
    uint64_t data_bytes; /* address space of its data and stack, which RLIMIT_DATA limits (stacks: nearly) */
    int n_threads;
};

/* Opens /proc/PID/status. The descriptor stays readable when the process has become another user's, or has
 * made itself not dumpable (prctl(2)). -1 and errno. */
int process_open_status(pid_t pid);

/* Reads the memory of `pid`, whose status is open as `fd`. If the first thread has ended, another thread's
 * status has it. Returns false and sets errno: ESRCH, all threads have ended. */
bool process_memory(struct process_memory *out, int fd, pid_t pid);

/* Sends SIGKILL to each descendant of `root`, whatever session or process group it has moved to, and returns
 * how many descendants had not ended. Children of the root for which `is_kept` returns true are not killed,
 * nor are their descendants; NULL: all are killed. A process whose parent has ended is found only if its new
 * parent, the nearest subreaper (PR_SET_CHILD_SUBREAPER in prctl(2)), is the root or a descendant. All are
 * stopped before the first is killed, so that only a process forked just before that can be missed: call
 * again until the result is 0. */
size_t process_kill_descendants(pid_t root, bool (*is_kept)(void *arg, pid_t child), void *arg);

/* For a subreaper: kills the descendants of this process except those that are kept, as above, in several
 * rounds, and waits for the children among them. */
void process_end_orphans(bool (*is_kept)(void *arg, pid_t child), void *arg);

#endif
