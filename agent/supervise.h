/* supervise -- runner processes: fork and exec, watch by pidfd, signal as a group, say how they ended.
 * docs/protocol.md section 2 says what a runner is born with. */
#ifndef PSGD_SUPERVISE_H
#define PSGD_SUPERVISE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "shared/err.h"

/* {0} is no runner. */
struct runner {
    pid_t pid;
    uint64_t start_ticks; /* shared/process.h: with the pid it names one process for ever */
    int pidfd;
    int control_fd; /* the pipe down to it, -1: closed */
    int gate_fd;    /* before runner_go: the forked child waits at its other end */
    bool is_child;  /* false: adopted after a restart of the agent */
    uint64_t max_memory;
};

struct runner_plan {
    const char *exe;     /* job_runner */
    const char *run_dir; /* its working folder */
    int data_fd;         /* the listening data socket, becomes 4 */
    uint64_t max_memory; /* bytes that are its own: what it allocates; 0: no limit */
    uint64_t max_files;  /* descriptors, not more than the agent's own hard limit */
};

/* Descriptors of a runner in a job of so many nodes: for each other one a connection, and one that is being
 * made again. */
uint64_t runner_files(int n_nodes);

/* Forks, with everything prepared but the exec: the child waits for runner_go, and ends by itself when this
 * process does. So its pid can be written down before it can do anything. */
int runner_fork(struct runner *r, const struct runner_plan *plan, struct err *e);

/* Lets it exec. ERR_IO: it could not, and is gone. */
int runner_go(struct runner *r, const char *exe, struct err *e);

/* Takes up a process of an earlier agent. ERR_NOT_FOUND: it is gone, or the pid is another's now. */
int runner_adopt(struct runner *r, pid_t pid, uint64_t start_ticks, struct err *e);

/* Writes one line down the pipe, which takes up to 1 MiB without waiting. ERR_NOT_FOUND: the runner has
 * ended; ERR_IO: not all of it went, and what did cannot be taken back. */
int runner_order(struct runner *r, const char *line, size_t len, struct err *e);

/* To the whole process group. Nothing happens when the group is gone. */
void runner_signal(const struct runner *r, int signal);

/* After the pidfd became readable: kills what is left of its group, reaps, and says in words how it ended,
 * and how much memory it had where that was most of what it might. */
void runner_reap(struct runner *r, char *how, size_t size);

/* Closes what is held; does not touch the process. */
void runner_clear(struct runner *r);

#endif
