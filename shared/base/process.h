/* process -- reads the state of a process from /proc. */
#ifndef PSGD_PROCESS_H
#define PSGD_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct process {
    uint64_t start_ticks; /* field 22 of /proc/PID/stat: with the pid it identifies a process uniquely */
    pid_t parent;
    bool has_ended;  /* all its threads; not waited for yet */
    bool is_stopped; /* by SIGSTOP or the like */
};

/* Opens /proc/PID/stat. The descriptor refers to this process, never to a later one with the same pid. -1
 * and errno: ENOENT, no such process. */
int process_open(pid_t pid);

/* Reads the current state. Returns false and sets errno: ESRCH, it has ended and been waited for. */
bool process_read(struct process *out, int fd);

/* What identifies this start of the machine, without which a pid says nothing; "" where /proc does not have
 * it. */
enum { PROCESS_BOOT = 37 };
void process_boot(char out[PROCESS_BOOT]);

/* Opens and reads. Returns false if there is no such process. */
bool process_look(struct process *out, pid_t pid);

/* What a process holds of the machine's memory by itself. RLIMIT_DATA limits what it may write to, neither
 * what it has written and then made read-only nor page tables. Files that it has mapped and memory that it
 * shares are not in here. */
struct process_memory {
    uint64_t private_bytes; /* resident and swapped out, huge pages included */
    uint64_t table_bytes;   /* the page tables of its address space */
    uint64_t data_bytes; /* address space of its data and stack, which RLIMIT_DATA limits (stacks: nearly) */
    int n_threads;
};

/* Opens /proc/PID/status, which stays readable when the process has become another user's, or hides itself.
 * -1 and errno. */
int process_open_status(pid_t pid);

/* Reads the figures of `pid`, whose status `fd` is; if its first thread has ended, those of another one.
 * Returns false and sets errno: ESRCH, all of its threads have given up their memory. */
bool process_memory(struct process_memory *out, int fd, pid_t pid);

#endif
