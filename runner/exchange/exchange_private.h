/* exchange_private -- the members of struct exchange and of its channels, for the files that implement it. A
 * channel is one codec at work: the codec's view, its range of the model, and its round. exchange.c drives
 * all channels of a node, channel.c calls the codec of one and sends its messages, host.c has the functions
 * that the codec may call. */
#ifndef PSGD_EXCHANGE_PRIVATE_H
#define PSGD_EXCHANGE_PRIVATE_H

#include "runner/exchange/barrier.h"
#include "runner/exchange/collecting.h"
#include "runner/exchange/combining.h"
#include "runner/exchange/compressing.h"
#include "runner/exchange/exchange.h"
#include "runner/exchange/feed.h"
#include "runner/exchange/reducing.h"
#include "runner/exchange/round.h"
#include "runner/exchange/stall.h"
#include "runner/exchange/stop_vote.h"
#include "runner/exchange/whole.h"
#include "shared/base/rng.h"

/* What a channel does at an event of its node: for rounds in round.c, for an event rule in channel.c, for a
 * path of collectives in its file. A function may be NULL: nothing is done then, and messages are refused.
 * The on_ functions return CODEC_GO, CODEC_WAIT, or a code. */
struct channel_handlers {
    int (*on_backward)(struct channel *ch);
    int (*on_block)(struct channel *ch, int block);
    int (*on_grad)(struct channel *ch);
    int (*on_step)(struct channel *ch);
    int (*on_close)(struct channel *ch); /* exchange_close() */
    int (*on_message)(struct channel *ch, const struct mesh_head *h, struct mesh_buf *b); /* takes b */
    int (*on_collective)(struct channel *ch);          /* a collective is complete */
    int (*on_loss)(struct channel *ch, int node);      /* a node that the rule can do without is lost */
    int (*on_leave)(struct channel *ch, int node);     /* a node has sent BYE */
    int (*on_wake)(struct channel *ch);                /* its timer has expired */
    bool (*cannot_complete)(const struct channel *ch); /* it waits for a message that can no longer arrive */
    int (*awaits)(const struct channel *ch); /* the node that it waits for; -1: none in particular */
    void (*waits_for)(const struct channel *ch, char *out, size_t size);
    bool counts_steps; /* a worker's rounds are its steps, a server's the messages */
    bool is_quiescent; /* nothing is in transit between two steps */
};

enum { CHANNEL_ZEROS_MAX = 64 }; /* vectors of one codec */

struct channel {
    struct codec codec; /* first: the host's functions cast it to its channel */
    struct codec_run run;
    struct exchange *x;
    const struct round_rule *rule; /* NULL: it has no rounds */
    uint16_t id;
    int server;       /* the node that serves this range; 0 between workers */
    size_t n_params;  /* in the range, with running statistics */
    size_t n_trained; /* without */
    size_t limit;
    bool is_waiting;
    struct round round;
    struct collecting collecting;
    struct combining combining;
    struct whole whole;
    struct compressing compressing;
    struct reducing reducing;
    struct rng rng;
    struct wire_out out;
    struct mesh_buf *draft;     /* an event rule's message being written */
    bool lacks_draft;           /* no memory for the draft */
    double wake_at;             /* stopwatch_now; INFINITY: never */
    int awaited;                /* an executor waits for a message of this node; -1: of none */
    struct codec_layer *layers; /* (n_layers), running statistics among them */
    int n_layers;
    struct codec_vector {
        void *v;
        size_t n;    /* floats; of an array the bytes of its items */
        size_t item; /* bytes of an array's item; 0: it is a vector of floats */
        size_t at;   /* of the field in the state that zeros() or array() set */
    } * zeros;       /* freed with the channel */
    size_t n_zeros;
};

struct exchange {
    struct exchange_config cfg;
    struct channel_handlers handlers;
    const struct round_rule *rule;   /* of a codec, or of a path; NULL: there are no rounds */
    struct round_rule of_codec;      /* the rule that it points to if the codec has rounds */
    const struct combine_path *path; /* NULL: another kind of rule */
    bool is_late;                    /* combinations are one exchange late: combine_path_overlaps() */
    struct mesh *mesh;
    struct err *e; /* of the call that is under way */
    int n_channels;
    struct channel *channels;
    struct peer_stats peer_stats; /* by slot */
    struct stall stall;
    struct barrier barrier;
    struct stop_vote stop_vote;
    struct feed feed;
    int n_left, n_lost; /* of the workers; a lost one counts as left, too */
    bool sends_norm;    /* whole_sends_norm() */
    double grad_norm;   /* on a worker, if it sends it */
    struct exchange_totals totals;
    uint64_t read_bytes[N_STEP_PHASES]; /* by codecs */
    struct stopwatch *watch, own_watch; /* cfg.watch, or own_watch */
    uint64_t n_rounds, n_rounds_notified;
    int n_channels_done; /* channels that have closed the round */
};

static inline size_t vector_bytes(const struct codec_vector *v)
{
    return v->item ? v->n : v->n * sizeof(float);
}

static inline int exchange_slot(const struct exchange *x, int node)
{
    return mesh_slot(x->cfg.n_workers, node);
}

/* Are parameters exchanged after local steps? Otherwise there is an exchange in each step. */
bool exchange_has_local_steps(const struct exchange *x);

static inline bool channel_takes_part(const struct channel *ch, uint64_t round, int worker)
{
    return !ch->round.draw || round_has_drawn(ch->round.draw, round, worker);
}

static inline bool channel_has_left(const struct channel *ch, int node) /* sent BYE, or is lost */
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

/* The channel of a codec that the plug-in has passed to the host. */
static inline struct channel *channel_of(const struct codec *c)
{
    return (struct channel *)(uintptr_t)c;
}

/* host.c: what a codec calls. */
extern const struct codec_host channel_host;
int channel_host_fail(struct codec *c, const char *fmt, ...);

/* On a server: updates the parameters by grads. `norm`: of the whole gradient, of which grads are a range;
 * NULL: grads are the whole gradient, or the update does not depend on the norm. */
int channel_update(struct channel *ch, const double *norm);
/* The same as soon as that norm is known: at once, or at the end of the round (whole.h). */
int channel_request_update(struct channel *ch);
int channel_record(struct channel *ch, const char *name, double value); /* a row of codec.csv */

/* channel.c: opens a channel. */

/* Makes channel `id` of the exchange: the codec's view and state, its parameters, its open(). CODEC_GO or a
 * code. */
int channel_open(struct exchange *x, int id);
void channel_clear(struct channel *ch); /* after round_clear */
/* The functions of a codec that runs in rounds, and the handlers of an event rule. */
struct round_rule channel_round_rule(const struct codec_round *r);
struct channel_handlers channel_event_handlers(const struct codec_events *e);

/* channel.c: calls the codec. */

/* Around each call of the codec's `callback`, which returned `rc`. Returns CODEC_GO, CODEC_WAIT if it may
 * wait, or the code of the error that is now set in the exchange: a host function's, or that the callback
 * failed without an error or returned a value that codec_events.h does not define. */
void channel_before_call(struct channel *ch);
int channel_after_call(struct channel *ch, const char *callback, int rc, bool may_wait);
/* Calls f, timed as `phase` and named `callback`. */
int channel_call(struct channel *ch, enum phase phase, const char *callback, int (*f)(struct channel *));
/* Has `encode`, named `callback`, write a message into a new buffer. NULL: it failed, and the exchange's
 * error is set. */
struct mesh_buf *channel_encode(struct channel *ch, const char *callback,
                                int (*encode)(struct channel *, struct wire_out *), double *seconds);
/* Passes a message to `read`, timed as `phase`. */
int channel_decode(struct channel *ch, enum phase phase, const char *callback,
                   int (*read)(struct channel *, int from, struct wire_in *), int from,
                   const struct mesh_buf *b);
int channel_apply(struct channel *ch);    /* the rule's apply, if it has one */
int channel_too_long(struct channel *ch); /* the error of a message beyond `limit` */
/* Sets the exchange's error, with the codec's name. ERR_CODEC. */
int channel_fail(struct channel *ch, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* A call that processed a message of worker `from` has failed because of that message. If the job continues
 * without lost workers, the worker counts as lost from now on, and this returns CODEC_GO, or CODEC_WAIT while
 * a round still waits; otherwise the error. */
int channel_drop_sender(struct channel *ch, int from);

void channel_round_done(struct channel *ch);  /* its round is closed; the exchange's, if all channels' are */
void channel_begin_local(struct channel *ch); /* new local steps: samples, steps and rates count from 0 */

/* channel.c: sends and counts messages. */

/* Sends a message of this channel to one node and accounts for it: a buffer, which took `encode_s` seconds to
 * write, or bytes that the caller keeps owning, as in mesh_send_view; `saved`: bytes that compression saved.
 * CODEC_GO or a code. */
int channel_send(struct channel *ch, const struct mesh_head *h, struct mesh_buf *b, double encode_s);
int channel_send_view(struct channel *ch, const struct mesh_head *h, const void *bytes, size_t len,
                      size_t saved);
/* Accounts for bytes that went to and from `peer` in a collective through shared memory, without frames. */
void channel_shared(struct channel *ch, int peer, size_t sent, size_t received);
/* Accounts for a message in the round that uses it, not in the round in which it arrived: statistics must be
 * reproducible. */
void channel_received(struct channel *ch, int from, size_t len);
/* A message of that peer has arrived: accounts for the wait since round.sent_at. */
void channel_waited(struct channel *ch, int peer);
void channel_pause(struct channel *ch, int node, bool on);
bool channel_is_behind(const struct channel *ch, int node); /* many messages to it are queued */
void channel_overtaken(struct channel *ch); /* counts a contribution dropped in favor of a newer one */

/* exchange.c */

struct channel *exchange_channel(struct exchange *x, int i); /* NULL: there are no more */
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
bool exchange_waits(const struct exchange *x);

#endif
