/* monitor_state -- the monitor process's own state. For this folder and its tests. */
#ifndef PSGD_MONITOR_STATE_H
#define PSGD_MONITOR_STATE_H

#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/types.h>

#include "runner/base/stopwatch.h"
#include "runner/lines/orders.h"
#include "runner/lines/report.h"
#include "runner/mesh/tcp/tcp_link.h"
#include "runner/monitor/monitor_output.h"
#include "runner/monitor/monitor_wire.h"
#include "shared/base/child.h"
#include "shared/records/tensor_file.h"

/* One call of the codec, as the monitor sees it. */
struct monitor_call {
    double since;   /* the stopwatch's time of its beginning */
    double took_s;  /* so far, without the time in which one of the two processes was stopped */
    double seen_at; /* of the monitor's last check */
};

/* A connection that the monitor makes, until the peer has sent a HELLO. */
struct monitor_dial {
    struct tcp_config cfg;
    struct tcp_link link;
    int report_fd; /* the job process has the other end */
};

struct monitor_peer {
    size_t index;              /* in the list of peers */
    struct mesh_peer at;       /* without its key */
    struct tcp_places places;  /* n 0: not found yet */
    struct monitor_dial *dial; /* NULL: none; owned */
    bool has_answered;         /* the job process has received a connection to it */
};

/* The job's training program. The second thread starts it, and the first is concerned with it from then
 * on. */
struct monitor_trainer {
    char name[TENSOR_NAME]; /* of its main file */
    struct child child;
    struct monitor_output output;
    bool has_ended;
    bool is_adopted;  /* it has started the node, not the monitor it: it ends when it wants */
    bool is_released; /* it may end */
    bool is_ending;   /* it must: term_at and kill_at are set */
    bool has_failed;  /* the node has, so that the program's status is no news */
    bool has_broken;  /* it has ended with a status other than 0, or by a signal */
    bool is_late;     /* it has not ended within grace_s after the job, and got SIGTERM */
    double grace_s;
    char why[896]; /* how it has ended: a sentence */

    /* Of clock_now; 0: none. */
    double report_at; /* when this process reports its end, unless the job process has done so */
    double term_at, kill_at;
};

/* Tags of the events of answer_poll: this one, or of a connection (monitor_dial.c). */
#define MONITOR_REQUESTS UINT64_MAX

/* The monitor has two threads: the first reads orders and checks limits; the second answers requests, and may
 * wait for a name server or for much memory. Each holds the lock while it uses the state, and not while it
 * waits. */
struct monitor_state {
    pthread_mutex_t lock;
    pid_t job; /* the job process */
    struct report report;
    const struct stopwatch *watch; /* written by the job process */

    struct orders orders; /* the agent's pipe; fd -1: it has ended */
    int relay_fd;         /* the job process reads them here; -1: closed */
    int n_orders;         /* read so far: the job, then the start */
    size_t n_relayed;     /* bytes of the present line that have been passed on */
    struct orders_job job_order;

    struct peer_list list;       /* of the agent's start */
    struct monitor_peer **peers; /* (list.n): NULL: the job process has not asked for it; owned */
    uint32_t attempt;

    uint64_t memory_most; /* what the node may use: the job process's RLIMIT_DATA at its start */
    uint64_t memory_left; /* memory_most less the shared memory made for it: its present limit */
    int status_fd;        /* the job process's /proc/PID/status; -1: it cannot be read here */
    double memory_at;     /* clock_now of the next check of its memory */

    int request_fd;   /* the second thread's */
    int answer_poll;  /* an epoll of what that thread waits for */
    double silent_at; /* no connection is silent for too long before; INFINITY: none will be */

    char codec[MONITOR_NAME_MAX];
    bool is_executor;
    double call_limit_s; /* 0: calls have no limit yet */
    struct monitor_call call;

    struct monitor_trainer *trainer; /* NULL: none; owned */
    pthread_cond_t trainer_ended;    /* of CLOCK_MONOTONIC */

    /* Of clock_now; 0: none. */
    double end_at;   /* when the node ends, as its agent has ended */
    double limit_at; /* the end of the job's time limit */
    double kill_at;  /* when SIGKILL follows SIGTERM */
};

/* monitor.c: writes the node's end to its log and to events.jsonl. */
void monitor_report(struct monitor_state *m, const char *reason, const char *message);

/* monitor_answer: the second thread. Returns when the job process closes its socket, or sends an invalid
 * request. Takes the lock. */
void monitor_answer(struct monitor_state *m);
/* Carries out one request, without receiving and sending; takes the lock. *fd: the descriptor to send, which
 * the caller closes, or -1. */
void monitor_do(struct monitor_state *m, const struct monitor_request *r, struct monitor_reply *reply,
                int *fd);

/* monitor_dial: begins to connect to a peer's place, and closes an earlier connection to the peer. Returns
 * the socket on which the job process receives the state of the connection (struct tcp_link_report), or -1
 * and sets errno. */
int monitor_dial(struct monitor_state *m, struct monitor_peer *p, uint32_t place, const struct tcp_aim *aim);
/* Continues with what answer_poll has found; `tag`: the event's. */
void monitor_continue_dial(struct monitor_state *m, uint64_t tag);
/* Closes the connections whose peer has been silent for too long, and reports that to the job process.
 * Returns the milliseconds until another connection may be closed, or -1: there is none. */
int monitor_end_silent_dials(struct monitor_state *m);
/* Closes all connections that the job process has not received. */
void monitor_end_dials(struct monitor_state *m);

/* monitor_memory: makes memory for the job process, and lowers its limit by as much; releases the lock while
 * the kernel clears the memory. Returns a descriptor, or -1 and sets errno: ENOMEM, with what the job process
 * has it would be more than the job may use. */
int monitor_make_memory(struct monitor_state *m, uint64_t bytes);
/* Checks the memory and the threads of the job process, if a check is due. Returns whether the node must be
 * killed: its end is reported. */
bool monitor_check_memory(struct monitor_state *m, double now);

/* monitor_trainer: starts the job's training program; for the second thread, which must not end as long as
 * the program runs. Releases the lock meanwhile. Returns psgd's end of its socket, or ERR_TRAINER, ERR_NOMEM,
 * ERR_NOSPACE. */
int monitor_trainer_start(struct monitor_state *m, struct err *e);
/* The job process's other requests. The first and the last wait for a second at most, and release the lock
 * meanwhile. The last returns whether the program has ended. */
void monitor_trainer_explain(struct monitor_state *m, char *text, size_t size);
void monitor_trainer_release(struct monitor_state *m, bool has_failed);
bool monitor_trainer_end(struct monitor_state *m, double grace_s);
/* For the first thread: what it waits for, and what it does with the result of poll(); _follow releases the
 * lock where the program has ended. */
enum { TRAINER_POLLS = 1 + N_OUTPUTS };
void monitor_trainer_poll(const struct monitor_state *m, struct pollfd p[TRAINER_POLLS]);
void monitor_trainer_follow(struct monitor_state *m, const struct pollfd p[TRAINER_POLLS], double now);
double monitor_trainer_due(const struct monitor_state *m); /* clock_now of the next check; 0: none */
/* Sends the signals that are due. Returns whether the node must end now: its end is reported. */
bool monitor_trainer_check(struct monitor_state *m, double now);
/* Ends the program at once, with all processes that it has started, before the node ends. */
void monitor_trainer_kill(struct monitor_state *m);

#endif
