/* executing_vectors -- reductions and broadcasts of an executor, by the collectives that training uses.
 * These sum floats; here they only carry words, so that any numbers can be folded, in the order of the
 * nodes: every node gets its slice of all vectors and folds them, and all gather the results. That takes
 * as many bytes as an all-reduce. */
#include <stdlib.h>
#include <string.h>

#include "runner/exchange/exchange_private.h"
#include "runner/executor/executing.h"

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

void vectors_clear(struct vectors *v)
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
    struct collective_ask ask = {
        .kind = kind, .root = root, .item = &word, .in = v->in, .out = v->out[!v->last], .n = n / WORD};
    int rc;

    ch->x->e = e;
    rc = collecting_start(ch, &ask);
    if (rc < 0)
        return rc;
    ch->is_waiting = true;
    if (collecting_notify(ch) < 0 || executing_wait(ex, e) < 0)
        return e->code;
    v->last = !v->last;
    free(v->old);
    v->old = NULL;
    return 0;
}

int executing_reduce(struct executing *ex, enum fold_type type, enum executor_fold how, void *v, size_t n,
                     struct err *e)
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

int executing_broadcast(struct executing *ex, int root, void *bytes, size_t n, struct err *e)
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
