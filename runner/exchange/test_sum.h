/* test_sum -- where the test set is divided over the workers (settings.divides_test), each evaluates the
 * model on its part, and all receive the sums of all workers. The coordinator is that of stop_vote.h, whose
 * frames carry the sums; a frame's round has the step after which the workers evaluate.
 *
 *     worker  the sums of its part       --- STOP_VOTE_PART -->  coordinator  when all workers have sent
 *     worker  goes on with the totals    <-- STOP_VOTE_TOTAL --               theirs: the totals
 *
 * Such a job is synchronous and ends with a lost worker, so that no part is ever missing. The first
 * TEST_REAL_SUMS numbers are added in the order of the workers, so that all runs have the same totals; the
 * others are counts, whose sum in a double is exact. Statistics of traffic do not count these frames. */
#ifndef PSGD_TEST_SUM_H
#define PSGD_TEST_SUM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runner/mesh/mesh.h"
#include "shared/base/err.h"

struct exchange;

struct test_sum {
    size_t n_sums;    /* 0: the test set is not divided */
    double *sums;     /* (n_sums): the worker's own, then the totals */
    double *received; /* (n_sums): of the last message */
    bool waits;
    uint64_t step; /* of the present or last evaluation */

    /* Of the coordinator; else NULL. */
    double *counts;       /* (n_sums): of the workers that have sent their part */
    double *reals;        /* (n_workers, TEST_REAL_SUMS) */
    bool *has_sent;       /* (n_workers) */
    int n_sent;           /* of the present evaluation */
    uint64_t counts_step; /* if n_sent > 0: after which they evaluate */
};

int test_sum_open(struct exchange *x, struct err *e);
void test_sum_clear(struct test_sum *t);
size_t test_sum_bytes(const struct exchange *x); /* of a message */

bool test_sum_is_used(const struct exchange *x);
/* (n_sums) numbers of exchange_config.n_test_sums: a worker puts its own there before test_sum_share, and
 * finds the totals there when its wait is over. */
double *test_sum_numbers(struct exchange *x);
/* CODEC_WAIT: until exchange_on_event returns CODEC_GO. */
int test_sum_share(struct exchange *x, uint64_t step, struct err *e);

/* For the exchange. Handle a FRAME_STOP_VOTE of these two kinds; the caller keeps its buffer. CODEC_GO or a
 * code. */
int test_sum_on_part(struct exchange *x, const struct mesh_head *h, const struct mesh_buf *b);
int test_sum_on_total(struct exchange *x, const struct mesh_head *h, const struct mesh_buf *b);
void test_sum_waits_for(const struct exchange *x, char *out, size_t size);
int test_sum_awaits(const struct exchange *x); /* STALL_NO_NODE: no node */

#endif
