/* exchanges -- every function of the host that exchanges something, at many lengths, against what each
 * node can compute itself. The argument is the number of bytes that every node sends to every other
 * before any receives. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "executor.h"

static char letter(int node)
{
    return (char)('a' + node);
}

static int is_of(const struct executor_bytes *m, int node, size_t n)
{
    const char *bytes = m->bytes;

    for (size_t i = 0; i < m->n; i++)
        if (bytes[i] != letter(node))
            return 0;
    return m->n == n;
}

static int messages(struct executor *x, const char *own, size_t n)
{
    struct executor_bytes m;
    int rc = 0;

    for (int k = 0; k < x->n_nodes && rc == 0; k++)
        if (k != x->node && (rc = x->host->send(x, k, own, n)) == 0)
            rc = x->host->send(x, k, own, n % 7);
    for (int k = 0; k < x->n_nodes && rc == 0; k++) {
        if (k == x->node)
            continue;
        for (int turn = 0; turn < 2 && rc == 0; turn++) {
            size_t wanted = turn == 0 ? n : n % 7;

            rc = x->host->receive(x, k, &m);
            if (rc == 0 && !is_of(&m, k, wanted))
                return x->host->fail(x, "message %d of node %d is another one", turn, k);
        }
    }
    return rc;
}

static int gather(struct executor *x, int root, const char *own, size_t n)
{
    struct executor_bytes *all = calloc((size_t)x->n_nodes, sizeof *all);
    int rc = all ? x->host->gather(x, root, own, n + (size_t)x->node, all) : x->host->fail(x, "no memory");

    for (int k = 0; rc == 0 && x->node == root && k < x->n_nodes; k++)
        if (!is_of(&all[k], k, n + (size_t)k))
            rc = x->host->fail(x, "gathered other bytes of node %d", k);
    free(all);
    return rc;
}

/* Node k has v[i] = i + k, and each fold of these has a formula. */
static int vectors(struct executor *x, size_t n)
{
    double *v = malloc(n * sizeof *v), nodes = x->n_nodes;
    float *f = malloc(n * sizeof *f);
    char *c = malloc(n);
    int rc = v && f && c ? 0 : x->host->fail(x, "no memory");

    for (size_t i = 0; rc == 0 && i < n; i++) {
        v[i] = (double)i + x->node;
        f[i] = (float)(i % 1000) + (float)x->node;
        c[i] = (char)(i + (size_t)x->node);
    }
    if (rc == 0)
        rc = x->host->reduce_doubles(x, EXECUTOR_SUM, v, n);
    if (rc == 0)
        rc = x->host->reduce_floats(x, n % 2 ? EXECUTOR_MAX : EXECUTOR_MIN, f, n);
    if (rc == 0)
        rc = x->host->broadcast(x, x->n_nodes - 1, c, n);
    for (size_t i = 0; rc == 0 && i < n; i++)
        if (v[i] != (double)i * nodes + nodes * (nodes - 1) / 2 ||
            f[i] != (float)(i % 1000) + (float)(n % 2 ? x->n_nodes - 1 : 0) ||
            c[i] != (char)(i + (size_t)x->n_nodes - 1))
            rc = x->host->fail(x, "number %zu of %zu is wrong", i, n);
    free(v);
    free(f);
    free(c);
    return rc;
}

static int run(struct executor *x)
{
    size_t n = x->n_args > 0 ? strtoull(x->args[0], NULL, 10) : 1;
    char *own = malloc(n + 64);
    double product = x->node + 1, greatest = x->node == 0 ? NAN : 1;
    int rc = 0;

    if (!own)
        return x->host->fail(x, "no memory");
    memset(own, letter(x->node), n + 64);
    rc = messages(x, own, n);
    for (size_t length = 1; length < 300000 && rc == 0; length = 3 * length + 1) {
        rc = vectors(x, length);
        if (rc == 0)
            rc = gather(x, (int)(length % (size_t)x->n_nodes), own, length % (n + 1));
    }
    if (rc == 0)
        rc = x->host->reduce_doubles(x, EXECUTOR_PRODUCT, &product, 1);
    if (rc == 0)
        rc = x->host->reduce_doubles(x, EXECUTOR_MAX, &greatest, 1);
    if (rc == 0)
        rc = x->host->print(x, "%g %s\n", product, isnan(greatest) ? "nan" : "a number");
    free(own);
    return rc;
}

EXECUTOR_PLUGIN(.name = "exchanges", .run = run)
