/* process -- a process as /proc shows it, this program's or another's. */
#ifndef PSGD_PROCESS_H
#define PSGD_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct process {
    uint64_t start_ticks; /* field 22 of /proc/PID/stat: with the pid it names one process for ever */
    bool has_ended;       /* all of its threads; nobody has waited for it yet */
};

/* A descriptor of /proc/PID/stat. It stays with this process: not one of the same number, made later, is read
 * from it. -1 and errno: ENOENT, there is no such process. */
int process_open(pid_t pid);

/* What it is now; false and errno: ESRCH, it has ended and been waited for. */
bool process_read(struct process *out, int fd);

/* Both at once; false: no such process. */
bool process_look(struct process *out, pid_t pid);

#endif
