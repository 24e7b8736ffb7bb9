/* finish_vote -- no training program of a job has more data (exchange_set_finished): the job ends, on all
 * workers after the same step. It is used where no contribution can say so to all workers at once
 * (combining.h): under rules with messages of their own, and in asynchronous jobs without servers. In an
 * asynchronous job with servers a finished worker ends by itself, and waits at the last barrier (barrier.h).
 * The coordinator is that of stop_vote.h, whose frames carry the messages; a frame's round has the step.
 *
 *     worker  its program is finished   --- STOP_VOTE_FINISHED, 0 -->  coordinator  when all have sent it:
 *     worker  receives, at any time     <-- STOP_VOTE_LAST, 0 -------
 *             takes no step after s     --- STOP_VOTE_FINISHED, s -->  coordinator  when all have sent it:
 *     all     step t is the last one    <-- STOP_VOTE_LAST, t -------  t: the greatest s
 *
 * s is the step under way, or the next one. A finished worker continues its steps, without weight, as others
 * may wait for what it sends in them; after step s it waits for t. A worker sends s when it receives the
 * request, and not at the end of a step: so no worker waits here for a step of another one.
 *
 * If the coordinator ends or is lost, each worker sends its messages once more, to the next coordinator; one
 * that has received t already sends t instead of s. In a job that continues without lost workers, each worker
 * forwards t to all others. */
#ifndef PSGD_FINISH_VOTE_H
#define PSGD_FINISH_VOTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runner/mesh/mesh.h"
#include "shared/base/err.h"

struct exchange;

struct finish_vote_worker {
    bool is_finished;
    uint64_t step; /* 0: not sent yet */
};

struct finish_vote {
    struct finish_vote_worker *workers; /* (n_workers): what each has sent to this node; NULL: not used */
    struct finish_vote_worker own;
    uint64_t last; /* 0: not known yet */
    bool has_asked, waits;
    int said_to; /* STALL_NO_NODE: to no node yet */
    int n_left;  /* workers that had left at the last finish_vote_update */
};

int finish_vote_open(struct exchange *x, struct err *e);
void finish_vote_clear(struct finish_vote *v);

bool finish_vote_is_used(const struct exchange *x);
/* This worker's program has no more data. CODEC_GO or a code. */
int finish_vote_say(struct exchange *x);
/* Before a step. CODEC_WAIT: the worker must not begin it before exchange_on_event returns CODEC_GO. */
int finish_vote_hold(struct exchange *x);
/* After a step: was it the last one? */
void finish_vote_check(struct exchange *x);

/* For the exchange. Handle a FRAME_STOP_VOTE of these two kinds; the caller keeps its buffer. CODEC_GO or a
 * code. */
int finish_vote_on_finished(struct exchange *x, const struct mesh_head *h, const struct mesh_buf *b);
int finish_vote_on_last(struct exchange *x, const struct mesh_head *h, const struct mesh_buf *b);
int finish_vote_update(struct exchange *x); /* after any event: a worker may have left */
void finish_vote_waits_for(const struct exchange *x, char *out, size_t size);
int finish_vote_awaits(const struct exchange *x); /* STALL_NO_NODE: no node */

#endif
