/* round -- runs rounds: in each, every worker sends one contribution, and all are merged in order. round.c
 * keeps and merges them, round_loss.c continues without lost workers. A round_rule, of a codec (struct
 * codec_round) or of a path (struct combine_path), writes and reads the messages. */
#ifndef PSGD_ROUND_H
#define PSGD_ROUND_H

#include "codecs/wire.h"
#include "runner/exchange/agreement.h"
#include "runner/mesh/mesh.h"
#include "shared/base/rng.h"

struct channel;
struct codec_round;

/* Writes and reads the messages of a round, for one channel; each function as in struct codec_round. */
struct round_rule {
    bool before_update, per_block;
    int (*encode)(struct channel *ch, struct wire_out *out);
    int (*merge)(struct channel *ch, int from, struct wire_in *in);
    int (*apply)(struct channel *ch); /* NULL: nothing is left to do */
    int (*reply)(struct channel *ch, struct wire_out *out);
    int (*adopt)(struct channel *ch, int server, struct wire_in *in);
};

struct contribution { /* received, or this worker's own */
    struct mesh_buf *buf;
    uint64_t round;
    int from;      /* the node that sent it */
    int64_t saved; /* once it is merged: bytes that compression saved */
};

/* Contributions of one worker (or about one block) that are not merged yet: a ring buffer. */
struct round_inbox {
    struct contribution *contributions; /* (round.depth) */
    int first, n;
};

/* The stage of this node in the round. A server sends no contributions: it is in ROUND_OPEN or
 * ROUND_GATHERS. */
enum round_stage {
    ROUND_OPEN,         /* this node's contributions are not sent yet */
    ROUND_SENT,         /* they are sent; the node waits for those of other workers */
    ROUND_AWAITS_REPLY, /* they are sent to the server; the node waits for its reply */
    ROUND_ENDS,   /* after the last round: an empty contribution is sent; waits for those of the others */
    ROUND_GATHERS /* all contributions are merged; the server waits for other servers' parts (whole.h) */
};

/* A copy of a codec as it was before a round, restored when a contribution turns out to be malformed or
 * missing after other contributions have been merged. */
struct round_undo {
    char *vectors; /* params, grads, global, then those of zeros(); NULL: not allocated yet */
    void *state;
    struct rng rng;
};

/* The workers that take part in a round (--participate): m of n, drawn for each round without replacement.
 * They follow from the job's seed and the round, so all nodes draw the same. McMahan et al., AISTATS 2017,
 * Algorithm 1: S_t, a random set of m clients. */
enum { DRAW_ROUNDS = 2 }; /* a node may be one round ahead of another */
struct draw {
    uint64_t seed;
    int n, m;
    struct {
        uint64_t round;
        bool is_known;
        bool *takes_part; /* (n) */
    } rounds[DRAW_ROUNDS];
    uint32_t *order; /* (n): room to draw */
};

struct round {
    struct draw *draw;                  /* NULL: every worker takes part in every round */
    int n_contributions;                /* in a full round */
    int depth;                          /* of an inbox */
    struct round_inbox *inbox;          /* (n_contributions) */
    struct contribution *contributions; /* (n_contributions, depth) */
    enum round_stage stage;
    double sent_at;         /* stopwatch_now, when the last of the own contributions were sent */
    int next;               /* ssgd: the first contribution not merged yet */
    int sender;             /* the node that sent the contribution that is being merged */
    struct round_undo undo; /* for a job that continues without lost workers */
    bool can_undo;          /* undo holds the state before this round */
    struct agreement agreement;
    /* The server's reply to a round that this worker, which does not take part, has not begun. */
    struct mesh_buf *early;
    /* (n_contributions) of the last closed round, for peers one round behind; or NULL. */
    struct mesh_buf **kept;
};

extern const struct channel_handlers round_handlers;

bool round_has_drawn(struct draw *d, uint64_t round, int worker); /* does that worker take part? */

/* For the channel and its exchange. Each int function returns CODEC_GO, CODEC_WAIT or a code. */
int round_open(struct channel *ch);
void round_clear(struct channel *ch);
/* If workers have to agree on the contributions in a round: marks worker `from` as lost, with the exchange's
 * error as the reason, and clears the error. */
int round_drop_sender(struct channel *ch, int from);

/* Between round.c and round_loss.c. Contribution k is worker k's, or that about block k. */

/* Adds a contribution to inbox k; takes over the reference to b. */
void round_push(struct channel *ch, int k, struct mesh_buf *b, uint64_t round, int from);
bool round_has(const struct channel *ch, int k);   /* has contribution k of this round arrived? */
int round_sender(const struct channel *ch, int k); /* of the first contribution in inbox k */
void round_discard(struct channel *ch, int k);     /* drops all contributions in inbox k */
int round_merge(struct channel *ch, int k);        /* the contribution stays in its inbox */
/* Accounts for the merged contribution and takes it out of its inbox. */
void round_take_out(struct channel *ch, int k);
/* Has contribution k arrived, or has a node that may send it not left yet? */
bool round_can_still_come(const struct channel *ch, int k);
/* Merges the contributions received so far, in order, and ends the round when all are merged. */
int round_advance(struct channel *ch);
/* Ends a round whose contributions are all merged. A server replies to workers first .. last, which are in
 * `worker_round`. */
int round_close(struct channel *ch, int first, int last, uint64_t worker_round);

/* round_loss.c */

void round_undo_clear(struct round_undo *u);
/* After a worker was lost, or has sent BYE: continues a round that waited for it. */
int round_on_loss(struct channel *ch, int node);
int round_on_leave(struct channel *ch, int node);
/* round_advance, of a job that continues without lost workers. */
int round_advance_without_lost(struct channel *ch);
/* Contribution k is malformed: discards it, and drops its sender. */
int round_refuse(struct channel *ch, int k, int from);
/* Names the message of the agreement, or of the round, for which this worker waits. */
void round_waits_for_agreement(const struct channel *ch, char *out, size_t size);
int round_awaits_agreement(const struct channel *ch); /* the node of that message; -1: no node */
int round_missing(const struct channel *ch);          /* the first missing contribution; -1: none */
/* Handles a statement on lost workers (FRAME_LOSS); takes b. */
int round_on_statement(struct channel *ch, const struct mesh_head *h, struct mesh_buf *b);
/* Is the message a contribution of a lost worker, which another worker relays? */
bool round_is_relayed(const struct channel *ch, const struct mesh_head *h);
int round_on_relayed(struct channel *ch, const struct mesh_head *h, struct mesh_buf *b); /* takes b */

#endif
