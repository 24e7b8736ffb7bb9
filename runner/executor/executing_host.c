/* executing_host -- the functions of struct executor_host. The executor's own time counts as PHASE_APPLY, in
 * which the monitor limits it; each call ends that time, and begins it anew when it returns. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "runner/exchange/exchange_private.h"
#include "runner/executor/executing.h"

/* Returns whether the call may do its work: after an error none does. */
static bool enter_call(struct executing *ex)
{
    phase_enter(ex->n->monitor->watch, PHASE_WAIT);
    return !ex->failed.code;
}

static int leave_call(struct executing *ex)
{
    phase_enter(ex->n->monitor->watch, PHASE_APPLY);
    return ex->failed.code;
}

static int refuse_call(struct executing *ex, const char *fmt, ...)
{
    char text[512];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (!ex->failed.code)
        err_set(&ex->failed, ERR_CODEC, "executor %s: %s", ex->rule.name, text);
    return leave_call(ex);
}

/* After work that returned rc. An error that is the executor's own names it. */
static int end_program_call(struct executing *ex, int rc, const struct err *e)
{
    if (rc < 0) {
        ex->failed = *e;
        if (rc == ERR_CODEC)
            err_at(&ex->failed, "executor %s", ex->rule.name);
    }
    return leave_call(ex);
}

static bool is_node(const struct executing *ex, int node)
{
    return node >= 0 && node < ex->x.n_nodes;
}

static void host_log(struct executor *x, const char *fmt, ...)
{
    struct executing *ex = executing_of(x);
    char text[512];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    fprintf(stderr, "executor %s: %s\n", ex->rule.name, text);
    leave_call(ex);
}

static int host_fail(struct executor *x, const char *fmt, ...)
{
    char text[512];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return refuse_call(executing_of(x), "%s", text);
}

static int host_progress(struct executor *x, double percent)
{
    struct executing *ex = executing_of(x);
    struct err e;

    if (!enter_call(ex))
        return leave_call(ex);
    if (percent > ex->percent) /* the last percent is the host's: run() has returned */
        ex->percent = percent < EXECUTOR_STEPS - 1 ? (int)percent : EXECUTOR_STEPS - 1;
    if (report_is_due(ex->n->report, stopwatch_since(ex->n->monitor->watch)))
        node_report_executing(ex->n);
    return end_program_call(ex, node_receive(ex->n, &e), &e);
}

static int host_write(struct executor *x, const void *bytes, size_t n)
{
    struct executing *ex = executing_of(x);
    struct err e;

    return enter_call(ex) ? end_program_call(ex, output_write(&ex->output, bytes, n, &e), &e)
                          : leave_call(ex);
}

static int host_print(struct executor *x, const char *fmt, ...)
{
    char *text = NULL;
    va_list ap;
    int n, rc;

    va_start(ap, fmt);
    n = vasprintf(&text, fmt, ap);
    va_end(ap);
    if (n < 0)
        return refuse_call(executing_of(x), "print(): no memory, or a bad format");
    rc = host_write(x, text, (size_t)n);
    free(text);
    return rc;
}

static int host_send(struct executor *x, int to, const void *bytes, size_t n)
{
    struct executing *ex = executing_of(x);
    struct err e;

    if (!enter_call(ex))
        return leave_call(ex);
    if (!is_node(ex, to) || to == x->node)
        return refuse_call(ex, "node %d sends to node %d; a message goes to another node, 0 to %d", x->node,
                           to, x->n_nodes - 1);
    if (n > EXECUTOR_MESSAGE_MAX)
        return refuse_call(ex, "it sends a message of %zu bytes; the longest has %zu", n,
                           EXECUTOR_MESSAGE_MAX);
    return end_program_call(ex, executing_send(ex, to, bytes, n, &e), &e);
}

static void drop_taken(struct executing *ex)
{
    for (int k = 0; k < ex->x.n_nodes; k++) {
        free(ex->taken[k]);
        ex->taken[k] = NULL;
    }
}

static int take_message(struct executing *ex, int from, struct executor_bytes *out, struct err *e)
{
    if (executing_wait_for(ex, from, e) < 0)
        return e->code;
    ex->taken[from] = mailbox_next(&ex->mailboxes[from]);
    *out = (struct executor_bytes){ex->taken[from]->bytes, ex->taken[from]->n};
    return 0;
}

static int host_receive(struct executor *x, int from, struct executor_bytes *out)
{
    struct executing *ex = executing_of(x);
    struct err e;

    if (!enter_call(ex))
        return leave_call(ex);
    if (!is_node(ex, from) || from == x->node)
        return refuse_call(ex, "node %d receives from node %d; a message comes from another node, 0 to %d",
                           x->node, from, x->n_nodes - 1);
    drop_taken(ex);
    return end_program_call(ex, take_message(ex, from, out, &e), &e);
}

static int host_gather(struct executor *x, int root, const void *bytes, size_t n, struct executor_bytes *out)
{
    struct executing *ex = executing_of(x);
    struct err e;
    int rc = 0;

    if (!enter_call(ex))
        return leave_call(ex);
    if (!is_node(ex, root))
        return refuse_call(ex, "it gathers on node %d, and the nodes are 0 to %d", root, x->n_nodes - 1);
    if (n > EXECUTOR_MESSAGE_MAX)
        return refuse_call(ex, "it gathers %zu bytes of a node; the most is %zu", n, EXECUTOR_MESSAGE_MAX);
    if (root != x->node)
        return end_program_call(ex, executing_send(ex, root, bytes, n, &e), &e);
    drop_taken(ex);
    out[root] = (struct executor_bytes){bytes, n};
    for (int k = 0; k < x->n_nodes && rc == 0; k++)
        if (k != root)
            rc = take_message(ex, k, &out[k], &e);
    return end_program_call(ex, rc, &e);
}

static int fold_values(struct executor *x, enum fold_type type, enum executor_fold how, void *v, size_t n)
{
    struct executing *ex = executing_of(x);
    struct err e;

    if (!enter_call(ex))
        return leave_call(ex);
    if (n > EXECUTOR_MESSAGE_MAX / sizeof(double))
        return refuse_call(ex, "it reduces %zu numbers; the most is %zu", n,
                           EXECUTOR_MESSAGE_MAX / sizeof(double));
    return end_program_call(ex, executing_reduce(ex, type, how, v, n, &e), &e);
}

static int host_reduce_doubles(struct executor *x, enum executor_fold how, double *v, size_t n)
{
    return fold_values(x, FOLD_DOUBLE, how, v, n);
}

static int host_reduce_floats(struct executor *x, enum executor_fold how, float *v, size_t n)
{
    return fold_values(x, FOLD_FLOAT, how, v, n);
}

static int host_broadcast(struct executor *x, int root, void *bytes, size_t n)
{
    struct executing *ex = executing_of(x);
    struct err e;

    if (!enter_call(ex))
        return leave_call(ex);
    if (!is_node(ex, root))
        return refuse_call(ex, "node %d broadcasts, and the nodes are 0 to %d", root, x->n_nodes - 1);
    if (n > EXECUTOR_MESSAGE_MAX)
        return refuse_call(ex, "it broadcasts %zu bytes; the most is %zu", n, EXECUTOR_MESSAGE_MAX);
    return end_program_call(ex, executing_broadcast(ex, root, bytes, n, &e), &e);
}

const struct executor_host executing_host = {.log = host_log,
                                             .fail = host_fail,
                                             .progress = host_progress,
                                             .print = host_print,
                                             .write = host_write,
                                             .send = host_send,
                                             .receive = host_receive,
                                             .reduce_doubles = host_reduce_doubles,
                                             .reduce_floats = host_reduce_floats,
                                             .gather = host_gather,
                                             .broadcast = host_broadcast};
