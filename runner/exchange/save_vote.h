/* save_vote -- a checkpoint that was asked for while the job runs: all nodes write it after the same step,
 * although the request reaches them at different times, and none goes on before all have. It costs nothing
 * in a step where there is no request. The coordinator is that of stop_vote.h, whose frames carry the
 * messages; a frame's round has the step.
 *
 *     worker  was asked, or receives 0   --- STOP_VOTE_POINT, s -->  coordinator  at the first: asks the
 *     worker                             <-- STOP_VOTE_POINT, 0 ---               others
 *             begins no step after s
 *     all     save after step t          <-- STOP_VOTE_POINT, t ---  when all have sent it: t, from the
 *     worker  has saved, waits           --- STOP_VOTE_SAVED, t -->  greatest s
 *     all     go on                      <-- STOP_VOTE_SAVED, t ---  when all workers have saved
 *
 * s: a worker that receives the request in step n sends n + 1 at once, and not at the end of its step, so
 * that no worker waits here for a step of another one. A worker that finds after step s that a peer has begun
 * the next collective goes on to that: it cannot receive the peer's message, which follows a chunk of that
 * collective, and t is not less than the peer's step. t: the last step of the round that has the greatest s.
 * In the midst of a round a node could be a checkpoint ahead of another one, and each keeps only two
 * (checkpoint.h).
 *
 * A server saves when it has closed the rounds before t, or at the barrier of t. Each worker forwards t, and
 * that it has saved, to all servers but the first, before any message of a later step. Such a server takes t
 * from the first worker that forwards it; t is never less than that of an earlier vote.
 *
 * If a worker leaves or is lost, a vote without a result is given up, and nobody waits for it any longer; the
 * node that was asked then begins another one, of the workers that remain. If the job ends with t, or before,
 * there is no such checkpoint. */
#ifndef PSGD_SAVE_VOTE_H
#define PSGD_SAVE_VOTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runner/mesh/mesh.h"
#include "shared/base/err.h"

struct exchange;

enum save_vote_stage {
    SAVE_VOTE_NONE,
    SAVE_VOTE_PROMISED, /* worker: begins no step after `promised` */
    SAVE_VOTE_DUE,      /* saves after step `point` */
    SAVE_VOTE_SAVED     /* has saved; a worker waits until all have */
};

struct save_vote_worker {
    uint64_t promised, saved; /* steps, as sent to this node; 0: none */
};

struct save_vote {
    struct save_vote_worker *workers; /* (n_workers); NULL: the job writes no checkpoints */
    enum save_vote_stage stage;
    uint64_t promised, point;
    uint64_t kept;           /* the step of the last vote after which all nodes have saved; 0: none */
    uint64_t rounds_at_kept; /* rounds that were closed then */
    bool has_asked;          /* coordinator: has asked all workers */
    bool is_given_up;        /* a worker has left since the point is known, and others may not know it */
    bool is_asked;           /* asked again before the present vote was over */
    bool is_wanted;          /* this node was asked, and not all have saved since */
    bool waits;
    int n_left; /* workers that had left at the last save_vote_update */
};

int save_vote_open(struct exchange *x, struct err *e);
void save_vote_clear(struct save_vote *v);

bool save_vote_is_used(const struct exchange *x);
/* A checkpoint is asked for, on any node, between two calls of the exchange. No effect while a vote is under
 * way. CODEC_GO or a code. */
int save_vote_ask(struct exchange *x, struct err *e);
/* The step of the last checkpoint of such a request that all nodes have written; 0: none. */
uint64_t save_vote_kept(const struct exchange *x);
/* Has this node done no step since that one, a server closed no round? False if there is none. */
bool save_vote_is_at_kept(const struct exchange *x);
/* Whether this node has saved, and the vote is not over. */
bool save_vote_has_saved(const struct exchange *x);

/* For the worker. After a step. CODEC_WAIT: until exchange_on_event returns CODEC_GO; then it is known
 * whether a checkpoint is due after it. */
int save_vote_hold(struct exchange *x);
/* The step after which this node is to save; 0: none. */
uint64_t save_vote_point(const struct exchange *x);
/* It has saved. CODEC_WAIT (of a worker): as above, until all have. */
int save_vote_saved(struct exchange *x, struct err *e);

/* For the exchange. Handle a FRAME_STOP_VOTE of these two kinds; the caller keeps its buffer. CODEC_GO or a
 * code. */
int save_vote_on_point(struct exchange *x, const struct mesh_head *h, const struct mesh_buf *b);
int save_vote_on_saved(struct exchange *x, const struct mesh_head *h, const struct mesh_buf *b);
/* After any event: a worker may have left, or begun a collective. */
int save_vote_update(struct exchange *x);
void save_vote_waits_for(const struct exchange *x, char *out, size_t size);
int save_vote_awaits(const struct exchange *x); /* STALL_NO_NODE: no node */

#endif
