/* supervise -- runner processes: fork and exec, watch by pidfd, signal as a group, report how they ended.
 * docs/protocol.md section 2 describes the environment a runner starts in. */
#ifndef PSGD_SUPERVISE_H
#define PSGD_SUPERVISE_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "shared/base/err.h"

/* {0} is no runner. */
struct runner {
    pid_t pid;
    uint64_t start_ticks; /* shared/base/process.h: identifies the process together with the pid */
    int pidfd;
    int control_fd; /* write end of its control pipe; -1: closed */
    int gate_fd;    /* before runner_go: the forked child waits at the other end */
    char *unsent;   /* (n_unsent) orders that the control pipe had no room for; owned */
    size_t n_unsent;
    bool is_child; /* false: adopted after a restart of the agent */
    uint64_t max_memory;
};

struct runner_plan {
    const char *exe;     /* job_runner */
    const char *run_dir; /* its working folder */
    int data_fd;         /* the listening data socket; becomes descriptor 4 */
    int program_fd;      /* the socket of its training program, which runs already; becomes descriptor 7;
                                  * 0: none */
    const cpu_set_t *processors; /* NULL: the agent's */
    uint64_t max_memory;         /* limit of its private memory in bytes; 0: no limit */
    uint64_t max_cpu_s;          /* processor time of all its threads; 0: no limit */
    uint64_t max_files;          /* descriptors, not more than the agent's own hard limit */
    bool is_of_launcher;         /* it has all of the agent's environment, and the descriptor PMI_FD, by which
                                  * an MPI talks to its launcher */
};

/* Returns the descriptor limit of a runner in a job of `n_nodes` nodes: for each other node a connection,
 * and one that is being re-established. */
uint64_t runner_files(int n_nodes);

/* Forks and prepares everything but the exec: the child waits for runner_go, and exits if this process ends.
 * So its pid can be recorded before the runner does anything. */
int runner_fork(struct runner *r, const struct runner_plan *plan, struct err *e);

/* Lets the child exec. ERR_IO: exec failed, and the child has ended. Returns 0 also if the child was killed
 * before: runner_reap reports that. */
int runner_go(struct runner *r, const char *exe, struct err *e);

/* Adopts a process of an earlier agent. ERR_NOT_FOUND: it has ended, or its pid is another process's now. */
int runner_adopt(struct runner *r, pid_t pid, uint64_t start_ticks, struct err *e);

/* Writes one line to the control pipe. What does not fit is kept: if n_unsent > 0 afterwards, call
 * runner_flush whenever control_fd is writable. ERR_NOT_FOUND: the runner has ended. ERR_IO, ERR_NOMEM: a
 * part may be written, which cannot be undone. */
int runner_order(struct runner *r, const char *line, size_t len, struct err *e);

/* Writes kept orders as far as the pipe takes them. Returns whether nothing is left; orders to a runner that
 * has ended are dropped. */
bool runner_flush(struct runner *r);

/* Signals the whole process group; no effect if the group has ended. */
void runner_signal(const struct runner *r, int signal);

/* Asks a node by a signal that its process handles, and others ignore: SIGURG for its model, SIGUSR1 for a
 * checkpoint. */
void runner_ask(const struct runner *r, int signal);

/* Call when the pidfd is readable: kills the rest of its group, reaps it, and describes in `how` how it
 * ended, with its peak memory if that was more than half of the limit. */
void runner_reap(struct runner *r, char *how, size_t size);

/* Closes the descriptors; does not signal the process. */
void runner_clear(struct runner *r);

#endif
