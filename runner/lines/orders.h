/* orders -- the agent's orders to its runner over the control pipe (docs/protocol.md §2): first the job,
 * then start. */
#ifndef PSGD_ORDERS_H
#define PSGD_ORDERS_H

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/base/crypto.h"
#include "shared/base/err.h"
#include "shared/base/flag.h"
#include "shared/job/data_place.h"
#include "shared/job/peer_list.h"
#include "shared/plugin/isolation.h"
#include "shared/trainer/trainer_isolation.h"

enum { ORDERS_FD = 3, ORDERS_LISTEN_FD = 4, ORDERS_PROGRAM_FD = 7 };

/* The message of an ERR_CODEC: only code in this process can have closed the descriptor. */
#define ORDERS_CLOSED                                                                                        \
    "a descriptor of this node has been closed in its own process: does the codec close what it has not "    \
    "opened?"

struct orders_job {
    char job[64];
    int attempt, node;
    int workers_on_host; /* workers of this job that share the machine's processors; 0: not given */
    char role[8];
    double time_limit_s;              /* from the start; 0: none */
    enum isolation require_isolation; /* the lowest level at which this codec may run */
    bool own_tree;                    /* the agent's nodes have a tree of directories of their own */
    bool ends_with_agent;             /* also after the start: it is of a job folder */
    bool program_runs; /* the training program has started the node, and its socket is ORDERS_PROGRAM_FD */
    /* The interpreter of training programs in Python, an absolute path; "": the agent has none, or this node
     * runs no training program. */
    char trainer_python[PATH_MAX];
    enum trainer_isolation trainer_isolation;
    char trainer_data[PATH_MAX];         /* a folder that a confined program may read; "": none */
    char data_folders[DATA_FOLDERS_MAX]; /* of data_place_open */
};

struct orders_start {
    int attempt;
    uint8_t secret[SHA256_BYTES]; /* that all nodes of the job have (runner/mesh/tcp/data_key.h) */
    struct peer_list peers;       /* the nodes that this one may need, and mostly all of the job */
    bool is_crowded;              /* on some machine the job has many workers, and many for each processor */
};

struct orders {
    int fd;
    char *text; /* (cap): read and not consumed yet, possibly with a part of the next line */
    size_t len, cap;
};

void orders_open(struct orders *o, int fd);
void orders_close(struct orders *o);

/* Reads the available bytes once. ERR_LOST: the pipe has ended. ERR_PROTOCOL: a line is too long. ERR_CODEC:
 * ORDERS_CLOSED. */
int orders_fill(struct orders *o, struct err *e);
/* The first complete line, without its line feed; false: there is none. Valid until orders_drop, which
 * removes it. */
bool orders_line(const struct orders *o, const char **line, size_t *len);
void orders_drop(struct orders *o);
int orders_parse_job(struct orders_job *out, const char *line, size_t len, struct err *e);
/* The caller clears the result. */
int orders_parse_start(struct orders_start *out, const char *line, size_t len, struct err *e);

/* Each waits for its line. ERR_LOST: the pipe has ended. ERR_CANCELLED: a signal requested the stop.
 * ERR_PROTOCOL. */
int orders_read_job(struct orders *o, struct orders_job *out, struct err *e);
int orders_read_start(struct orders *o, struct orders_start *out, const atomic_bool *interrupted,
                      struct err *e);
void orders_start_clear(struct orders_start *s);

#endif
