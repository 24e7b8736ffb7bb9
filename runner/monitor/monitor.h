/* monitor -- the part of a node that its codec cannot reach: a process of its own, forked before the job
 * process reads a package, in its process group. It never loads a codec. It is trusted with
 *
 *   - the agent's orders: it reads the control pipe and passes the lines on;
 *   - time: it ends a node whose codec does not return from a call, a job beyond its time limit, and
 *     before the start a node whose agent has ended. None of this needs the agent, a signal handler or
 *     the job process's consent: the end is reported to events.jsonl and to the node's log, and then
 *     SIGKILL is sent to every process that the job process has started, to the job process and to its
 *     group;
 *   - sockets: it connects to the nodes in the agent's table, at the addresses there, and to the sockets
 *     by which the nodes of this machine share memory (shm/rendezvous.h), and to nothing else. As anybody
 *     may have written the table, the job process gets a connection only when the node at its other end has
 *     sent its HELLO (monitor_dial.c);
 *   - shared memory: it makes the memory that the node shares, and lowers the job process's RLIMIT_DATA by as
 *     much, so that the job's limit of memory covers both together;
 *   - all memory: ten to a hundred times a second it reads how much memory the job process holds, resident or
 *     swapped out, with the page tables, and ends a node that holds more than its limit. RLIMIT_DATA limits
 *     writable memory; most code reaches that limit first, and can report it, but a codec can evade it by
 *     making memory read-only after writing it;
 *   - threads: it ends the node that has more than a user's limit (sandbox/sandbox.h);
 *   - the job's training program (shared/trainer/), which the sandbox would not let the job process start: it
 *     unpacks it into a folder beside the node's, which the job process cannot open, and is its parent. It
 *     copies its output to the node's log, and ends it, with all that it has started, before the node ends.
 *
 * The job process may be hostile once it has loaded the codec. Its requests (monitor_wire.h) are records
 * of one fixed size; after an invalid request the monitor answers no more. The monitor reads two numbers that
 * the job process writes: its phase and the time at which that began (stopwatch.h). A codec that forges them
 * escapes the limit of a call, but not the job's time limit.
 *
 * Time is CLOCK_MONOTONIC, which stops while the machine is suspended, as training does.
 *
 * Its private memory is what it has written since the fork: about 200 KiB, and 50 KiB for a training
 * program. */
#ifndef PSGD_MONITOR_H
#define PSGD_MONITOR_H

#include <stdbool.h>
#include <stdint.h>

#include "runner/base/stopwatch.h"
#include "runner/lines/report.h"
#include "runner/mesh/tcp/tcp_dial.h"
#include "runner/shm/shm_source.h"
#include "shared/base/err.h"

/* The job process's side. */
struct monitor {
    int fd;                  /* the socket of requests */
    int orders_fd;           /* the agent's lines, passed on by the monitor; the caller closes it */
    struct stopwatch *watch; /* the node's, in a page that both processes have mapped */
    bool is_lost;            /* a call of a function below has found that the monitor has ended, or hangs */
    bool hangs;              /* it has not answered a request: no more are made */
    double answer_s;         /* in which it answers a request, besides the time that some take; a minute */
};

/* Forks the monitor, which takes `control_fd`, the agent's pipe. `listen_fd`: the data socket, which the
 * monitor closes: a peer must notice the end of the job process. Call it while the process has one thread.
 * `r`: open; the monitor reports through a copy. ERR_IO. */
int monitor_start(struct monitor *m, int control_fd, int listen_fd, const struct report *r, struct err *e);

/* Make the node's sockets and shared memory by requests to the monitor: once the codec is loaded, this
 * process may make none. Both borrow `m`. */
struct tcp_dialer monitor_dialer(struct monitor *m);
struct shm_source monitor_source(struct monitor *m);

/* From now on the monitor ends the node if a call of the codec `name` takes longer than `limit_s`, or an
 * executor does not call its host for that long. Call it once, before the codec is loaded: loading is the
 * first such call, unloading at the end of the process the last. Before the start the limit is 60 s at most.
 * Time in the codec is what the stopwatch counts as encode, decode or apply; waits have deadlines of their
 * own, and computing has no limit. Time in which the job process is stopped, as by SIGSTOP, does not count.
 * ERR_LOST: the monitor has ended, or has not answered for a minute. */
int monitor_watch(struct monitor *m, bool is_executor, const char *name, double limit_s, struct err *e);

/* Starts the job's training program, ../packages/trainer.safetensors; once, before the codec is loaded. *fd:
 * psgd's end of the socket of trainer_wire.h. *memory_fd: a file of `memory_bytes`, whole pages of zeros, in
 * memory, sealed against other sizes and further seals; it counts as the node's memory. The caller closes
 * both. From now on the end of the program ends the node, with the reason TrainerFailed: the monitor reports
 * that itself, and sends SIGTERM, unless this process asks soon why the program has ended. ERR_TRAINER: the
 * package is not valid, or the program cannot be run. ERR_NOMEM, ERR_NOSPACE, ERR_IO, ERR_LOST. */
int monitor_start_trainer(struct monitor *m, uint64_t memory_bytes, int *fd, int *memory_fd, struct err *e);
/* After the end of file of its socket: ERR_TRAINER, with a message that says how the program has ended, and
 * the last line of its stderr, or that it still runs. This process then reports the node's end, within 5 s.
 * Waits for a second at most. ERR_LOST. */
int monitor_explain_trainer(struct monitor *m, struct err *e);
/* Call it before STOP is sent, and after FAILED has been received: from now on the program may end. If it
 * ends with a status other than 0, that is a warning, unless the node has failed. */
int monitor_release_trainer(struct monitor *m, bool has_failed, struct err *e);
/* After its socket is closed: waits, for a second at most, until the program has ended, with all processes
 * that it has started. grace_s after the first call they get SIGTERM, after as long again SIGKILL; at most
 * 600 s each. Call it until *has_ended, before a success is reported, and after a failure is: the agent kills
 * a node 5 s after its last line. A program that has not ended when this process does is killed at once.
 * Without a program *has_ended is true. ERR_LOST. */
int monitor_end_trainer(struct monitor *m, double grace_s, bool *has_ended, struct err *e);

/* With is_lost: ERR_LOST, with a message that says whether the monitor has ended, or hangs. */
int monitor_explain_loss(const struct monitor *m, struct err *e);

/* After the end of file of `orders_fd`: finds out whether the agent or the monitor has ended. ERR_LOST, with
 * a message that names it. */
int monitor_explain_end(struct monitor *m, struct err *e);

/* From now until monitor_allow_exit, an exit while the stopwatch is in the plug-in (`kind` and `name`:
 * "codec", "plain") ends the process with status 1 and is reported: an exit with status 0 in a call would
 * look like the end of a job. After _exit there is no report, and the agent reports that. Once per process;
 * `watch` and `r` are borrowed. ERR_NOMEM. */
int monitor_guard_exit(const struct stopwatch *watch, const char *kind, const char *name, struct report *r,
                       struct err *e);
void monitor_allow_exit(void);

#endif
