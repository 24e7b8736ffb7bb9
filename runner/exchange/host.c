/* host -- the functions of struct codec_host. Only here does a pointer to a codec come from the plug-in, not
 * from the channel. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runner/exchange/exchange_private.h"
#include "runner/exchange/finite.h"
#include "shared/plugin/codec_options.h"

/* Makes a vector for zeros() or array() (`call`), and records the offset of its field in the state, because a
 * checkpoint cannot hold addresses. `item`: 0 for floats. */
static int make_vector(struct codec *c, const char *call, void *at, size_t n, size_t item)
{
    struct channel *ch = channel_of(c);
    size_t offset = (uintptr_t)at - (uintptr_t)c->state;
    size_t size = ch->x->cfg.plugin->state_size, bytes = item ? item : sizeof(float);
    void *p;

    if (ch->x->mesh)
        return channel_fail(ch, "it calls %s after open()", call);
    if ((uintptr_t)at < (uintptr_t)c->state || offset > size || size - offset < sizeof p)
        return channel_fail(ch, "the address passed to %s is no field of its state", call);
    for (size_t k = 0; k < ch->n_zeros; k++)
        if (ch->zeros[k].at == offset)
            return channel_fail(
                ch, "it calls %s for the field at byte %zu of its state, which is set already", call, offset);
    if (ch->n_zeros == CHANNEL_ZEROS_MAX)
        return channel_fail(ch, "it makes more than %d vectors (%s)", CHANNEL_ZEROS_MAX, call);
    p = n <= SIZE_MAX / bytes ? calloc(n ? n : 1, bytes) : NULL;
    if (!p)
        return err_set(ch->x->e, ERR_NOMEM, "codec %s: no memory for %zu items of %zu bytes (%s)",
                       ch->x->cfg.plugin->name, n, bytes, call);
    ch->zeros[ch->n_zeros++] = (struct codec_vector){
        .v = p, .n = item ? n * item : n, .item = item, .at = offset};
    memcpy(at, &p, sizeof p);
    return CODEC_GO;
}

static int host_zeros(struct codec *c, float **at, size_t n)
{
    return make_vector(c, "zeros()", at, n, 0);
}

static int host_array(struct codec *c, void *at, size_t n, size_t size)
{
    if (size == 0)
        return channel_fail(channel_of(c), "it calls array() for items of 0 bytes");
    return make_vector(c, "array()", at, n, size);
}

static int host_link(struct codec *c, int worker)
{
    struct channel *ch = channel_of(c);
    struct exchange *x = ch->x;

    if (x->mesh)
        return channel_fail(ch, "it calls link() after open()");
    if (worker < 0 || worker >= c->n_workers || worker == c->run->node)
        return channel_fail(ch, "it calls link() for node %d, which is no other worker", worker);
    if (!x->named)
        x->named = calloc((size_t)c->n_workers, sizeof *x->named);
    if (!x->named)
        return err_set(x->e, ERR_NOMEM, "no memory for the links of %d workers", c->n_workers);
    x->named[worker] = true;
    return CODEC_GO;
}

static void host_common(const struct codec *c, uint64_t key, float *out, size_t n)
{
    rng_common(out, n, channel_of(c)->x->cfg.seed, key);
}

static float host_uniform(struct codec *c)
{
    return rng_uniform(&channel_of(c)->rng);
}

int channel_host_fail(struct codec *c, const char *fmt, ...)
{
    char text[512];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (channel_of(c)->x->e->code == ERR_NUMERIC) /* the reason for which get_vector() returned NULL */
        return ERR_NUMERIC;
    return channel_fail(channel_of(c), "%s", text);
}

static void host_log(struct codec *c, const char *fmt, ...)
{
    char text[512];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    fprintf(stderr, "codec %s: %s\n", channel_of(c)->x->cfg.plugin->name, text);
}

static struct wire_out *host_message(struct codec *c)
{
    struct channel *ch = channel_of(c);

    mesh_buf_put(ch->draft);
    ch->draft = mesh_buf_take(ch->x->mesh);
    ch->lacks_draft = !ch->draft;
    ch->out = (struct wire_out){.bytes = ch->draft ? ch->draft->bytes : NULL,
                                .limit = ch->draft ? ch->limit : 0};
    ch->compressing.to = COMPRESSING_TO_ANY;
    compressing_begin_writing(&ch->compressing);
    return &ch->out;
}

static struct wire_out *host_message_to(struct codec *c, int to)
{
    struct wire_out *out = host_message(c);

    channel_of(c)->compressing.to = to;
    return out;
}

static int host_send(struct codec *c, int to)
{
    struct channel *ch = channel_of(c);
    /* A server has one range: every message to it is on that range's channel. */
    struct mesh_head h = {.kind = FRAME_EVENT,
                          .peer = to,
                          .channel = to < 0 ? (uint16_t)(-2 - to) : ch->id,
                          .round = c->run->step};

    if (!ch->draft && ch->lacks_draft)
        return err_set(ch->x->e, ERR_NOMEM, "no memory for a message of %zu bytes", ch->limit);
    if (!ch->draft)
        return channel_fail(ch, "send() without a message()");
    if (ch->compressing.lacks_receiver ||
        (ch->compressing.to != COMPRESSING_TO_ANY && to != ch->compressing.to))
        return channel_fail(
            ch,
            "it sends parameters to node %d in a message that it began for %s; message_to() says "
            "for which node",
            to, ch->compressing.to == COMPRESSING_TO_ANY ? "any node" : "another node");
    if (ch->out.bad)
        return channel_too_long(ch);
    if (to == c->run->node)
        return channel_fail(ch, "node %d sends to itself; a message can only go to another node", to);
    if (!exchange_needs_link(ch->x, to))
        return channel_fail(ch, "node %d has no link to node %d", c->run->node, to);
    if (ch->x->named && to >= 0 && !ch->x->named[to])
        return channel_fail(ch, "node %d sends to node %d, for which open() has not called link()",
                            c->run->node, to);
    if (ch->server && to < 0 && to != ch->server)
        return channel_fail(ch, "this range is served by node %d, not by node %d", ch->server, to);
    if (channel_has_left(ch, to))
        return CODEC_GO; /* the mesh would drop the message: it does not count as traffic */
    ch->draft->len = ch->out.len;
    return channel_send(ch, &h, ch->draft, 0);
}

static void host_put_vector(struct codec *c, struct wire_out *out, const float *v, size_t n)
{
    compressing_put(channel_of(c), out, v, n);
}

static const float *host_get_vector(struct codec *c, struct wire_in *in, size_t n)
{
    struct channel *ch = channel_of(c);
    const float *v = compressing_get(ch, in, n);
    int from = c->run->block >= 0 ? ch->round.sender : ch->compressing.from;

    if (!v || finite_check_message(ch, from, v, n) == CODEC_GO)
        return v;
    in->bad = true;
    return NULL;
}

static bool host_holds(const struct codec *c, int block, int worker)
{
    return block >= 0 && block < c->run->n_blocks && worker >= 0 && worker < c->n_workers &&
           blocks_holds(channel_of(c)->x->cfg.blocks, block, worker);
}

static bool host_has_left(const struct codec *c, int node)
{
    return node >= -1 - c->run->n_servers && node < c->n_workers && node != -1 &&
           channel_has_left(channel_of(c), node);
}

/* The present step of the workers. On a server, a round in asgd is one contribution, and for an event rule
 * one message. Shared mini-batches are counted over all workers. */
static uint64_t step_of_workers(const struct channel *ch)
{
    const struct codec *c = &ch->codec;
    bool is_common = (ch->rule && c->is_sync) || feed_is_used(ch->x);
    uint64_t step = is_common ? c->run->round : c->run->round / (uint64_t)c->n_workers;

    return step < c->run->n_steps ? step : c->run->n_steps - 1;
}

int channel_update(struct channel *ch, const double *norm)
{
    const struct exchange_config *cfg = &ch->x->cfg;
    const struct codec *c = &ch->codec;
    enum phase last = phase_enter(ch->x->watch, PHASE_APPLY);
    int rc = cfg->update(cfg->owner, (size_t)(c->params - cfg->params), ch->n_params, step_of_workers(ch),
                         c->run->lr_factor, norm, ch->x->e);

    phase_enter(ch->x->watch, last);
    return rc;
}

int channel_request_update(struct channel *ch)
{
    if (whole_needs(ch->x, WHOLE_NORM)) {
        ch->whole.needs_update = true; /* round.c updates when the norm is gathered */
        return CODEC_GO;
    }
    return channel_update(ch, ch->x->sends_norm ? &ch->combining.grad_norm : NULL);
}

static int host_update(struct codec *c)
{
    struct channel *ch = channel_of(c);

    if (c->run->node >= 0 || !codec_more(ch->x->cfg.plugin)->updates_on_server)
        return channel_fail(ch, "update() is for the servers of a codec that sets updates_on_server");
    return channel_request_update(ch);
}

static void host_wake(struct codec *c, double seconds)
{
    channel_of(c)->wake_at = stopwatch_now(channel_of(c)->x->watch) + fmax(seconds, 0);
}

int channel_record(struct channel *ch, const char *name, double value)
{
    const struct exchange_config *cfg = &ch->x->cfg;

    return cfg->record ? cfg->record(cfg->owner, &ch->codec, name, value, ch->x->e) : CODEC_GO;
}

static int host_record(struct codec *c, const char *name, double value)
{
    if (!codec_is_name(name))
        return channel_fail(channel_of(c), "record(): a name is 1 to 32 of a-z, 0-9 and _");
    return channel_record(channel_of(c), name, value);
}

static int collect(struct codec *c, struct collective_request request)
{
    return collecting_start(channel_of(c), &request);
}

static int host_all_reduce(struct codec *c, enum codec_reduction what, const float *in, float *out, size_t n)
{
    return collecting_all_reduce(channel_of(c), what, in, out, n);
}

static int host_reduce_scatter(struct codec *c, enum codec_reduction what, const float *in, float *out,
                               size_t n)
{
    return collect(
        c,
        (struct collective_request){
            .kind = COLLECTIVE_REDUCE_SCATTER, .is_mean = what == CODEC_MEAN, .in = in, .out = out, .n = n});
}

static int host_all_gather(struct codec *c, const float *in, float *out, size_t n)
{
    return collect(c,
                   (struct collective_request){.kind = COLLECTIVE_ALL_GATHER, .in = in, .out = out, .n = n});
}

static int host_broadcast(struct codec *c, int root, const float *in, float *out, size_t n)
{
    return collect(c, (struct collective_request){
                          .kind = COLLECTIVE_BROADCAST, .root = root, .in = in, .out = out, .n = n});
}

static int host_all_to_all(struct codec *c, const float *in, float *out, size_t n)
{
    return collect(c,
                   (struct collective_request){.kind = COLLECTIVE_ALL_TO_ALL, .in = in, .out = out, .n = n});
}

static size_t host_slice(const struct codec *c, size_t n, int k)
{
    return collective_slice(n, k, c->n_workers);
}

const struct codec_host channel_host = {.zeros = host_zeros,
                                        .uniform = host_uniform,
                                        .log = host_log,
                                        .message = host_message,
                                        .send = host_send,
                                        .all_reduce = host_all_reduce,
                                        .slice = host_slice,
                                        .reduce_scatter = host_reduce_scatter,
                                        .all_gather = host_all_gather,
                                        .broadcast = host_broadcast,
                                        .all_to_all = host_all_to_all,
                                        .put_vector = host_put_vector,
                                        .get_vector = host_get_vector,
                                        .holds = host_holds,
                                        .has_left = host_has_left,
                                        .update = host_update,
                                        .wake = host_wake,
                                        .record = host_record,
                                        .message_to = host_message_to,
                                        .array = host_array,
                                        .common = host_common,
                                        .link = host_link};
