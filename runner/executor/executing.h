/* executing -- one executor at work on one node: the host of codecs/executor.h, on the node's exchange.
 *
 * For the exchange it is an event rule of the runner's own, without parameters and gradients: messages
 * between executors are messages of that rule, their vectors its collectives. A function of the host that
 * waits passes events to the exchange until the message or collective is complete, with the deadline of a
 * training job's waits. So loss of nodes, timeouts, encryption, shared memory and statistics are those of any
 * job. */
#ifndef PSGD_EXECUTING_H
#define PSGD_EXECUTING_H

#include "runner/executor/mailbox.h"
#include "runner/node.h"
#include "shared/plugin/codec_load.h"

enum { EXECUTOR_STEPS = 100 /* percent, as the steps of a training job */ };
enum { OUTPUT_HELD = 64 * 1024 };

struct output { /* the file output.txt */
    int fd;     /* -1: not open */
    char *held; /* (OUTPUT_HELD), of which n_held are not written yet */
    size_t n_held;
    uint64_t n_bytes; /* so far */
};

/* Vectors for collectives: one input, and two outputs, which collectives use in turn, because peers may read
 * the result of the last collective until the next one is done. */
struct vectors {
    char *in, *out[2]; /* (room) each, in one block that begins with `in`; NULL: none yet */
    size_t room;
    int last;  /* out[last] is the result of the last collective */
    char *old; /* the previous block, until a collective in this one is done */
};

struct executing {
    struct executor x; /* what the executor sees; first: executing_of */
    struct node *n;
    struct codec_plugin rule;
    struct channel *channel; /* the exchange's only one; NULL: not open */
    struct tensor_file input;
    char *arguments; /* of the settings, cut into args */
    const char **args;
    struct output output;
    struct mailbox *mailboxes;      /* (n_nodes) */
    struct mailbox_message **taken; /* (n_nodes): the messages that the executor reads */
    struct vectors vectors;
    int percent;
    struct err failed; /* the first error; code 0: none. Every later call returns it */
};

static inline struct executing *executing_of(struct executor *x)
{
    return (struct executing *)x;
}

extern const struct executor_host executing_host;

/* Opens the node's exchange with the rule. ERR_NOMEM. */
int executing_open_rule(struct executing *ex, struct err *e);
/* Creates output.txt in the working folder. ERR_NOSPACE, ERR_IO, ERR_NOMEM. */
int executing_open_output(struct executing *ex, struct err *e);
/* Writes what is held, and syncs the file to the disk. ERR_NOSPACE, ERR_IO. */
int executing_sync_output(struct executing *ex, struct err *e);
/* Reports its progress to the agent. */
void executing_report(const struct executing *ex);
void executing_clear(struct executing *ex); /* at any point */

#endif
