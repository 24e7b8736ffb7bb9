#include <stdio.h>
#include <stdlib.h>

#include "agent/runner/exchange/channel.h"

bool collecting_is_on_mesh(const struct channel *ch)
{
    return ch->collecting.collective && collective_is_under_way(ch->collecting.collective);
}

static bool is_under_way(const struct channel *ch)
{
    return ch->collecting.is_in_shm || collecting_is_on_mesh(ch);
}

/* What compression saves in a chunk of `len` bytes. */
static size_t saved(const struct channel *ch, size_t len)
{
    return ch->collecting.item_bytes < sizeof(float)
               ? len / ch->collecting.item_bytes * (sizeof(float) - ch->collecting.item_bytes)
               : 0;
}

static int send_chunk(void *owner, const struct mesh_head *h, const void *bytes, size_t len)
{
    return channel_send_view(owner, h, bytes, len, saved(owner, len));
}

static void received_chunk(void *owner, int from, size_t len)
{
    struct channel *ch = owner;

    ch->compressing.saved_in = (int64_t)saved(ch, len);
    channel_received(ch, from, len);
}

static enum mesh_sink_result sink_of_chunk(void *owner, const struct mesh_head *h, size_t len, void **at)
{
    return collective_sink(((struct channel *)owner)->collecting.collective, h, len, at);
}

static int make_buckets(struct channel *ch, struct err *e)
{
    size_t n = (size_t)ch->n_layers;
    size_t *starts = malloc((n + 1) * sizeof *starts);

    if (!starts)
        return err_set(e, ERR_NOMEM, "no memory for the offsets of %zu layers", n);
    for (size_t k = 0; k < n; k++)
        starts[k] = ch->layers[n - 1 - k].offset;
    ch->collecting.buckets = starts;
    ch->collecting.n_buckets = collective_buckets(starts, n, ch->n_params, channel_config(ch)->bucket);
    return 0;
}

int collecting_open(struct channel *ch, struct err *e)
{
    const struct exchange_config *cfg = channel_config(ch);
    struct collective_config config = {.n_nodes = cfg->n_workers,
                                       .me = cfg->node,
                                       .algorithm = cfg->allreduce,
                                       .send = send_chunk,
                                       .received = received_chunk,
                                       .watch = channel_watch(ch),
                                       .owner = ch};

    if (cfg->n_servers > 0)
        return 0;
    return make_buckets(ch, e) < 0 ? e->code : collective_new(&ch->collecting.collective, &config, e);
}

void collecting_clear(struct channel *ch)
{
    collective_free(ch->collecting.collective);
    free(ch->collecting.buckets);
}

void collecting_attach(struct channel *ch, struct mesh *m, bool is_one_machine)
{
    if (!ch->collecting.collective)
        return;
    ch->collecting.mesh = m;
    collective_attach(ch->collecting.collective, m, is_one_machine);
    m->sink = sink_of_chunk;
    m->owner = ch;
}

/* The codec may start the next collective at once; with one worker that one is done at once, too. */
int collecting_notify(struct channel *ch)
{
    int rc = CODEC_GO;

    while (rc >= 0 && ch->collecting.is_done) {
        ch->collecting.is_done = false;
        channel_before_call(ch);
        rc = channel_after_call(ch, "on_collective", ch->x->events->on_collective(&ch->codec), true);
        ch->is_waiting = rc == CODEC_WAIT;
    }
    return rc < 0 ? rc : CODEC_GO;
}

int collecting_ready(struct channel *ch, size_t ready)
{
    struct collecting *s = &ch->collecting;
    int rc;

    if (ready >= s->ready)
        return CODEC_GO;
    s->ready = ready;
    if (!collecting_is_on_mesh(ch))
        return CODEC_GO;
    rc = collective_ready(s->collective, ready, channel_err(ch));
    s->is_done |= rc == COLLECTIVE_DONE;
    return rc < 0 ? rc : CODEC_GO;
}

static size_t bytes_of_slice(const struct shm_group *a, size_t n, int i)
{
    size_t from, to;

    shm_group_slice(a, n, i, &from, &to);
    return (to - from) * sizeof(float);
}

/* Each other worker has read its slice of this node's `in`, or all of a short one, and this node's slice of
 * the result. */
static void account(struct channel *ch)
{
    const struct collecting *s = &ch->collecting;
    int me = ch->codec.node;

    for (int k = 0; k < ch->codec.n_workers; k++) {
        bool is_short = s->in_shm.n <= SHM_GROUP_SMALL;
        size_t whole = s->in_shm.n * sizeof(float);
        size_t parts = bytes_of_slice(s->shm_group, s->in_shm.n, k) +
                       bytes_of_slice(s->shm_group, s->in_shm.n, me);

        if (k == me)
            continue;
        if (s->in_shm.kind == COLLECTIVE_BROADCAST)
            channel_shared(ch, k, s->in_shm.root == me ? whole : 0, s->in_shm.root == k ? whole : 0);
        else
            channel_shared(ch, k, is_short ? whole : parts, is_short ? whole : parts);
    }
}

/* Summing is timed as waiting here: the two alternate part by part. */
static int advance_in_shm(struct channel *ch, struct err *e)
{
    enum phase last = phase_enter(channel_watch(ch), PHASE_WAIT);
    int rc = shm_group_poll(ch->collecting.shm_group, e);

    phase_enter(channel_watch(ch), last);
    if (rc <= 0)
        return rc < 0 ? rc : COLLECTIVE_UNDER_WAY;
    ch->collecting.is_in_shm = false;
    account(ch);
    return COLLECTIVE_DONE;
}

int collecting_on_event(struct channel *ch, const struct mesh_event *ev, struct err *e)
{
    struct collecting *s = &ch->collecting;
    int rc = COLLECTIVE_UNDER_WAY;
    struct err later;

    /* A late wakeup that is not consumed would end every poll from now on at once. The next collective
     * reports an error found here. */
    if (s->is_in_shm)
        rc = advance_in_shm(ch, e);
    else if (s->shm_group && ev->kind == MESH_NOTHING)
        shm_group_poll(s->shm_group, &later);
    if (rc == COLLECTIVE_UNDER_WAY && !s->is_in_shm && is_under_way(ch))
        rc = collective_on_event(s->collective, ev, e);
    if (rc < 0)
        return rc;
    s->is_done |= rc == COLLECTIVE_DONE;
    return collecting_notify(ch);
}

bool collecting_is_hopeless(const struct channel *ch)
{
    int node = is_under_way(ch) && !ch->collecting.is_in_shm ? collective_awaits(ch->collecting.collective)
                                                             : -1;

    return node >= 0 && channel_has_left(ch, node);
}

void collecting_waits_for(const struct channel *ch, char *out, size_t size)
{
    if (ch->collecting.is_in_shm)
        shm_group_waits_for(ch->collecting.shm_group, out, size);
    else if (is_under_way(ch))
        collective_waits_for(ch->collecting.collective, out, size);
}

static size_t bytes_of(const struct collective_ask *ask)
{
    return ask->n * (ask->item ? ask->item->bytes : sizeof(float));
}

static bool overlap(const void *a, size_t n_a, const void *b, size_t n_b)
{
    uintptr_t a_at = (uintptr_t)a, b_at = (uintptr_t)b;

    return a_at < b_at + n_b && b_at < a_at + n_a;
}

/* A shm group has all-reduce and broadcast only, as its slices differ from those of codec.h. A long vector
 * other than its `in` would have to be copied there, while the next gradient may be computed in it. All
 * workers run the same codec and so decide alike. */
static bool fits_shm(const struct channel *ch, const struct collective_ask *ask)
{
    const struct shm_group *a = ch->collecting.shm_group;

    return a && !ask->item && (ask->kind == COLLECTIVE_ALL_REDUCE || ask->kind == COLLECTIVE_BROADCAST) &&
           ask->n <= ch->n_params && (ask->n <= SHM_GROUP_SMALL || ask->in == shm_group_in(a));
}

/* The path of a combination knows that in shared memory no other worker receives from `out`. */
static bool is_private(const struct channel *ch, const struct collective_ask *ask)
{
    return ch->combining.rule && fits_shm(ch, ask);
}

static int start_in_shm(struct channel *ch, const struct collective_ask *ask)
{
    struct err *e = channel_err(ch);
    const struct shm_collective c = {
        .kind = ask->kind == COLLECTIVE_BROADCAST ? SHM_BROADCAST : SHM_ALL_REDUCE,
        .in = ask->in,
        .out = ask->out,
        .n = ask->n,
        .is_mean = ask->is_mean,
        .root = ask->root,
    };

    if (shm_group_start(ch->collecting.shm_group, &c, e) < 0)
        return e->code;
    ch->collecting.in_shm = *ask;
    ch->collecting.is_in_shm = true;
    return advance_in_shm(ch, e);
}

int collecting_start(struct channel *ch, struct collective_ask *ask)
{
    struct codec *c = &ch->codec;
    struct collecting *s = &ch->collecting;
    const char *name = collective_kind_name(ask->kind);
    int rc;

    if (!s->collective)
        return channel_fail(ch, "%s is for event rules between workers; leave the parameter servers out",
                            name);
    if (!ch->x->events->on_collective)
        return channel_fail(ch, "it calls %s and has no on_collective", name);
    if (!s->mesh || is_under_way(ch) || s->is_done)
        return channel_fail(ch, "it calls %s in open(), or before the last collective is done", name);
    if (ask->in == ask->out || overlap(ask->in, bytes_of(ask), ask->out, bytes_of(ask)) ||
        (!is_private(ch, ask) && overlap(s->last_out, s->n_last_out, ask->out, bytes_of(ask))))
        return channel_fail(ch, "%s: its `out` is its `in`, or the `out` of the previous collective", name);
    if (ask->root < 0 || ask->root >= c->n_workers)
        return channel_fail(ch, "%s with root node %d, which is not a worker", name, ask->root);
    if (ask->kind == COLLECTIVE_ALL_TO_ALL && ask->n % (size_t)c->n_workers != 0)
        return channel_fail(ch, "%s of %zu numbers, which cannot be divided equally among %d workers", name,
                            ask->n, c->n_workers);
    if (ask->in == c->grads && ask->n == ch->n_params) {
        ask->ready = s->ready;
        ask->buckets = s->buckets;
        ask->n_buckets = s->n_buckets;
    }
    s->item_bytes = ask->item ? ask->item->bytes : sizeof(float);
    rc = fits_shm(ch, ask) ? start_in_shm(ch, ask) : collective_start(s->collective, ask, channel_err(ch));
    if (rc < 0)
        return rc;
    s->last_out = ask->out;
    s->n_last_out = bytes_of(ask);
    s->is_done = rc == COLLECTIVE_DONE;
    return CODEC_WAIT;
}

static int collect(struct codec *c, struct collective_ask ask)
{
    return collecting_start(channel_of(c), &ask);
}

int collecting_all_reduce(struct codec *c, enum codec_reduction what, const float *in, float *out, size_t n)
{
    return collect(
        c, (struct collective_ask){
               .kind = COLLECTIVE_ALL_REDUCE, .is_mean = what == CODEC_MEAN, .in = in, .out = out, .n = n});
}

int collecting_reduce_scatter(struct codec *c, enum codec_reduction what, const float *in, float *out,
                              size_t n)
{
    return collect(
        c,
        (struct collective_ask){
            .kind = COLLECTIVE_REDUCE_SCATTER, .is_mean = what == CODEC_MEAN, .in = in, .out = out, .n = n});
}

int collecting_all_gather(struct codec *c, const float *in, float *out, size_t n)
{
    return collect(c, (struct collective_ask){.kind = COLLECTIVE_ALL_GATHER, .in = in, .out = out, .n = n});
}

int collecting_broadcast(struct codec *c, int root, const float *in, float *out, size_t n)
{
    return collect(
        c, (struct collective_ask){.kind = COLLECTIVE_BROADCAST, .root = root, .in = in, .out = out, .n = n});
}

int collecting_all_to_all(struct codec *c, const float *in, float *out, size_t n)
{
    return collect(c, (struct collective_ask){.kind = COLLECTIVE_ALL_TO_ALL, .in = in, .out = out, .n = n});
}

size_t collecting_slice(const struct codec *c, size_t n, int k)
{
    return collective_slice(n, k, c->n_workers);
}
