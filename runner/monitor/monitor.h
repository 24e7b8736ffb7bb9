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
 *   - shared memory: it makes what the node shares, and lowers the job process's RLIMIT_DATA by as much,
 *     so that the job's limit of memory is that of both together;
 *   - memory in all: ten to a hundred times a second it reads what the job process holds, resident or swapped
 *     out, with the page tables, and ends the node that holds more than its limit. RLIMIT_DATA limits the
 *     memory that a process may write to; code without bad intent reaches that limit first, and can report
 *     it, but a codec can evade it by making memory read-only after writing it;
 *   - threads: it ends the node that has more than a user's limit (sandbox/sandbox.h).
 *
 * The job process may be hostile once it has loaded the codec. Its requests (monitor_wire.h) are records
 * of one fixed size; a packet that is no valid request gets no answer and ends the conversation. The
 * monitor reads two numbers that the job process writes: the phase it is in and since when (stopwatch.h).
 * A codec that forges them escapes the limit of a call, not that of the job.
 *
 * Time is CLOCK_MONOTONIC, which stands still while the machine is suspended, as training does.
 *
 * Its private memory is what it has written since the fork: about 200 KiB. */
#ifndef PSGD_MONITOR_H
#define PSGD_MONITOR_H

#include "runner/base/stopwatch.h"
#include "runner/lines/report.h"
#include "runner/mesh/tcp/tcp_dial.h"
#include "runner/shm/shm_source.h"
#include "shared/base/err.h"

/* The job process's side. */
struct monitor {
    int fd;                  /* of requests */
    int orders_fd;           /* the agent's lines, passed on by the monitor; the caller closes it */
    struct stopwatch *watch; /* the node's, in a page that both processes have mapped */
    bool is_lost;            /* a call below has found that the monitor has ended */
};

/* Forks the monitor, which takes `control_fd`, the agent's pipe. `listen_fd`: the data socket, which the
 * monitor closes: a peer must notice the end of the job process. Call it while the process has one thread.
 * `r`: open; the monitor reports through a copy. ERR_IO. */
int monitor_start(struct monitor *m, int control_fd, int listen_fd, const struct report *r, struct err *e);

/* The node's sockets and memory, made by the monitor: once the codec is loaded, this process makes none.
 * Both borrow `m`. */
struct tcp_dialer monitor_dialer(struct monitor *m);
struct shm_source monitor_source(struct monitor *m);

/* From now on a call of the codec `name` that takes longer than `limit_s` ends the node; of an executor,
 * that time without a call of its host. Once, before the codec is loaded, which is the first such call; the
 * last one is its unloading, at the end of the process. Before the start the limit is 60 s at most. Time in
 * the codec is what the stopwatch counts as encode, decode or apply; waiting has deadlines of its own, and
 * computing has no limit. While the job process is stopped, as by SIGSTOP, no time passes. ERR_LOST: the
 * monitor has ended. */
int monitor_watch(struct monitor *m, bool is_executor, const char *name, double limit_s, struct err *e);

/* After the end of `orders_fd`, which is that of the agent or of the monitor: ERR_LOST, with a message that
 * names which. */
int monitor_tell_end(struct monitor *m, struct err *e);

#endif
