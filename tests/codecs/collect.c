/* collect -- an event rule that requests all collectives one after another and checks their results. */
#include "codec_events.h"

enum { SLICE = 3, STAGES = 5 };

struct collect {
    float *in, *out[2];
    int stage, n_done;
};

/* The input of worker k at i in the present step: small integers, so that sums are exact. */
static float value(const struct codec *c, int k, size_t i)
{
    return (float)(100 * k + (int)i + (int)c->run->step);
}

static size_t length(const struct codec *c)
{
    return (size_t)c->n_workers * SLICE;
}

static int collect_open(struct codec *c)
{
    struct collect *s = c->state;

    if (codec_zeros(c, &s->in, length(c)) < 0 || codec_zeros(c, &s->out[0], length(c)) < 0)
        return -1;
    return codec_zeros(c, &s->out[1], length(c));
}

static int request(struct codec *c)
{
    const struct codec_host *h = c->run->host;
    struct collect *s = c->state;
    float *out = s->out[s->n_done % 2];

    for (size_t i = 0; i < length(c); i++)
        s->in[i] = value(c, c->run->node, i);
    switch (s->stage) {
    case 0:
        return h->all_reduce(c, CODEC_SUM, s->in, out, length(c));
    case 1:
        return h->reduce_scatter(c, CODEC_SUM, s->in, out, length(c));
    case 2:
        return h->all_gather(c, s->in, out, length(c));
    case 3:
        return h->broadcast(c, c->n_workers - 1, s->in, out, length(c));
    default:
        return h->all_to_all(c, s->in, out, length(c));
    }
}

static float expected(const struct codec *c, int stage, size_t i)
{
    size_t mine = codec_slice(c, length(c), c->run->node);
    int k = (int)(i / SLICE);
    float sum = 0;

    switch (stage) {
    case 2:
        return value(c, k, i);
    case 3:
        return value(c, c->n_workers - 1, i);
    case 4:
        return value(c, k, mine + i % SLICE);
    default:
        for (int w = 0; w < c->n_workers; w++)
            sum += value(c, w, i);
        return sum;
    }
}

static int collect_on_step(struct codec *c)
{
    struct collect *s = c->state;

    s->stage = 0;
    return request(c);
}

static int collect_on_collective(struct codec *c)
{
    struct collect *s = c->state;
    size_t mine = codec_slice(c, length(c), c->run->node);

    for (size_t i = 0; i < length(c); i++)
        if ((s->stage != 1 || (i >= mine && i < mine + SLICE)) &&
            s->out[s->n_done % 2][i] != expected(c, s->stage, i))
            return codec_fail(c, "stage %d: number %zu is %g", s->stage, i, (double)s->out[s->n_done % 2][i]);
    s->n_done++;
    return ++s->stage < STAGES ? request(c) : CODEC_GO;
}

static const struct codec_events collect = {.on_step = collect_on_step,
                                            .on_collective = collect_on_collective};

CODEC_PLUGIN(.name = "collect", .source = "a test", .state_size = sizeof(struct collect),
             .open = collect_open, .more = CODEC_MORE(.events = &collect))
