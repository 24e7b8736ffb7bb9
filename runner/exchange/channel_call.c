/* channel_call -- calls of the codec: their errors, their time, the messages they write and read. */
#include <stdarg.h>
#include <stdio.h>

#include "runner/exchange/exchange_private.h"

int channel_fail(struct channel *ch, const char *fmt, ...)
{
    char text[512];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return err_set(ch->x->e, ERR_CODEC, "codec %s: %s", ch->x->cfg.plugin->name, text);
}

int channel_too_long(struct channel *ch)
{
    return channel_fail(ch,
                        codec_more(ch->x->cfg.plugin)->message_bytes
                            ? "its message is longer than %zu bytes, which its .message_bytes declares"
                            : "its message is longer than %zu bytes, the room without .message_bytes: 64 + 4 "
                              "n_params",
                        ch->limit);
}

void channel_before_call(struct channel *ch)
{
    ch->x->e->code = 0;
}

int channel_after_call(struct channel *ch, const char *callback, int rc, bool may_wait)
{
    int failed = ch->x->e->code;

    if (rc == CODEC_GO || (rc == CODEC_WAIT && may_wait))
        return rc;
    if (rc < 0 && failed < 0)
        return failed;
    return rc < 0
               ? channel_fail(ch, "its %s failed without an error message (codec_fail sets it)", callback)
               : channel_fail(ch,
                              "its %s returned %d, which is neither CODEC_GO%s nor what a call of the host "
                              "returned",
                              callback, rc, may_wait ? " nor CODEC_WAIT" : "");
}

int channel_call(struct channel *ch, enum phase phase, const char *callback, int (*f)(struct channel *))
{
    enum phase last = phase_call(ch->x->watch, phase, callback);
    int rc;

    channel_before_call(ch);
    rc = channel_after_call(ch, callback, f(ch), true);
    phase_enter(ch->x->watch, last);
    return rc;
}

int channel_blame(struct channel *ch, int from)
{
    struct exchange *x = ch->x;

    if (!x->cfg.goes_on || from < 0 || from == x->cfg.node)
        return x->e->code;
    if (round_agrees(ch))
        return round_accuse(ch, from);
    mesh_drop(x->mesh, from, x->e->text);
    *x->e = (struct err){0};
    return CODEC_GO;
}

struct mesh_buf *channel_encode(struct channel *ch, const char *callback,
                                int (*encode)(struct channel *, struct wire_out *), double *seconds)
{
    struct mesh_buf *b = mesh_buf_take(ch->x->mesh);
    struct stopwatch *w = ch->x->watch;
    enum phase last;
    double start;

    if (!b) {
        err_set(ch->x->e, ERR_NOMEM, "no memory for a message of %zu bytes", ch->limit);
        return NULL;
    }
    ch->out = (struct wire_out){.bytes = b->bytes, .limit = ch->limit};
    compressing_begin_writing(&ch->compressing);
    last = phase_call(w, PHASE_ENCODE, callback);
    start = stopwatch_since(w);
    channel_before_call(ch);
    if (channel_after_call(ch, callback, encode(ch, &ch->out), false) < 0)
        goto fail;
    if (ch->compressing.lacks_memory) {
        err_set(ch->x->e, ERR_NOMEM, "no memory for a residual of the compressors' error feedback");
        goto fail;
    }
    if (ch->out.bad) {
        channel_too_long(ch);
        goto fail;
    }
    b->len = ch->out.len;
    phase_enter(w, last);
    *seconds = stopwatch_since(w) - start;
    return b;
fail:
    mesh_buf_put(b);
    return NULL;
}

int channel_decode(struct channel *ch, enum phase phase, const char *callback,
                   int (*read)(struct channel *, int from, struct wire_in *), int from,
                   const struct mesh_buf *b)
{
    struct wire_in in = {.bytes = b->bytes, .len = b->len};
    enum phase last = phase_call(ch->x->watch, phase, callback);
    int rc;

    ch->x->read_bytes[phase] += b->len;
    compressing_begin_reading(&ch->compressing, from);
    channel_before_call(ch);
    rc = channel_after_call(ch, callback, read(ch, from, &in), !ch->rule);
    if (rc >= 0 && ch->x->e->code == ERR_NUMERIC) /* a codec that goes on without the vector it asked for */
        rc = ERR_NUMERIC;
    if (rc >= 0)
        compressing_end_reading(&ch->compressing);
    phase_enter(ch->x->watch, last);
    return rc;
}

int channel_apply(struct channel *ch)
{
    enum phase last;
    int rc;

    if (!ch->rule->apply)
        return CODEC_GO;
    last = phase_call(ch->x->watch, PHASE_APPLY, "apply");
    channel_before_call(ch);
    rc = channel_after_call(ch, "apply", ch->rule->apply(ch), false);
    phase_enter(ch->x->watch, last);
    return rc;
}

/* The messages of a codec's rounds. */

static const struct codec_round *round_of(const struct channel *ch)
{
    return codec_more(ch->x->cfg.plugin)->round;
}

static int encode(struct channel *ch, struct wire_out *out)
{
    return round_of(ch)->encode(&ch->codec, out);
}

static int merge(struct channel *ch, int from, struct wire_in *in)
{
    return round_of(ch)->merge(&ch->codec, from, in);
}

static int apply(struct channel *ch)
{
    return round_of(ch)->apply(&ch->codec);
}

static int reply(struct channel *ch, struct wire_out *out)
{
    return round_of(ch)->reply(&ch->codec, out);
}

static int adopt(struct channel *ch, int server, struct wire_in *in)
{
    (void)server;
    return round_of(ch)->adopt(&ch->codec, in);
}

struct round_rule round_rule_of(const struct codec_round *r)
{
    return (struct round_rule){.before_update = r->before_update,
                               .per_block = r->per_block,
                               .encode = encode,
                               .merge = merge,
                               .apply = r->apply ? apply : NULL,
                               .reply = reply,
                               .adopt = adopt};
}
