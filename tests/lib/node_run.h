/* node_run -- a node with its monitor: what the node does is a function of the test, which runs in a process
 * of its own. The test is the agent, which holds the other end of the control pipe. */
#ifndef PSGD_TEST_NODE_RUN_H
#define PSGD_TEST_NODE_RUN_H

#include <stdbool.h>
#include <sys/types.h>

#include "runner/lines/orders.h"
#include "runner/lines/report.h"
#include "runner/monitor/monitor.h"

/* Orders of the agent: the job of node 0 with a time limit in seconds; the start of a job without peers. */
#define NODE_RUN_JOB(limit)                                                                                  \
    "{\"job\":\"j-1\",\"attempt\":1,\"node\":0,\"role\":\"worker\",\"time_limit_s\":" limit "}\n"
#define NODE_RUN_KEY         "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
#define NODE_RUN_PEERS(list) "{\"attempt\":1,\"secret\":\"" NODE_RUN_KEY "\",\"peers\":\"" list "\"}\n"
#define NODE_RUN_START       NODE_RUN_PEERS("")

/* In the node's process; the test chooses the last ones, which only its own functions read. */
struct node_process {
    struct monitor monitor;
    struct report report;
    enum phase phase;
    double limit_s, seconds;
};

/* In the test's process. */
struct node_run {
    const char *folder; /* the job's, with the node's working folder run/; removed by node_run_finish */
    pid_t pid;
    int control;        /* the agent's end of the control pipe; -1: the test has closed it */
    int status;         /* of waitpid, after node_run_finish */
    char *events, *log; /* what the node has written, after node_run_finish; NULL: the log is no file of it */
};

/* Starts the process, which ends with status 7 when `act` returns, with 98 if its monitor does not start. The
 * node's stderr is `log`: a name in its folder, or a path. */
void node_run_start(struct node_run *r, const char *log, void (*act)(struct node_process *),
                    struct node_process n);

/* Writes to the control pipe. */
void node_run_give(const struct node_run *r, const char *orders);

/* Waits for the node's end, and closes the control pipe. */
void node_run_finish(struct node_run *r, const char *log);
void node_run_clear(struct node_run *r);

/* Whether it ended by SIGKILL, as the monitor ends a node. */
bool node_run_was_killed(const struct node_run *r);

/* For functions of a node: computes for so long. */
void loop_for(double seconds);
void block_signals(void);

/* Reads the agent's orders up to the start; prints the job, the number of its peers and its time limit. */
struct orders node_process_read_start(struct node_process *n);

#endif
