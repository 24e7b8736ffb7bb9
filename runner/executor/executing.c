/* executing -- one executor at work: the functions of struct executor_host, at the end of this file, over the
 * event rule by which executors exchange messages and vectors. The executor's own time counts as PHASE_APPLY,
 * which the monitor limits; each call of the host ends that time, and begins it anew when it returns. */
#include <fcntl.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runner/exchange/channel.h"
#include "runner/exchange/exchange_step.h"
#include "runner/executor/executing.h"
#include "runner/executor/fold.h"
#include "shared/base/clock.h"
#include "shared/base/file.h"
#include "shared/records/artifacts.h"

/* The event rule. Its messages are those between executors. */

/* The state of the rule is a pointer. */
static struct executing *executing_in(const struct codec *c)
{
    return *(struct executing **)c->state;
}

static bool has_message(const struct executing *ex, int from)
{
    return ex->mailboxes[from].first != NULL;
}

/* A message may arrive during a wait for another node's message or for a collective, which then continues. */
static int on_message(struct codec *c, int from, struct wire_in *in)
{
    struct executing *ex = executing_in(c);
    struct err e;

    if (mailbox_take_in(&ex->mailboxes[from], in, &e) < 0)
        return err_set(channel_err(ex->channel), e.code, "node %d: %s", from, e.text);
    return ex->channel->awaited == from && has_message(ex, from) ? CODEC_GO : CODEC_WAIT;
}

static int on_collective(struct codec *c)
{
    (void)c;
    return CODEC_GO;
}

static size_t message_bytes(const struct codec *c)
{
    (void)c;
    return MAILBOX_HEAD + MAILBOX_PIECE;
}

int executing_open_rule(struct executing *ex, struct err *e)
{
    static const struct codec_events events = {.on_message = on_message, .on_collective = on_collective};
    static const struct codec_more more = {
        .events = &events, .message_bytes = message_bytes, .compression = CODEC_UNCOMPRESSED};
    static float nothing[1]; /* there are no parameters */
    struct node *n = ex->n;
    struct exchange_config cfg = exchange_config_of(&n->set, n->job.node);

    ex->rule = (struct codec_plugin){.name = n->codec.executor->name, .state_size = sizeof ex, .more = &more};
    cfg.plugin = &ex->rule;
    cfg.blocks = &n->blocks;
    cfg.params = cfg.grads = nothing;
    cfg.owner = n;
    cfg.watch = n->monitor->watch;
    if (exchange_new(&n->exchange, &cfg, e) < 0)
        return e->code;
    ex->channel = exchange_channel(n->exchange, 0);
    memcpy(ex->channel->codec.state, &ex, sizeof ex);
    return 0;
}

/* Waits for what the channel waits for. The timeout restarts with each piece of the message, and with each
 * message of the collective, that arrives. */
static int wait_for_channel(struct executing *ex, struct err *e)
{
    struct node *n = ex->n;
    int from = ex->channel->awaited;
    char waiting[128] = "", now[128];
    struct node_wait wait;
    uint64_t n_pieces = 0;
    bool came;

    node_wait_begin(&wait, n, clock_now());
    while (exchange_waits(n->exchange)) {
        exchange_waits_for(n->exchange, now, sizeof now);
        if (strcmp(now, waiting) != 0 || (from >= 0 && ex->mailboxes[from].n_pieces != n_pieces))
            node_wait_begin(&wait, n, clock_now());
        memcpy(waiting, now, sizeof now);
        n_pieces = from >= 0 ? ex->mailboxes[from].n_pieces : 0;
        if (node_pump(n, node_wait_until(&wait), &came, e) < 0 ||
            (exchange_waits(n->exchange) && node_wait_check(&wait, n, e) < 0))
            return e->code;
    }
    n->is_held_up = false;
    return 0;
}

/* Waits until a message of node `from` is complete. */
static int wait_for_message(struct executing *ex, int from, struct err *e)
{
    int rc;

    if (has_message(ex, from))
        return 0;
    if (exchange_has_left(ex->n->exchange, from))
        return err_set(e, ERR_LOST, "node %d has ended, and has sent no further message", from);
    channel_await(ex->channel, from);
    rc = wait_for_channel(ex, e);
    channel_await(ex->channel, -1);
    return rc;
}

/* Queues a message for node `to`, and waits while too many messages are queued. */
static int send_pieces(struct executing *ex, int to, const char *bytes, size_t n, struct err *e)
{
    struct codec *c = &ex->channel->codec;
    size_t k, at = 0;

    do {
        if (exchange_has_left(ex->n->exchange, to))
            return err_set(e, ERR_LOST, "node %d has ended, and receives no further message", to);
        channel_set_err(ex->channel, e);
        k = mailbox_put(codec_message(c), n > 0 ? bytes + at : "", n - at);
        if (codec_send(c, to) < 0 || node_catch_up(ex->n, e) < 0)
            return e->code;
        at += k;
    } while (at < n);
    return 0;
}

/* Reductions and broadcasts, by the collectives that training uses. These sum floats; here they only carry
 * words, so that numbers of any type can be folded in the order of the nodes: every node gets its slice of
 * all vectors and folds them, and all nodes gather the results. That takes as many bytes as an all-reduce. */

enum { WORD = 4, ALIGNMENT = 64 };

/* Room for vectors of n bytes, each at an address that suits any number. */
static int make_room(struct vectors *v, size_t n, struct err *e)
{
    char *block;

    if (n <= v->room)
        return 0;
    if (n <= SIZE_MAX / 3 - ALIGNMENT)
        n = (n + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    block = n <= SIZE_MAX / 3 ? malloc(3 * n) : NULL;
    if (!block)
        return err_set(e, ERR_NOMEM, "no memory for vectors of %zu bytes", n);
    free(v->old);
    *v = (struct vectors){
        .in = block, .out = {block + n, block + 2 * n}, .room = n, .last = v->last, .old = v->in};
    return 0;
}

static void clear_vectors(struct vectors *v)
{
    free(v->in);
    free(v->old);
    *v = (struct vectors){0};
}

/* Runs a collective of n bytes, whole words, from `in` to the other `out`. */
static int run_collective(struct executing *ex, enum collective_kind kind, int root, size_t n, struct err *e)
{
    static const struct collective_item word = {.bytes = WORD};
    struct vectors *v = &ex->vectors;
    struct channel *ch = ex->channel;
    struct collective_request request = {
        .kind = kind, .root = root, .item = &word, .in = v->in, .out = v->out[!v->last], .n = n / WORD};
    int rc;

    channel_set_err(ch, e);
    rc = collecting_start(ch, &request);
    if (rc < 0)
        return rc;
    ch->is_waiting = true;
    if (collecting_notify(ch) < 0 || wait_for_channel(ex, e) < 0)
        return e->code;
    v->last = !v->last;
    free(v->old);
    v->old = NULL;
    return 0;
}

static int reduce_vectors(struct executing *ex, enum fold_type type, enum executor_fold how, void *v,
                          size_t n, struct err *e)
{
    size_t size = type == FOLD_DOUBLE ? sizeof(double) : sizeof(float);
    size_t n_nodes = (size_t)ex->x.n_nodes, own = (size_t)ex->x.node;
    size_t n_slice = n / n_nodes + (n % n_nodes > 0), slice = n_slice * size; /* bytes of it */
    struct vectors *at = &ex->vectors;
    fold_fn *fold = fold_of(type, how);

    if (!fold)
        return err_set(e, ERR_CODEC, "it reduces by %d, which is no enum executor_fold", (int)how);
    if (n_nodes == 1 || n == 0)
        return 0;
    if (make_room(at, n_nodes * slice, e) < 0)
        return e->code;
    memcpy(at->in, v, n * size);
    memset(at->in + n * size, 0, n_nodes * slice - n * size);
    if (run_collective(ex, COLLECTIVE_ALL_TO_ALL, 0, n_nodes * slice, e) < 0)
        return e->code;
    memcpy(at->in + own * slice, at->out[at->last], slice);
    for (size_t k = 1; k < n_nodes; k++)
        fold(at->in + own * slice, at->out[at->last] + k * slice, n_slice);
    if (run_collective(ex, COLLECTIVE_ALL_GATHER, 0, n_nodes * slice, e) < 0)
        return e->code;
    memcpy(v, at->out[at->last], n * size);
    return 0;
}

static int broadcast_bytes(struct executing *ex, int root, void *bytes, size_t n, struct err *e)
{
    size_t whole = (n + WORD - 1) / WORD * WORD;
    struct vectors *at = &ex->vectors;

    if (ex->x.n_nodes == 1 || n == 0)
        return 0;
    if (make_room(at, whole, e) < 0)
        return e->code;
    memset(at->in + whole - WORD, 0, WORD);
    memcpy(at->in, bytes, n);
    if (run_collective(ex, COLLECTIVE_BROADCAST, root, whole, e) < 0)
        return e->code;
    memcpy(bytes, at->out[at->last], n);
    return 0;
}

/* output.txt, the result file. */

int executing_open_output(struct executing *ex, struct err *e)
{
    struct output *o = &ex->output;
    const char *name = artifact_name(ARTIFACT_OUTPUT);

    *o = (struct output){.held = malloc(OUTPUT_HELD), .fd = -1};
    if (!o->held)
        return err_set(e, ERR_NOMEM, "no memory for %s", name);
    o->fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    return o->fd < 0 ? err_errno(e, ERR_IO, "%s", name) : 0;
}

static int flush_line(struct output *o, struct err *e)
{
    size_t n = o->n_held;

    o->n_held = 0;
    return file_write_all(o->fd, o->held, n, artifact_name(ARTIFACT_OUTPUT), e);
}

/* ERR_CODEC: the file would have more than EXECUTOR_OUTPUT_MAX bytes. ERR_NOSPACE, ERR_IO. */
static int write_output(struct output *o, const void *bytes, size_t n, struct err *e)
{
    if (n > EXECUTOR_OUTPUT_MAX - o->n_bytes)
        return err_set(e, ERR_CODEC, "its %s would have more than %zu bytes", artifact_name(ARTIFACT_OUTPUT),
                       EXECUTOR_OUTPUT_MAX);
    o->n_bytes += n;
    if (n > OUTPUT_HELD - o->n_held && flush_line(o, e) < 0)
        return e->code;
    if (n > OUTPUT_HELD)
        return file_write_all(o->fd, bytes, n, artifact_name(ARTIFACT_OUTPUT), e);
    if (n > 0)
        memcpy(o->held + o->n_held, bytes, n);
    o->n_held += n;
    return 0;
}

int executing_sync_output(struct executing *ex, struct err *e)
{
    struct output *o = &ex->output;

    if (flush_line(o, e) < 0)
        return e->code;
    return fsync(o->fd) < 0 ? err_errno(e, ERR_IO, "%s", artifact_name(ARTIFACT_OUTPUT)) : 0;
}

static void close_output(struct output *o)
{
    if (o->held && o->fd >= 0)
        close(o->fd);
    free(o->held);
    *o = (struct output){.fd = -1};
}

void executing_clear(struct executing *ex)
{
    for (int k = 0; k < ex->x.n_nodes; k++) {
        if (ex->mailboxes)
            mailbox_clear(&ex->mailboxes[k]);
        if (ex->taken)
            free(ex->taken[k]);
    }
    free(ex->mailboxes);
    free(ex->taken);
    clear_vectors(&ex->vectors);
    close_output(&ex->output);
    tensor_file_close(&ex->input);
    free(ex->arguments);
    free(ex->args);
}

/* The functions of the host. */

/* Returns whether the call may do its work: after an error, no call does any. */
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

/* Ends a call whose work has returned rc. If the executor itself is at fault, the error names it. */
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

void executing_report(const struct executing *ex)
{
    const struct node *n = ex->n;
    struct report_progress p = {.step = (uint64_t)ex->percent,
                                .steps = EXECUTOR_STEPS,
                                .loss = NAN,
                                .accuracy = NAN,
                                .traffic = *exchange_totals(n->exchange),
                                .waits_for = node_waits_for(n)};

    memcpy(p.spent, exchange_watch(n->exchange)->spent, sizeof p.spent);
    report_progress(n->report, &p);
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
        executing_report(ex);
    return end_program_call(ex, node_receive(ex->n, &e), &e);
}

static int host_write(struct executor *x, const void *bytes, size_t n)
{
    struct executing *ex = executing_of(x);
    struct err e;

    return enter_call(ex) ? end_program_call(ex, write_output(&ex->output, bytes, n, &e), &e)
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
    return end_program_call(ex, send_pieces(ex, to, bytes, n, &e), &e);
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
    if (wait_for_message(ex, from, e) < 0)
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
        return end_program_call(ex, send_pieces(ex, root, bytes, n, &e), &e);
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
    return end_program_call(ex, reduce_vectors(ex, type, how, v, n, &e), &e);
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
    return end_program_call(ex, broadcast_bytes(ex, root, bytes, n, &e), &e);
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
