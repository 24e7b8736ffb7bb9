#include "runner/exchange/test_sum.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runner/exchange/exchange_private.h"
#include "shared/job/test_part.h"

static const double COUNT_MAX = 9007199254740992.0; /* 2^53: a double has all whole numbers below */

static bool is_coordinator(const struct exchange *x)
{
    return stop_vote_coordinator(x) == x->cfg.node;
}

int test_sum_open(struct exchange *x, struct err *e)
{
    struct test_sum *t = &x->test_sum;
    size_t n = x->cfg.n_test_sums, n_workers = (size_t)x->cfg.n_workers;

    t->n_sums = n;
    if (n == 0)
        return 0;
    t->sums = calloc(n, sizeof *t->sums);
    t->received = calloc(n, sizeof *t->received);
    if (t->sums && t->received && !is_coordinator(x))
        return 0;
    t->counts = calloc(n, sizeof *t->counts);
    t->reals = calloc(n_workers * TEST_REAL_SUMS, sizeof *t->reals);
    t->has_sent = calloc(n_workers, sizeof *t->has_sent);
    return t->sums && t->received && t->counts && t->reals && t->has_sent
               ? 0
               : err_set(e, ERR_NOMEM, "no memory for what %d workers evaluate", x->cfg.n_workers);
}

void test_sum_clear(struct test_sum *t)
{
    free(t->sums);
    free(t->received);
    free(t->counts);
    free(t->reals);
    free(t->has_sent);
    *t = (struct test_sum){0};
}

size_t test_sum_bytes(const struct exchange *x)
{
    return x->cfg.n_test_sums * sizeof(double);
}

bool test_sum_is_used(const struct exchange *x)
{
    return x->test_sum.n_sums > 0;
}

double *test_sum_numbers(struct exchange *x)
{
    return x->test_sum.sums;
}

static void take_totals(struct test_sum *t, const double *sums)
{
    memcpy(t->sums, sums, t->n_sums * sizeof *sums);
    t->waits = false;
}

/* The coordinator has the sums of all workers. */
static int announce_totals(struct exchange *x)
{
    struct test_sum *t = &x->test_sum;

    for (int i = 0; i < TEST_REAL_SUMS; i++) {
        t->counts[i] = 0;
        for (int k = 0; k < x->cfg.n_workers; k++)
            t->counts[i] += t->reals[k * TEST_REAL_SUMS + i];
    }
    take_totals(t, t->counts);
    memset(t->counts, 0, t->n_sums * sizeof *t->counts);
    memset(t->has_sent, 0, (size_t)x->cfg.n_workers * sizeof *t->has_sent);
    t->n_sent = 0;
    return stop_vote_send_workers(x, STOP_VOTE_TOTAL, t->counts_step, t->sums, test_sum_bytes(x));
}

static int add_part(struct exchange *x, int worker, uint64_t step, const double *sums)
{
    struct test_sum *t = &x->test_sum;

    t->counts_step = step;
    t->has_sent[worker] = true;
    memcpy(t->reals + worker * TEST_REAL_SUMS, sums, TEST_REAL_SUMS * sizeof *sums);
    for (size_t i = TEST_REAL_SUMS; i < t->n_sums; i++)
        t->counts[i] += sums[i];
    return ++t->n_sent == x->cfg.n_workers ? announce_totals(x) : CODEC_GO;
}

/* Copies the sums of a message to t->received. False: they are none. */
static bool receive_sums(struct test_sum *t, const struct mesh_buf *b)
{
    const double *sums = t->received;

    if (b->len != t->n_sums * sizeof *sums)
        return false;
    memcpy(t->received, b->bytes, b->len);
    for (size_t i = TEST_REAL_SUMS; i < t->n_sums; i++)
        if (!(sums[i] >= 0) || sums[i] > COUNT_MAX || sums[i] != floor(sums[i]))
            return false;
    return true;
}

static int refuse_sums(struct exchange *x, int from)
{
    err_set(x->e, ERR_PROTOCOL, "node %d sent the sums of an evaluation that it cannot have made", from);
    return from < 0 ? x->e->code : channel_drop_sender(&x->channels[0], from);
}

/* A codec that requests evaluations on one worker, and not on the others, would end here. */
static int refuse_step(struct exchange *x, int worker, uint64_t step)
{
    return err_set(x->e, ERR_CODEC,
                   "node %d evaluates after step %" PRIu64 ", and other workers after step %" PRIu64
                   ": the test set is divided over the workers, which evaluate together",
                   worker, step, x->test_sum.counts_step);
}

int test_sum_share(struct exchange *x, uint64_t step, struct err *e)
{
    struct test_sum *t = &x->test_sum;

    x->e = e;
    t->step = step;
    t->waits = true;
    if (!is_coordinator(x)) {
        int to = stop_vote_coordinator(x);

        return stop_vote_send(x, to, STOP_VOTE_PART, step, t->sums, test_sum_bytes(x)) < 0 ? e->code
                                                                                           : CODEC_WAIT;
    }
    if (t->n_sent > 0 && t->counts_step != step)
        return refuse_step(x, x->cfg.node, step);
    if (add_part(x, x->cfg.node, step, t->sums) < 0)
        return e->code;
    return t->waits ? CODEC_WAIT : CODEC_GO;
}

int test_sum_on_part(struct exchange *x, const struct mesh_head *h, const struct mesh_buf *b)
{
    struct test_sum *t = &x->test_sum;

    if (!t->counts || h->peer < 0 || t->has_sent[h->peer] || !receive_sums(t, b))
        return refuse_sums(x, h->peer);
    if (t->n_sent > 0 && t->counts_step != h->round)
        return refuse_step(x, h->peer, h->round);
    return add_part(x, h->peer, h->round, t->received);
}

int test_sum_on_total(struct exchange *x, const struct mesh_head *h, const struct mesh_buf *b)
{
    struct test_sum *t = &x->test_sum;

    if (!t->waits || h->peer != stop_vote_coordinator(x) || h->round != t->step || !receive_sums(t, b))
        return refuse_sums(x, h->peer);
    take_totals(t, t->received);
    return CODEC_GO;
}

int test_sum_awaits(const struct exchange *x)
{
    const struct test_sum *t = &x->test_sum;

    if (!t->counts)
        return t->waits ? stop_vote_coordinator(x) : STALL_NO_NODE;
    for (int k = 0; t->n_sent > 0 && k < x->cfg.n_workers; k++)
        if (!t->has_sent[k])
            return k;
    return STALL_NO_NODE;
}

void test_sum_waits_for(const struct exchange *x, char *out, size_t size)
{
    snprintf(out, size, "node %d's %s of the evaluation after step %" PRIu64, test_sum_awaits(x),
             x->test_sum.counts ? "part" : "result", x->test_sum.step);
}
