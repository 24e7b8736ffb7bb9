/* exchange_private -- the members of struct exchange, for the files of this folder: exchange.c drives all
 * channels of a node (channel.h). */
#ifndef PSGD_EXCHANGE_PRIVATE_H
#define PSGD_EXCHANGE_PRIVATE_H

#include "runner/exchange/barrier.h"
#include "runner/exchange/channel.h"
#include "runner/exchange/exchange.h"
#include "runner/exchange/feed.h"
#include "runner/exchange/finish_vote.h"
#include "runner/exchange/save_vote.h"
#include "runner/exchange/stall.h"
#include "runner/exchange/stop_vote.h"
#include "runner/exchange/test_sum.h"

struct exchange {
    struct exchange_config cfg;
    struct channel_handlers handlers;
    const struct round_rule *rule;   /* of a codec, or of a path; NULL: there are no rounds */
    struct round_rule of_codec;      /* the rule that it points to if the codec has rounds */
    const struct combine_path *path; /* NULL: another kind of rule */
    bool is_late;                    /* combinations are one exchange late: combine_path_overlaps() */
    bool *named;                     /* (n_workers): codec_link(); NULL: the codec names none */
    bool *links;                     /* (n_workers): exchange_choose_links(); NULL: it needs all */
    struct mesh *mesh;
    struct err *e; /* of the call that is under way */
    int n_channels;
    struct channel *channels;
    struct peer_stats peer_stats; /* by slot */
    struct stall stall;
    struct barrier barrier;
    struct stop_vote stop_vote;
    struct finish_vote finish_vote;
    struct save_vote save_vote;
    struct test_sum test_sum;
    struct feed feed;
    int n_left, n_lost; /* of the workers; a lost one counts as left, too */
    bool is_finished;   /* exchange_set_finished(); on a server: all workers are */
    bool sends_norm;    /* whole_sends_norm() */
    double grad_norm;   /* on a worker, if it sends it */
    struct exchange_totals totals;
    uint64_t read_bytes[N_STEP_PHASES];                   /* by codecs */
    struct stopwatch *watch, own_watch;                   /* cfg.watch, or own_watch */
    uint64_t n_rounds, n_rounds_notified, n_rounds_moved; /* closed; and at the last calls about them */
    int n_channels_done;                                  /* channels that have closed the round */
};

enum { FIRST_SERVER = -2 }; /* the others: -3, ... (mesh.h) */

static inline bool exchange_is_server(const struct exchange *x)
{
    return x->cfg.node < 0;
}

static inline int exchange_slot(const struct exchange *x, int node)
{
    return mesh_slot(x->cfg.n_workers, node);
}

/* Do all workers contribute the same number of samples, if they contribute? */
static inline bool exchange_weights_are_equal(const struct exchange *x)
{
    return x->cfg.blocks->is_equal && !x->cfg.has_trainer;
}

static inline bool channel_takes_part(const struct channel *ch, uint64_t round, int worker)
{
    return !ch->round.draw || round_has_drawn(ch->round.draw, round, worker);
}

/* exchange_has_left, for loops over all workers. */
static inline bool channel_has_left(const struct channel *ch, int node)
{
    return ch->x->peer_stats.has_left[exchange_slot(ch->x, node)];
}

/* Do workers have to agree on the contributions in a round? */
static inline bool round_agrees(const struct channel *ch)
{
    return ch->round.agreement.n > 0;
}

/* Does a synchronous round continue without lost workers? */
static inline bool round_goes_on(const struct channel *ch)
{
    return round_agrees(ch) || (ch->run.node < 0 && ch->codec.is_sync && ch->x->cfg.goes_on);
}

/* exchange.c */

/* (n_params) the model that a server holds. NULL: the rule does not keep it there. */
const float *exchange_server_model(const struct channel *ch);
float *exchange_result(struct channel *ch); /* (n_params) where a worker has the model that the rule trains */
void exchange_set_rounds(struct exchange *x, uint64_t n); /* before the first */

/* Call when a worker has reached its last barrier (barrier.h), or has sent BYE. The rule is told that the
 * worker has left. CODEC_GO or a code. */
int exchange_on_ended(struct exchange *x, int node);
/* Marks a worker as lost, for this reason, unless it has left already. ERR_LOST: too few are left. */
int exchange_lose(struct exchange *x, int node, const char *why);
/* `rc` is what a channel's callback, or its round, returned for an event: CODEC_GO ends the channel's wait,
 * unless its round is still under way. Returns rc. */
int exchange_end_wait(struct channel *ch, int rc);
/* In the present exchange all workers have said that they are finished: it is the job's last. */
void exchange_end_finished(struct exchange *x);

#endif
