#include "runner/executor/node_execute.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runner/exchange/exchange_step.h"
#include "runner/executor/executing.h"
#include "shared/plugin/codec_manifest.h"

static int open_execution(struct node *n, struct err *e)
{
    size_t n_nodes = (size_t)n->set.node_count;
    struct executing *ex = calloc(1, sizeof *ex);

    if (!ex)
        return err_set(e, ERR_NOMEM, "no memory for an executor");
    n->executing = ex;
    ex->n = n;
    ex->x = (struct executor){.node = n->job.node, .n_nodes = n->set.node_count, .host = &executing_host};
    ex->mailboxes = calloc(n_nodes, sizeof *ex->mailboxes);
    ex->taken = calloc(n_nodes, sizeof *ex->taken);
    if (!ex->mailboxes || !ex->taken)
        return err_set(e, ERR_NOMEM, "no memory for the messages of %zu nodes", n_nodes);
    return executing_open_output(ex, e);
}

/* `text`, of the settings, has a line for each argument. */
static int cut_arguments(struct executing *ex, const char *text, struct err *e)
{
    char *at;
    int k = 0;

    for (const char *p = text; *p; p++)
        ex->x.n_args += *p == '\n';
    ex->arguments = strdup(text);
    ex->args = calloc((size_t)ex->x.n_args + 1, sizeof *ex->args);
    if (!ex->arguments || !ex->args)
        return err_set(e, ERR_NOMEM, "no memory for the executor's arguments");
    at = ex->arguments;
    for (char *end; (end = strchr(at, '\n')) != NULL; at = end + 1) {
        *end = '\0';
        ex->args[k++] = at;
    }
    ex->x.args = ex->args;
    return 0;
}

/* The data package of an executor is the tensor "input": bytes, of which the last is 0 and not part of the
 * shard. */
static int open_input(struct node *n, struct err *e)
{
    struct executing *ex = n->executing;
    const struct tensor_view *t;
    size_t size;

    if (tensor_file_open(&ex->input, "../packages/train.safetensors", e) < 0)
        return err_at(e, "data");
    t = tensor_file_find(&ex->input, "input");
    size = t && t->type == TENSOR_U8 && t->n_dims == 1 ? t->shape[0] : 0;
    if (size == 0 || ((const char *)t->data)[size - 1] != '\0')
        return err_set(e, ERR_CONFIG, "data: the file is not a shard of an executor's input");
    ex->x.input = t->data;
    ex->x.n_input = size - 1;
    return cut_arguments(ex, n->set.arguments, e);
}

static int load_executor(struct node *n, struct err *e)
{
    enum phase last = phase_call(n->monitor->watch, PHASE_APPLY, STOPWATCH_LOAD);
    int rc = codec_library_load_executor(&n->codec, "../packages/" CODEC_OBJECT_NAME, e);

    phase_enter(n->monitor->watch, last);
    return rc;
}

static int open_rule(struct node *n, struct err *e)
{
    return executing_open_rule(n->executing, e);
}

/* Sets the error of an executor whose run() returned `rc`, if it has failed. */
static int executor_result(const struct executing *ex, int rc, struct err *e)
{
    if (ex->failed.code) {
        *e = ex->failed;
        return e->code;
    }
    if (rc == 0)
        return 0;
    return err_set(e, ERR_CODEC,
                   "executor %s: its run() returned %d without an error message (the host's fail() sets one)",
                   ex->rule.name, rc);
}

static int run_executor(struct node *n, struct err *e)
{
    struct executing *ex = n->executing;
    struct stopwatch *watch = exchange_watch(n->exchange);
    int rc;

    executing_report(ex);
    phase_call(watch, PHASE_APPLY, STOPWATCH_RUN);
    rc = n->codec.executor->run(&ex->x);
    fflush(stdout);
    phase_enter(watch, PHASE_COMPUTE);
    if (executor_result(ex, rc, e) < 0 || executing_sync_output(ex, e) < 0)
        return e->code;
    /* The executor's whole run counts as one step, and so as one round of comm.csv. */
    if (exchange_on_step(n->exchange, e) < 0 || node_record_comm(n, e) < 0 || node_flush_records(n, e) < 0)
        return e->code;
    ex->percent = EXECUTOR_STEPS;
    executing_report(ex);
    return 0;
}

static void report_execution(const struct node *n)
{
    executing_report(n->executing);
}

static void clear_execution(struct node *n)
{
    struct executing *ex = n->executing;

    executing_clear(ex);
    free(ex);
    n->executing = NULL;
}

const struct node_execution node_execute = {.open = open_execution,
                                            .open_input = open_input,
                                            .load = load_executor,
                                            .open_rule = open_rule,
                                            .run = run_executor,
                                            .report = report_execution,
                                            .clear = clear_execution};
