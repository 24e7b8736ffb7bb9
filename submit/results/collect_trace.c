/* Merges the traces of all nodes. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "shared/base/file.h"
#include "submit/results/collect.h"
#include "submit/results/trace.h"
#include "submit/terminal/console.h"

/* Returns false if the node has no usable trace. */
static bool read_trace(struct collection *c, const struct yield *y, struct trace_node *t)
{
    struct job_node *n = y->node;
    struct err e;

    if (y->len == 0)
        return false;
    *t = (struct trace_node){
        .node = n->at.node, .role = node_role(n), .address = n->at.address, .bytes = y->bytes, .len = y->len};
    if (trace_file_parse(&t->head, &t->records, &t->n, t->node, t->bytes, t->len, &e) < 0 ||
        trace_find_offset(t, c->s->http, n, &e) < 0) {
        collect_miss(c, n, "its trace", e.text);
        return false;
    }
    if (t->head.n_dropped > 0)
        console_info(
            "node(%d): its trace was full after %zu spans and messages; %llu later ones are missing.",
            t->node, t->n, (unsigned long long)t->head.n_dropped);
    return true;
}

/* Whole or not at all; a device or a pipe is written as it is. */
static int save_trace(const char *path, const struct trace_node *nodes, size_t n, struct err *e)
{
    char temporary[PATH_MAX];
    struct err ignored;
    bool is_file = file_check_replaceable(path, &ignored) == 0;
    FILE *f;
    int rc;

    if (file_temporary(temporary, sizeof temporary, path, e) < 0)
        return e->code;
    f = fopen(is_file ? temporary : path, "we");
    if (!f)
        return err_errno(e, ERR_IO, "%s", path);
    rc = trace_write(f, nodes, n, e);
    if (fclose(f) != 0 && rc == 0)
        rc = err_errno(e, ERR_IO, "%s", path);
    if (rc == 0 && is_file && rename(temporary, path) < 0)
        rc = err_errno(e, ERR_IO, "%s", path);
    if (rc < 0 && is_file)
        unlink(temporary);
    return rc;
}

int collect_trace(struct collection *c, const struct artifact *a, struct err *e)
{
    const char *path = c->s->opt->trace;
    struct trace_node *nodes = calloc(c->s->n_nodes, sizeof *nodes);
    struct err why = {0};
    size_t n = 0;

    (void)a; /* the nodes' trace files are not kept */
    if (!nodes)
        return err_set(e, ERR_NOMEM, "no memory for the trace of %zu nodes", c->s->n_nodes);
    for (size_t i = 0; i < c->s->n_nodes; i++)
        n += read_trace(c, &c->yields[i], &nodes[n]);
    if (n == 0)
        console_info("No node has a trace: the job was not submitted with --trace.");
    else if (save_trace(path, nodes, n, &why) < 0)
        console_error("The trace is missing: %s. job_submit fetch %s --trace FILE tries again.", why.text,
                      c->s->id);
    else
        console_info("Trace of %zu node%s in %s; https://ui.perfetto.dev shows it.", n, n == 1 ? "" : "s",
                     path);
    c->is_missing |= n == 0 || why.code != 0;
    free(nodes);
    return 0;
}
