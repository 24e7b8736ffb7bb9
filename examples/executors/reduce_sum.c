/* reduce_sum -- adds up numbers, one on a line: each node those of its shard, and all nodes their sums.
 *
 *     seq 0 999 >numbers.txt
 *     job_submit run --exec examples/executors/reduce_sum.c --node_count 2 --data numbers.txt */
#include <stdlib.h>

#include "executor.h"

static int run(struct executor *x)
{
    const char *at = x->input, *end = x->input + x->n_input;
    double sum = 0;
    int rc;

    while (at < end) {
        char *after;
        double v = strtod(at, &after);

        if (after == at) /* the last line feed, or no number */
            break;
        sum += v;
        at = after;
    }
    while (at < end && (*at == '\n' || *at == ' '))
        at++;
    if (at < end)
        return x->host->fail(x, "no number at byte %zu of the shard of node %d", (size_t)(at - x->input),
                             x->node);
    x->host->log(x, "the sum of this shard is %.17g", sum);
    rc = x->host->reduce_doubles(x, EXECUTOR_SUM, &sum, 1);
    if (rc < 0 || x->node != 0)
        return rc;
    return x->host->print(x, "%.17g\n", sum);
}

EXECUTOR_PLUGIN(.name = "reduce_sum", .run = run)
