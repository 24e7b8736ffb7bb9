/* round -- a round rule (struct codec_round) at work: the round that a channel is in. round.c runs it,
 * round_inbox.c keeps the words that come, round_loss.c goes on without lost workers. */
#ifndef PSGD_ROUND_H
#define PSGD_ROUND_H

#include "agent/runner/exchange/agreement.h"
#include "agent/runner/exchange/undo.h"
#include "agent/runner/mesh/mesh.h"

struct channel;

struct contribution { /* a word that has come */
    struct mesh_buf *buf;
    uint64_t round;
    int from;      /* the node that sent it */
    int64_t saved; /* bytes by its compression, once it is merged */
};

/* Words of one worker (or about one block) that have come and are not merged: a ring. */
struct inbox {
    struct contribution *contributions; /* (round.depth) */
    int first, n;
};

/* Where this node is in the round. A server is always in the first: it only hears. */
enum round_stage {
    ROUND_OPEN,         /* my words are not out yet */
    ROUND_SENT,         /* they are, and those of others are waited for */
    ROUND_AWAITS_REPLY, /* they are, at the server */
    ROUND_ENDS          /* what I have said is that I have no more to say */
};

struct round {
    int n_contributions;                /* a full round */
    int depth;                          /* of an inbox */
    struct inbox *inbox;                /* (n_words) */
    struct contribution *contributions; /* (n_words, depth) */
    enum round_stage stage;
    double sent_at;   /* stopwatch_now, when the last of my words were out */
    int next;         /* ssgd: the first word not merged yet */
    struct undo undo; /* where the job goes on without lost workers */
    bool can_undo;    /* it is from before this round */
    struct agreement agreement;
    struct mesh_buf **kept; /* (n_words) of the round closed last; NULL: nobody can be in need of them */
};

/* What a channel calls, and its exchange. Each returns CODEC_GO, CODEC_WAIT or a code. */
int round_open(struct channel *ch);
void round_clear(struct channel *ch);
int round_on_block(struct channel *ch, int block);
int round_on_grad(struct channel *ch);
int round_on_step(struct channel *ch);
int round_on_message(struct channel *ch, const struct mesh_head *h, struct mesh_buf *b); /* takes b */
int round_on_loss(struct channel *ch, int node);  /* somebody who is not indispensable is lost */
int round_on_leave(struct channel *ch);           /* somebody has said good-bye */
bool round_is_hopeless(const struct channel *ch); /* waits for a word that can no longer come */
void round_waits_for(const struct channel *ch, char *out, size_t size);
/* Do workers have to agree on whose words are in a round? */
bool round_agrees(const struct channel *ch);
/* Where they do: worker `from` is lost from now on, as the error says. */
int round_accuse(struct channel *ch, int from);

/* round_inbox.c, for the others. */
void round_push(struct channel *ch, int k, struct mesh_buf *b, uint64_t round, int from);
bool round_has(const struct channel *ch, int k);   /* of this round */
int round_sender(const struct channel *ch, int k); /* of the first one in its inbox */
void round_drop(struct channel *ch, int k);
int round_merge(struct channel *ch, int k); /* it stays in its inbox */
/* Accounts for it and takes it out. */
void round_finish(struct channel *ch, int k);
bool round_has_redundancy(const struct channel *ch);
bool round_is_nearly_full(const struct channel *ch, int k);
void round_resume_workers(struct channel *ch);
bool round_can_still_come(const struct channel *ch, int k);

/* round.c: merges as far as the words reach; and what follows when all words of a round are merged. A server
 * answers workers first .. last, who are in `their_round`. */
int round_advance(struct channel *ch);
int round_close(struct channel *ch, int first, int last, uint64_t their_round);

/* round_loss.c */
bool round_goes_on(const struct channel *ch); /* a synchronous round that needs not everybody's word */
int round_advance_without_lost(struct channel *ch);
int round_refuse(struct channel *ch, int k, int from);
void round_waits_for_agreement(const struct channel *ch, char *out, size_t size);
int round_missing(const struct channel *ch); /* the first that is missing; -1: none is */
int round_on_statement(struct channel *ch, const struct mesh_head *h, struct mesh_buf *b);
bool round_is_relayed(const struct channel *ch, const struct mesh_head *h);
int round_on_relayed(struct channel *ch, const struct mesh_head *h, struct mesh_buf *b);

#endif
