/* executing -- one executor at work on one node: the host of codecs/executor.h, on the node's exchange.
 *
 * Towards the exchange it is an event rule of the runner's own, without parameters and gradients
 * (executing_rule.c): messages between executors are that rule's messages, their vectors its
 * collectives. A function of the host that waits passes in events until the rule has what it waits for,
 * with the deadline of a training job's waits. So loss of nodes, timeouts, encryption, shared memory and
 * statistics are those of any job. */
#ifndef PSGD_EXECUTING_H
#define PSGD_EXECUTING_H

#include "runner/executor/fold.h"
#include "runner/executor/mailbox.h"
#include "runner/executor/output.h"
#include "runner/node.h"
#include "shared/plugin/executor_load.h"

enum { EXECUTOR_STEPS = 100 /* percent, as the steps of a training job */ };

/* Vectors for collectives: one input, and two outputs, which collectives use in turn, because peers may read
 * the result of the last collective until the next one is done. */
struct vectors {
    char *in, *out[2]; /* (room) each, in one block that begins with `in`; NULL: none yet */
    size_t room;
    int last;  /* out[last] is the result of the last collective */
    char *old; /* the block before, until a collective in this one is done */
};

struct executing {
    struct executor x; /* what the executor sees; first: executing_of */
    struct node *n;
    struct codec_plugin rule;
    struct channel *channel; /* the exchange's only one; NULL: not open */
    struct tensor_file input;
    char *arguments; /* the settings', cut */
    const char **args;
    struct output output;
    struct mailbox *mailboxes;      /* (n_nodes) */
    struct mailbox_message **taken; /* (n_nodes): those that the executor reads */
    struct vectors vectors;
    int percent;
    struct err failed; /* the first error; code 0: none. Every later call returns it */
};

static inline struct executing *executing_of(struct executor *x)
{
    return (struct executing *)x;
}

extern const struct executor_host executing_host;

/* executing_rule.c: opens the node's exchange with the rule. */
int executing_open_rule(struct executing *ex, struct err *e);
/* Waits for what the channel waits for. Each returns 0, or the code of *e. */
int executing_wait(struct executing *ex, struct err *e);
/* Waits for a message of node `from`. */
int executing_wait_for(struct executing *ex, int from, struct err *e);
/* Queues a message for node `to`, and waits while its queue is long. */
int executing_send(struct executing *ex, int to, const char *bytes, size_t n, struct err *e);

/* executing_vectors.c */
int executing_reduce(struct executing *ex, enum fold_type type, enum executor_fold how, void *v, size_t n,
                     struct err *e);
int executing_broadcast(struct executing *ex, int root, void *bytes, size_t n, struct err *e);
void vectors_clear(struct vectors *v);

#endif
