/* executor -- the interface of an executor: a plug-in whose function runs on each node of a job, on the
 * node's shard of the input, and is no training (docs/executors.md).
 *
 *     static int run(struct executor *x)
 *     {
 *         double n = (double)x->n_input;
 *         int rc = x->host->reduce_doubles(x, EXECUTOR_SUM, &n, 1);
 *
 *         return rc < 0 ? rc : x->host->print(x, "%.0f bytes on all nodes\n", n);
 *     }
 *
 *     EXECUTOR_PLUGIN(.name = "size", .run = run)
 *
 * run() is called once, by one thread. It may compute, allocate memory, and call its host; it ends the
 * node's part when it returns: 0 for success, or the negative code that a function of the host returned.
 * What it prints to stdout or stderr goes to the node's log.
 *
 * The host ends an executor that neither returns nor calls it for three quarters of --round-timeout, so
 * a long computation calls progress() now and then. Within a call the host waits for other nodes, for at
 * most --round-timeout; then the job ends with a message that names the missing node. The sandbox and all
 * limits are those of a codec (SECURITY.md). */
#ifndef PSGD_EXECUTOR_H
#define PSGD_EXECUTOR_H

#include <stddef.h>
#include <stdint.h>

#define EXECUTOR_ABI 1 /* incremented when a change of this file breaks compiled executors */

struct executor_host;

/* Owned by the host; an executor only reads it. */
struct executor {
    int node, n_nodes; /* node 0 .. n_nodes-1 */
    /* This node's shard of --data: consecutive bytes, shard 0 first. Text is cut at ends of lines, so
     * that each line is whole on one node. input[n_input] is 0. */
    const char *input;
    size_t n_input;
    const char *const *args; /* (n_args), then NULL: what follows `--` on job_submit's command line */
    int n_args;
    const struct executor_host *host;
};

struct executor_bytes {
    const void *bytes;
    size_t n;
};

enum executor_fold { EXECUTOR_SUM, EXECUTOR_PRODUCT, EXECUTOR_MAX, EXECUTOR_MIN };

/* Limits in bytes. */
#define EXECUTOR_MESSAGE_MAX ((size_t)1 << 30) /* of a message, or a vector */
#define EXECUTOR_OUTPUT_MAX  ((size_t)1 << 30) /* of a node's output.txt */

/* Functions of the host. Those that return int return 0, or a negative code that run() must return at
 * once: the node then ends with the host's message. New fields are only appended. */
struct executor_host {
    /* Writes a line to the node's log. */
    void (*log)(struct executor *x, const char *fmt, ...);
    /* Ends this node's part in the job with an error message for the user. Returns the code to return. */
    int (*fail)(struct executor *x, const char *fmt, ...);
    /* How much is done, 0 to 100, as job_submit shows it; 100 is shown only when run() has returned.
     * The call also shows that the executor does not hang, and receives messages; it may be made often. */
    int (*progress)(struct executor *x, double percent);

    /* Appends to this node's result file, which job_submit collects as output/node-K.txt. */
    int (*print)(struct executor *x, const char *fmt, ...);
    int (*write)(struct executor *x, const void *bytes, size_t n);

    /* Messages, in order for each pair of nodes. send() returns when the message is queued, which may
     * take until the other node is in a call of its host; receive() waits for the next message of that
     * node, whose bytes are valid until the next receive() or gather(). A node keeps messages that it
     * has not received yet in its memory. */
    int (*send)(struct executor *x, int to, const void *bytes, size_t n);
    int (*receive)(struct executor *x, int from, struct executor_bytes *out);

    /* Called by all nodes, in the same order. */

    /* v[i] of every node becomes the sum (product, greatest, least) of all nodes' v[i]: the same bits on
     * each, folded in the order of the nodes. n is the same on all. The greatest of NAN and a number is
     * NAN. */
    int (*reduce_doubles)(struct executor *x, enum executor_fold how, double *v, size_t n);
    int (*reduce_floats)(struct executor *x, enum executor_fold how, float *v, size_t n);
    /* On node `root` out[k] becomes the bytes of node k, valid until the next receive() or gather();
     * elsewhere `out` is not used and may be NULL. The nodes' n may differ. Uses the messages' order,
     * too. */
    int (*gather)(struct executor *x, int root, const void *bytes, size_t n, struct executor_bytes *out);
    /* `bytes` of every node become those of `root`; n is the same on all. */
    int (*broadcast)(struct executor *x, int root, void *bytes, size_t n);
};

struct executor_plugin {
    uint32_t abi, plugin_size, executor_size, host_size; /* set by EXECUTOR_PLUGIN, checked on loading */
    const char *name;                                    /* 1 to 32 of a-z, 0-9, _ */
    int (*run)(struct executor *x);
};

#define EXECUTOR_SYMBOL "executor_plugin"
#define EXECUTOR_PLUGIN(...)                                                                                 \
    extern const struct executor_plugin executor_plugin;                                                     \
    const struct executor_plugin executor_plugin = {.abi = EXECUTOR_ABI,                                     \
                                                    .plugin_size = sizeof(struct executor_plugin),           \
                                                    .executor_size = sizeof(struct executor),                \
                                                    .host_size = sizeof(struct executor_host),               \
                                                    __VA_ARGS__};

#endif
