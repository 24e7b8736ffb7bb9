#include "runner/exchange/feed.h"

#include <stdio.h>

#include "runner/exchange/exchange_private.h"

bool feed_is_used(const struct exchange *x)
{
    return x->cfg.blocks->is_shared;
}

static int send_order(struct exchange *x, int to, enum feed_order order, uint64_t p)
{
    const struct mesh_head h = {
        .kind = FRAME_FEED, .peer = to, .channel = x->channels[0].id, .index = order, .round = p};
    struct mesh_buf *b = mesh_buf_take(x->mesh);
    int rc;

    if (!b)
        return err_set(x->e, ERR_NOMEM, "no memory for a message");
    b->len = 0;
    rc = mesh_send(x->mesh, &h, b, x->e);
    mesh_buf_put(b);
    return rc < 0 ? rc : CODEC_GO;
}

int feed_ask(struct exchange *x, struct err *e)
{
    struct feed *f = &x->feed;

    if (f->has_asked || f->has_next || f->is_over)
        return CODEC_GO;
    x->e = e;
    f->has_asked = true;
    return send_order(x, FEED_SERVER, FEED_ASK, 0);
}

int feed_await(struct exchange *x, struct err *e)
{
    struct feed *f = &x->feed;

    if (feed_ask(x, e) < 0)
        return e->code;
    f->waits = !f->has_next && !f->is_over;
    return f->waits ? CODEC_WAIT : CODEC_GO;
}

bool feed_next_is_of(const struct exchange *x, uint64_t epoch, uint64_t n_rows)
{
    return x->feed.has_next && x->feed.next / n_rows == epoch;
}

uint64_t feed_take(struct exchange *x)
{
    x->feed.has_next = false;
    return x->feed.next;
}

bool feed_is_over(const struct exchange *x)
{
    return x->feed.is_over;
}

static int give_part(struct exchange *x, int worker)
{
    struct feed *f = &x->feed;

    if (f->n_given == x->cfg.n_steps)
        return send_order(x, worker, FEED_OVER, 0);
    return send_order(x, worker, FEED_NEXT, f->n_given++);
}

static int on_answer(struct exchange *x, const struct mesh_head *h)
{
    struct feed *f = &x->feed;

    f->has_asked = f->waits = false;
    f->is_over = h->index == FEED_OVER;
    f->has_next = !f->is_over;
    f->next = h->round;
    return CODEC_GO;
}

int feed_on_message(struct exchange *x, const struct mesh_event *ev)
{
    const struct mesh_head *h = &ev->head;
    bool is_asked = x->cfg.node == FEED_SERVER && h->peer >= 0 && h->index == FEED_ASK;
    bool is_answer = x->cfg.node >= 0 && h->peer == FEED_SERVER && x->feed.has_asked &&
                     (h->index == FEED_OVER || (h->index == FEED_NEXT && h->round < x->cfg.n_steps));

    if (feed_is_used(x) && ev->buf->len == 0 && (is_asked || is_answer))
        return is_asked ? give_part(x, h->peer) : on_answer(x, h);
    err_set(x->e, ERR_PROTOCOL, "node %d sent a message about mini-batches that it may not send", h->peer);
    return h->peer < 0 ? x->e->code : channel_drop_sender(&x->channels[0], h->peer);
}

void feed_waits_for(char *out, size_t size)
{
    snprintf(out, size, "node %d's message with the next mini-batch", FEED_SERVER);
}
