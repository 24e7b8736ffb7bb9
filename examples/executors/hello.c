/* hello -- each node says so, after a hundred steps of progress.
 *
 *     job_submit run --exec examples/executors/hello.c --node_count 2 */
#include "executor.h"

static int run(struct executor *x)
{
    for (int percent = 0; percent <= 100; percent++) {
        int rc = x->host->progress(x, percent);

        if (rc < 0)
            return rc;
    }
    return x->host->print(x, "Hello World from node %d of %d\n", x->node, x->n_nodes);
}

EXECUTOR_PLUGIN(.name = "hello", .run = run)
