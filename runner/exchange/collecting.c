#include <stdio.h>
#include <stdlib.h>

#include "runner/exchange/exchange_private.h"

bool collecting_is_awaited(const struct channel *ch)
{
    return ch->collecting.collective && collective_is_awaited(ch->collecting.collective);
}

bool collecting_is_on_mesh(const struct channel *ch)
{
    return ch->collecting.collective && collective_is_under_way(ch->collecting.collective);
}

static bool is_under_way(const struct channel *ch)
{
    return ch->collecting.step != COLLECTING_NOTHING || collecting_is_on_mesh(ch);
}

static bool is_in_shm(const struct channel *ch)
{
    return ch->collecting.step != COLLECTING_NOTHING && ch->collecting.step != COLLECTING_BETWEEN;
}

/* The bytes that compression saves in a chunk of `len` bytes. */
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
    ch->collecting.n_buckets = collective_buckets(starts, n, ch->n_params, ch->x->cfg.bucket);
    return 0;
}

int collecting_open(struct channel *ch, struct err *e)
{
    const struct exchange_config *cfg = &ch->x->cfg;
    struct collective_config config = {.n_nodes = cfg->n_workers,
                                       .me = cfg->node,
                                       .algorithm = cfg->allreduce,
                                       .send = send_chunk,
                                       .received = received_chunk,
                                       .watch = ch->x->watch,
                                       .owner = ch};

    if (cfg->n_servers > 0)
        return 0;
    return make_buckets(ch, e) < 0 ? e->code : collective_new(&ch->collecting.collective, &config, e);
}

void collecting_clear(struct channel *ch)
{
    collective_free(ch->collecting.collective);
    free(ch->collecting.buckets);
    free(ch->collecting.sum);
}

int collecting_share(struct channel *ch, struct shm_group *group, struct err *e)
{
    struct collecting *s = &ch->collecting;

    s->shm_group = group;
    s->is_whole = group && shm_group_n(group) == ch->codec.n_workers;
    s->is_inside = !s->is_whole;
    s->reads_grads = group &&
                     !ch->x->is_late; /* late vectors are copies: the next gradients are computed meanwhile */
    s->is_in_memory = s->reads_grads && s->is_whole;
    for (int k = 0; group && k < shm_group_n(group); k++)
        if (!peer_stats_make(&ch->x->peer_stats, exchange_slot(ch->x, shm_group_node(group, k))))
            return err_set(e, ERR_NOMEM, "no memory for the traffic statistics of a machine's nodes");
    if (!group || s->is_whole || shm_group_me(group) > 0)
        return 0;
    s->sum = malloc((ch->n_params + 1) * sizeof *s->sum);
    return s->sum ? 0 : err_set(e, ERR_NOMEM, "no memory for a machine's sum of %zu numbers", ch->n_params);
}

void collecting_attach(struct channel *ch, struct mesh *m, const int *machines)
{
    if (!ch->collecting.collective)
        return;
    ch->collecting.mesh = m;
    collective_attach(ch->collecting.collective, m, machines);
    m->sink = sink_of_chunk;
    m->owner = ch;
}

/* The codec may start the next collective in on_collective; with one worker that is complete at once. */
int collecting_notify(struct channel *ch)
{
    int rc = CODEC_GO;

    while (rc >= 0 && ch->collecting.is_done) {
        enum phase last = phase_call(ch->x->watch, PHASE_APPLY, "on_collective");

        ch->collecting.is_done = false;
        channel_before_call(ch);
        rc = channel_after_call(ch, "on_collective", ch->x->handlers.on_collective(ch), true);
        phase_enter(ch->x->watch, last);
        ch->is_waiting = rc == CODEC_WAIT;
    }
    return rc < 0 ? rc : CODEC_GO;
}

static int next_step(struct channel *ch);

/* After a call that returned rc and may have ended a collective on the mesh. */
static int after_mesh(struct channel *ch, int rc)
{
    return rc == COLLECTIVE_DONE && ch->collecting.step == COLLECTING_BETWEEN ? next_step(ch) : rc;
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
    rc = after_mesh(ch, collective_ready(s->collective, ready, ch->x->e));
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
    const struct shm_group *g = s->shm_group;
    int me = shm_group_me(g);

    for (int k = 0; k < shm_group_n(g); k++) {
        bool is_short = s->in_shm.n <= SHM_GROUP_SMALL;
        size_t whole = s->in_shm.n * sizeof(float);
        size_t parts = bytes_of_slice(g, s->in_shm.n, k) + bytes_of_slice(g, s->in_shm.n, me);
        int node = shm_group_node(g, k);

        if (k == me)
            continue;
        if (s->in_shm.kind == COLLECTIVE_BROADCAST)
            channel_shared(ch, node, s->in_shm.root == me ? whole : 0, s->in_shm.root == k ? whole : 0);
        else
            channel_shared(ch, node, is_short ? whole : parts, is_short ? whole : parts);
    }
}

/* The time of summing counts as waiting, because the two alternate part by part. */
static int advance_in_shm(struct channel *ch, struct err *e)
{
    enum phase last = phase_enter(ch->x->watch, PHASE_WAIT);
    int rc = shm_group_poll(ch->collecting.shm_group, e);

    phase_enter(ch->x->watch, last);
    if (rc <= 0)
        return rc < 0 ? rc : COLLECTIVE_UNDER_WAY;
    account(ch);
    return next_step(ch);
}

int collecting_advance(struct channel *ch, const struct mesh_event *ev, struct err *e)
{
    struct collecting *s = &ch->collecting;
    int rc = COLLECTIVE_UNDER_WAY;
    struct err later;

    /* A late wakeup must be consumed, or every later poll would return at once. If this fails, the next
     * collective reports the error. */
    if (is_in_shm(ch))
        rc = advance_in_shm(ch, e);
    else if (s->shm_group && ev->kind == MESH_NOTHING)
        shm_group_poll(s->shm_group, &later);
    if (rc == COLLECTIVE_UNDER_WAY && collecting_is_on_mesh(ch))
        rc = after_mesh(ch, collective_on_event(s->collective, ev, ch->x->e));
    if (rc < 0)
        return rc;
    s->is_done |= rc == COLLECTIVE_DONE;
    return CODEC_GO;
}

int collecting_on_event(struct channel *ch, const struct mesh_event *ev, struct err *e)
{
    int rc = collecting_advance(ch, ev, e);

    return rc < 0 ? rc : collecting_notify(ch);
}

bool collecting_cannot_complete(const struct channel *ch)
{
    int node = collecting_is_on_mesh(ch) ? collective_awaits(ch->collecting.collective) : ch->awaited;

    return node >= 0 && channel_has_left(ch, node);
}

int collecting_awaits(const struct channel *ch)
{
    const struct collecting *s = &ch->collecting;

    if (is_in_shm(ch))
        return shm_group_awaits(s->shm_group);
    return collecting_is_on_mesh(ch) ? collective_awaits(s->collective) : ch->awaited;
}

void collecting_waits_for(const struct channel *ch, char *out, size_t size)
{
    if (is_in_shm(ch))
        shm_group_waits_for(ch->collecting.shm_group, out, size);
    else if (collecting_is_on_mesh(ch))
        collective_waits_for(ch->collecting.collective, out, size);
    else if (ch->awaited >= 0)
        snprintf(out, size, "a message of node %d", ch->awaited);
}

static size_t bytes_of(const struct collective_request *request)
{
    return request->n * (request->item ? request->item->bytes : sizeof(float));
}

static bool overlap(const void *a, size_t n_a, const void *b, size_t n_b)
{
    uintptr_t a_at = (uintptr_t)a, b_at = (uintptr_t)b;

    return a_at < b_at + n_b && b_at < a_at + n_a;
}

/* A shm group has all-reduce and broadcast only, because its slices differ from those of codec_events.h. A
 * long vector must be the group's `in`: it could not be copied there, because the next gradient may be
 * computed there. All workers run the same codec and so decide the same. */
static bool fits_shm(const struct channel *ch, const struct collective_request *request)
{
    const struct shm_group *a = ch->collecting.shm_group;

    return ch->collecting.is_whole && !request->item &&
           (request->kind == COLLECTIVE_ALL_REDUCE || request->kind == COLLECTIVE_BROADCAST) &&
           request->n <= ch->n_params && (request->n <= SHM_GROUP_SMALL || request->in == shm_group_in(a));
}

/* In shared memory no other worker reads `out`, which may be `in`. The paths of combinations rely on that. */
static bool is_private(const struct channel *ch, const struct collective_request *request)
{
    return ch->combining.rule && fits_shm(ch, request);
}

static int start_in_shm(struct channel *ch, const struct collective_request *request,
                        enum collecting_step step)
{
    struct err *e = ch->x->e;
    const struct shm_collective c = {
        .kind = request->kind == COLLECTIVE_BROADCAST ? SHM_BROADCAST : SHM_ALL_REDUCE,
        .in = request->in,
        .out = request->out,
        .n = request->n,
        .is_mean = request->is_mean,
        .root = request->root,
    };

    if (shm_group_start(ch->collecting.shm_group, &c, e) < 0)
        return e->code;
    ch->collecting.in_shm = *request;
    ch->collecting.step = step;
    return advance_in_shm(ch, e);
}

/* Do all workers have the vector where the gradients are, or can they copy it to a slot of the shm group? The
 * vectors of a late exchange are elsewhere, and shared memory is not polled while a gradient is computed. */
static bool fits_inside(const struct channel *ch, const struct collective_request *request)
{
    return ch->collecting.is_inside && request->levels == PLAN_TWO_LEVELS && !request->item &&
           request->n <= ch->n_params && !ch->x->is_late;
}

/* Sums the whole vector at once between the first workers; the other workers do not take part. */
static int start_between(struct channel *ch)
{
    struct collecting *s = &ch->collecting;
    struct collective_request request = s->levels;

    request.levels = PLAN_BETWEEN;
    request.in = s->sum ? s->sum : request.in;
    request.buckets = NULL;
    request.n_buckets = 0;
    s->step = COLLECTING_BETWEEN;
    return after_mesh(ch, collective_start(s->collective, &request, ch->x->e));
}

/* The sum of a machine goes to `sum`, because other machines may read `out` until the next collective is
 * complete. */
static int start_inside(struct channel *ch, const struct collective_request *request)
{
    struct collecting *s = &ch->collecting;
    struct collective_request inside = *request;

    s->levels = *request;
    if (!s->shm_group)
        return start_between(ch);
    inside.is_mean = false;
    inside.out = s->sum ? s->sum : request->out;
    return start_in_shm(ch, &inside, COLLECTING_INSIDE);
}

/* The broadcast overwrites the gradients, which have been summed. */
static int start_back(struct channel *ch)
{
    struct collecting *s = &ch->collecting;
    struct collective_request back = s->levels;

    back.kind = COLLECTIVE_BROADCAST;
    back.root = 0;
    back.in = s->levels.out;
    return start_in_shm(ch, &back, COLLECTING_BACK);
}

/* Continues after a step. COLLECTIVE_DONE, COLLECTIVE_UNDER_WAY or a code. */
static int next_step(struct channel *ch)
{
    struct collecting *s = &ch->collecting;

    if (s->step == COLLECTING_INSIDE)
        return start_between(ch);
    if (s->step == COLLECTING_BETWEEN && s->shm_group)
        return start_back(ch);
    s->step = COLLECTING_NOTHING;
    return COLLECTIVE_DONE;
}

static int start_collective(struct channel *ch, const struct collective_request *request)
{
    if (fits_inside(ch, request))
        return start_inside(ch, request);
    if (fits_shm(ch, request))
        return start_in_shm(ch, request, COLLECTING_IN_SHM);
    return collective_start(ch->collecting.collective, request, ch->x->e);
}

static enum plan_levels levels_of(const struct channel *ch)
{
    return exchange_has_levels(ch->x) ? PLAN_TWO_LEVELS : PLAN_FLAT;
}

int collecting_link(struct channel *ch, size_t n, const struct collective_item *item, const int *machines,
                    bool *linked)
{
    const struct collective_request request = {
        .kind = COLLECTIVE_ALL_REDUCE, .levels = levels_of(ch), .item = item, .n = n};

    return collective_link(ch->collecting.collective, &request, machines, linked, ch->x->e);
}

int collecting_start(struct channel *ch, struct collective_request *request)
{
    struct codec *c = &ch->codec;
    struct collecting *s = &ch->collecting;
    const char *name = collective_kind_name(request->kind);
    int rc;

    if (!s->collective)
        return channel_fail(ch, "%s is for event rules between workers; leave the parameter servers out",
                            name);
    if (!ch->x->handlers.on_collective)
        return channel_fail(ch, "it calls %s and has no on_collective", name);
    if (!s->mesh || is_under_way(ch) || s->is_done)
        return channel_fail(ch, "it calls %s in open(), or before the last collective is done", name);
    if (!is_private(ch, request) &&
        (request->in == request->out ||
         overlap(request->in, bytes_of(request), request->out, bytes_of(request)) ||
         overlap(s->last_out, s->n_last_out, request->out, bytes_of(request))))
        return channel_fail(ch, "%s: its `out` is its `in`, or the `out` of the previous collective", name);
    if (request->root < 0 || request->root >= c->n_workers)
        return channel_fail(ch, "%s with root node %d, which is not a worker", name, request->root);
    if (request->kind == COLLECTIVE_ALL_TO_ALL && request->n % (size_t)c->n_workers != 0)
        return channel_fail(ch, "%s of %zu numbers, which cannot be divided equally among %d workers", name,
                            request->n, c->n_workers);
    if (request->in == c->grads && request->n == ch->n_params) {
        request->ready = s->ready;
        request->buckets = s->buckets;
        request->n_buckets = s->n_buckets;
    }
    if (request->kind == COLLECTIVE_ALL_REDUCE)
        request->levels = levels_of(ch);
    s->item_bytes = request->item ? request->item->bytes : sizeof(float);
    rc = start_collective(ch, request);
    if (rc < 0)
        return rc;
    s->last_out = request->out;
    s->n_last_out = bytes_of(request);
    s->is_done = rc == COLLECTIVE_DONE;
    return CODEC_WAIT;
}

int collecting_all_reduce(struct channel *ch, enum codec_reduction what, const float *in, float *out,
                          size_t n)
{
    struct collective_request request = {
        .kind = COLLECTIVE_ALL_REDUCE, .is_mean = what == CODEC_MEAN, .in = in, .out = out, .n = n};

    return collecting_start(ch, &request);
}
