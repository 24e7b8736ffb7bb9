/* channel -- one codec at work on a node: the codec's view of the job, its range of the model, its round, and
 * its messages. An exchange (exchange.h) has one channel, or one for each parameter server. channel.c calls
 * the codec and sends its messages, host.c has the functions that the codec may call. */
#ifndef PSGD_CHANNEL_H
#define PSGD_CHANNEL_H

#include "codecs/codec_events.h"
#include "runner/base/stopwatch.h"
#include "runner/exchange/collecting.h"
#include "runner/exchange/combining.h"
#include "runner/exchange/compressing.h"
#include "runner/exchange/reducing.h"
#include "runner/exchange/round.h"
#include "runner/exchange/whole.h"
#include "runner/mesh/mesh.h"
#include "shared/base/rng.h"

struct exchange;

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

static inline size_t vector_bytes(const struct codec_vector *v)
{
    return v->item ? v->n : v->n * sizeof(float);
}

/* The channel of a codec that the plug-in has passed to the host. */
static inline struct channel *channel_of(const struct codec *c)
{
    return (struct channel *)(uintptr_t)c;
}

struct channel *exchange_channel(struct exchange *x, int i); /* NULL: there are no more */
/* How the rule's contributions are combined; NULL: the rule is of another kind. */
const struct combine_path *exchange_path(const struct exchange *x);

/* For an executor, which calls the host outside the codec's callbacks: the error of the event under way; *e
 * becomes the error until the next event; and the channel waits for a message of that node, -1: for none. */
struct err *channel_err(const struct channel *ch);
void channel_set_err(struct channel *ch, struct err *e);
void channel_await(struct channel *ch, int node);

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

#endif
