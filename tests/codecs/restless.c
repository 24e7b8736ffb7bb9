/* restless -- the mean of all gradients by an all-reduce, and timers or messages without an end, which the
 * option selects. With all but the first one, no worker goes on.
 *
 *   poll    a timer is set again each time, and does nothing
 *   flood   a timer sends more than a link carries, whether or not a worker may still send; the all-reduce
 *           never gets through
 *   timers  a timer is set again each time, while workers wait for a message that nobody sends
 *   now     the same without a delay: simulated time does not advance
 *   echo    each message is answered, while workers wait for another one */
#include "codec_events.h"

enum { POLL, FLOOD, TIMERS, NOW, ECHO };
enum { LONG = 150000 /* bytes: 100 Mbit/s take 12 ms for them */ };

struct restless {
    int what;
    float *mean[2];
    int n_done;
};

static const struct codec_option options[] = {
    CODEC_OPTION_CHOICE(struct restless, what, "poll|flood|timers|now|echo", "what goes on without an end"),
    {0},
};

static int restless_open(struct codec *c)
{
    struct restless *r = c->state;

    return codec_zeros(c, &r->mean[0], c->n_params) < 0 ? -1 : codec_zeros(c, &r->mean[1], c->n_params);
}

static void send_to_all(struct codec *c, size_t n_bytes)
{
    struct wire_out *out = codec_message(c);

    wire_put(out, n_bytes, 1);
    for (int to = 0; to < c->n_workers; to++)
        if (to != c->run->node)
            codec_send(c, to);
}

static int restless_on_grad(struct codec *c)
{
    struct restless *r = c->state;

    if (r->what == POLL || r->what == FLOOD) {
        codec_wake(c, r->what == POLL ? 0.001 : 0.01);
        return codec_all_reduce(c, CODEC_MEAN, c->grads, r->mean[r->n_done % 2], c->n_params);
    }
    if (r->what == ECHO)
        send_to_all(c, 1);
    else
        codec_wake(c, r->what == NOW ? 0 : 0.01);
    return CODEC_WAIT;
}

static int restless_on_collective(struct codec *c)
{
    struct restless *r = c->state;

    c->run->gradient = r->mean[r->n_done++ % 2];
    return CODEC_GO;
}

static int restless_on_message(struct codec *c, int from, struct wire_in *in)
{
    struct restless *r = c->state;

    (void)from;
    in->at = in->len;
    if (r->what == ECHO)
        send_to_all(c, 1);
    return CODEC_WAIT;
}

static int restless_on_wake(struct codec *c)
{
    struct restless *r = c->state;

    if (r->what == FLOOD)
        send_to_all(c, LONG);
    codec_wake(c, r->what == NOW ? 0 : r->what == POLL ? 0.001 : 0.01);
    return CODEC_WAIT;
}

static size_t restless_message_bytes(const struct codec *c)
{
    (void)c;
    return LONG;
}

static const struct codec_events restless = {.on_grad = restless_on_grad,
                                             .on_collective = restless_on_collective,
                                             .on_message = restless_on_message,
                                             .on_wake = restless_on_wake};

CODEC_PLUGIN(.name = "restless", .source = "a test", .state_size = sizeof(struct restless),
             .options = options, .open = restless_open,
             .limits = CODEC_NO_SERVERS | CODEC_NO_ASGD | CODEC_NO_REDUNDANCY,
             .more = CODEC_MORE(.events = &restless, .compression = CODEC_UNCOMPRESSED,
                                .message_bytes = restless_message_bytes))
