#include "runner/collective/collective.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runner/base/vector.h"

/* An exchange may have collectives of three lengths: weights and numbers, scales, a vector. */
enum { PREPARED = 3 };

struct prepared { /* a plan, and a buffer for each peer whose chunks are added */
    struct collective_plan plan;
    enum plan_levels levels; /* of the request */
    char *staging;
    size_t *stage; /* (n_peers): offset of a peer's buffer in staging */
};

struct sender {
    size_t cursor;     /* index in the plan of its next chunk */
    uint32_t received; /* chunks received */
    bool is_staged;    /* its last chunk is not added yet */
};

/* Nodes whose chunks remain in the connection for now. Any node may be among them, not only a peer of the
 * present plan. */
enum { PAUSED_BITS = 64 };
struct paused {
    uint64_t *bits; /* (n_nodes) */
    int n;
};

/* An all-reduce that the mesh computes, in parts from the vector's end to its front (part_before). */
struct mesh_sum {
    bool is_under_way;
    size_t done;    /* sums from here on are complete */
    size_t given;   /* those from here on, up to `done`, are under way in the mesh */
    size_t n_parts; /* under way */
};

struct collective {
    struct collective_config cfg;
    struct mesh *mesh;
    const int *machines;
    struct prepared prepared[COLLECTIVE_KINDS][PREPARED]; /* the last of each kind */
    int oldest[COLLECTIVE_KINDS];                         /* index of the next to be replaced */
    struct sender *senders;                               /* by the plan's peers */
    size_t senders_room;
    struct paused paused;
    const struct prepared *now; /* of the collective under way; NULL: none, or one without a plan */
    struct mesh_sum sum;
    struct collective_request request;
    uint64_t number; /* of the collective under way, or of the last one */
    size_t n_sent, n_done;
    uint64_t summed; /* bytes added so far */
    size_t ready;    /* request.in is complete from this index on */
    void *kept[2];   /* copies from which a collective sends, used in turn: free when the next one is done */
    size_t kept_room[2]; /* bytes */
};

static void sum_floats(const void *with, void *out, const void *const *in, int n_in, size_t n, float scale)
{
    const float *const v[] = {in[0], in[1], n_in > 2 ? in[2] : NULL};

    (void)with;
    vector_sum(out, v, n_in, n, scale);
}

static const struct collective_item floats = {.bytes = sizeof(float), .sum = sum_floats};

static size_t bytes(const struct collective *c, size_t n)
{
    return n * c->request.item->bytes;
}

static size_t paused_words(int n_nodes)
{
    return (size_t)(n_nodes - 1) / PAUSED_BITS + 1;
}

int collective_new(struct collective **out, const struct collective_config *cfg, struct err *e)
{
    struct collective *c = calloc(1, sizeof *c);

    if (!c || !(c->paused.bits = calloc(paused_words(cfg->n_nodes), sizeof *c->paused.bits))) {
        free(c);
        return err_set(e, ERR_NOMEM, "no memory for collectives");
    }
    c->cfg = *cfg;
    *out = c;
    return 0;
}

static void prepared_clear(struct prepared *r)
{
    collective_plan_clear(&r->plan);
    free(r->staging);
    free(r->stage);
    *r = (struct prepared){0};
}

void collective_free(struct collective *c)
{
    if (!c)
        return;
    for (int k = 0; k < COLLECTIVE_KINDS; k++)
        for (int i = 0; i < PREPARED; i++)
            prepared_clear(&c->prepared[k][i]);
    free(c->kept[0]);
    free(c->kept[1]);
    free(c->paused.bits);
    free(c->senders);
    free(c);
}

void collective_attach(struct collective *c, struct mesh *m, const int *machines)
{
    c->mesh = m;
    c->machines = machines;
}

/* A buffer for each peer, as long as its longest chunk to add. */
static int make_staging(struct prepared *r, struct err *e)
{
    const struct collective_plan *p = &r->plan;
    size_t total = 0;

    r->stage = calloc(p->n_peers + 1, sizeof *r->stage);
    for (size_t i = 0; r->stage && i < p->n_recvs; i++) {
        const struct plan_recv *v = &p->recvs[i];

        if (v->op != PLAN_COPY && v->n > r->stage[v->peer])
            r->stage[v->peer] = v->n;
    }
    for (size_t k = 0; r->stage && k < p->n_peers; k++) {
        size_t room = (r->stage[k] * p->request.item_bytes + 63) / 64 * 64; /* whole cache lines */

        r->stage[k] = total;
        total += room;
    }
    r->staging = aligned_alloc(64, total ? total : 64);
    if (r->stage && r->staging)
        return 0;
    err_set(e, ERR_NOMEM, "no memory for the chunks of %s over %zu numbers",
            collective_kind_name(p->request.kind), p->request.n);
    prepared_clear(r);
    return e->code;
}

static bool is_prepared(const struct prepared *r, const struct collective_request *request)
{
    return r->staging && r->plan.request.n == request->n && r->plan.request.root == request->root &&
           r->levels == request->levels && r->plan.request.buckets == request->buckets &&
           r->plan.request.item_bytes == request->item->bytes;
}

static enum collective_algorithm plan_algorithm(const struct collective *c)
{
    return c->cfg.algorithm < COLLECTIVE_ALGORITHMS ? c->cfg.algorithm : COLLECTIVE_AUTO;
}

/* Before there is a mesh, only who sends to whom is wanted, which chunks do not change. */
static size_t chunk_bytes(const struct collective *c)
{
    return c->mesh && c->mesh->chunk > 0 ? c->mesh->chunk : COLLECTIVE_CHUNK;
}

static struct plan_request plan_request_of(const struct collective *c,
                                           const struct collective_request *request)
{
    return (struct plan_request){.kind = request->kind,
                                 .algorithm = plan_algorithm(c),
                                 .levels = request->levels,
                                 .n_nodes = c->cfg.n_nodes,
                                 .me = c->cfg.me,
                                 .root = request->root,
                                 .n = request->n,
                                 .item_bytes = request->item->bytes,
                                 .machines = c->machines,
                                 .chunk = chunk_bytes(c) / request->item->bytes,
                                 .buckets = request->buckets,
                                 .n_buckets = request->n_buckets};
}

/* Buckets decide how long chunks are, not between which nodes. */
int collective_link(const struct collective *c, const struct collective_request *request, const int *machines,
                    bool *linked, struct err *e)
{
    struct collective_request r = *request;
    struct plan_request wanted;

    r.item = r.item ? r.item : &floats;
    wanted = plan_request_of(c, &r);
    wanted.machines = machines;
    return collective_plan_link(linked, &wanted, e);
}

/* Returns the plan for `request`: the plan of an earlier collective of its kind, or a new one. */
static const struct prepared *find_plan(struct collective *c, const struct collective_request *request,
                                        struct err *e)
{
    struct prepared *r = c->prepared[request->kind];
    int *oldest = &c->oldest[request->kind];
    const struct plan_request wanted = plan_request_of(c, request);

    for (int i = 0; i < PREPARED; i++)
        if (is_prepared(&r[i], request))
            return &r[i];
    r += *oldest;
    *oldest = (*oldest + 1) % PREPARED;
    free(r->staging);
    free(r->stage);
    r->staging = NULL;
    r->stage = NULL;
    r->levels = request->levels;
    if (collective_plan_make(&r->plan, &wanted, e) < 0 || make_staging(r, e) < 0)
        return NULL;
    return r;
}

static char *kept(const struct collective *c)
{
    return c->kept[c->number % 2];
}

static int make_kept_room(struct collective *c, size_t n_bytes, struct err *e)
{
    int turn = (int)(c->number % 2);

    if (c->kept_room[turn] >= n_bytes)
        return 0;
    free(c->kept[turn]);
    c->kept_room[turn] = 0;
    c->kept[turn] = malloc(n_bytes);
    if (!c->kept[turn])
        return err_set(e, ERR_NOMEM, "no memory for a copy of %zu bytes", n_bytes);
    c->kept_room[turn] = n_bytes;
    return 0;
}

/* Returns vector v from its number `first` on. */
static const char *vector(const struct collective *c, enum plan_vector v, size_t first)
{
    const char *base = v == PLAN_IN ? c->request.in : v == PLAN_OUT ? c->request.out : kept(c);

    return base + bytes(c, first);
}

static void copy_items(const struct collective *c, char *to, const char *from, size_t n)
{
    if (c->request.item == &floats)
        vector_copy((float *)(void *)to, (const float *)(const void *)from, n);
    else
        memcpy(to, from, bytes(c, n));
}

/* Makes the plan's local copies, as far as they lie in [first, end). */
static int copy_own(struct collective *c, size_t first, size_t end, struct err *e)
{
    const struct collective_plan *p = &c->now->plan;

    for (size_t k = 0; k < p->n_copies; k++) {
        const struct plan_copy *v = &p->copies[k];
        size_t from = v->first > first ? v->first : first;
        size_t to = v->first + v->n < end ? v->first + v->n : end;

        if (v->to == PLAN_KEPT && make_kept_room(c, bytes(c, c->request.n), e) < 0)
            return e->code;
        if (from < to)
            copy_items(c, (v->to == PLAN_KEPT ? kept(c) : (char *)c->request.out) + bytes(c, from),
                       vector(c, PLAN_IN, from), to - from);
    }
    return 0;
}

/* Sends every chunk that can be sent now. */
static int send_chunks(struct collective *c, struct err *e)
{
    const struct collective_plan *p = &c->now->plan;

    for (; c->n_sent < p->n_sends; c->n_sent++) {
        const struct plan_send *s = &p->sends[c->n_sent];
        struct mesh_head h = {.kind = FRAME_CHUNK, .peer = s->to, .index = s->index, .round = c->number};

        if (s->after > c->n_done || (s->vector != PLAN_OUT && s->first < c->ready) ||
            mesh_queued(c->mesh) >= COLLECTIVE_QUEUE)
            break;
        if (c->cfg.send(c->cfg.owner, &h, vector(c, s->vector, s->first), bytes(c, s->n)) < 0)
            return e->code;
    }
    if (c->n_sent < p->n_sends || c->n_done < p->n_recvs)
        return COLLECTIVE_UNDER_WAY;
    c->now = NULL;
    return COLLECTIVE_DONE;
}

static uint64_t *paused_word(struct collective *c, int node)
{
    return &c->paused.bits[node / PAUSED_BITS];
}

static uint64_t paused_bit(int node)
{
    return (uint64_t)1 << node % PAUSED_BITS;
}

/* For collective_sink: the mesh pauses the node that sends it. */
static enum mesh_sink_result note_paused(struct collective *c, int node)
{
    c->paused.n += !(*paused_word(c, node) & paused_bit(node));
    *paused_word(c, node) |= paused_bit(node);
    return MESH_SINK_LATER;
}

static void resume_sender(struct collective *c, int node)
{
    if (!(*paused_word(c, node) & paused_bit(node)))
        return;
    *paused_word(c, node) &= ~paused_bit(node);
    c->paused.n--;
    mesh_pause(c->mesh, node, false);
}

static void resume_all(struct collective *c)
{
    for (int node = 0; c->paused.n > 0; node++)
        if (!*paused_word(c, node))
            node |= PAUSED_BITS - 1;
        else
            resume_sender(c, node);
}

bool collective_is_under_way(const struct collective *c)
{
    return c->now || c->sum.is_under_way;
}

bool collective_is_awaited(const struct collective *c)
{
    return !c->now && c->paused.n > 0;
}

/* MPI may send nothing for an empty vector; a plan does, so that its two statements hold. */
static bool is_for_mesh(const struct collective *c, const struct collective_request *request)
{
    return c->cfg.algorithm == COLLECTIVE_MPI && request->kind == COLLECTIVE_ALL_REDUCE &&
           request->item == &floats && request->levels == PLAN_FLAT && request->n > 0;
}

/* Where the part begins that ends at `end` > 0: with its bucket, unless that is too long for one sum. All
 * nodes divide a vector the same way. */
static size_t part_before(const struct collective *c, size_t end)
{
    size_t k = 0, first = 0;

    while (k < c->request.n_buckets && c->request.buckets[k] >= end)
        k++;
    if (k < c->request.n_buckets)
        first = c->request.buckets[k];
    return end - first > MESH_REDUCE_LONGEST ? end - MESH_REDUCE_LONGEST : first;
}

static void finish_part(struct collective *c, size_t first, size_t end)
{
    float *out = (float *)c->request.out + first;
    const float *sums = out;
    enum phase last;

    if (!c->request.is_mean)
        return;
    last = phase_enter(c->cfg.watch, PHASE_DECODE);
    vector_sum(out, &sums, 1, end - first, 1.0f / (float)c->cfg.n_nodes);
    phase_enter(c->cfg.watch, last);
}

static int advance_sum(struct collective *c, struct err *e)
{
    struct mesh_sum *s = &c->sum;

    for (; s->n_parts > mesh_reducing(c->mesh); s->n_parts--) {
        size_t first = part_before(c, s->done);

        finish_part(c, first, s->done);
        s->done = first;
    }
    while (s->given > 0 && s->n_parts < MESH_REDUCE_MAX) {
        size_t first = part_before(c, s->given);

        if (first < c->ready)
            break;
        if (mesh_reduce(c->mesh, (const float *)c->request.in + first, (float *)c->request.out + first,
                        s->given - first, e) < 0)
            return e->code;
        s->given = first;
        s->n_parts++;
    }
    s->is_under_way = s->done > 0;
    return s->is_under_way ? COLLECTIVE_UNDER_WAY : COLLECTIVE_DONE;
}

enum mesh_sink_result collective_sink(struct collective *c, const struct mesh_head *h, size_t len, void **at)
{
    const struct collective_plan *p = c->now ? &c->now->plan : NULL;
    const struct plan_recv *v;
    struct sender *s;
    int peer;

    if (h->peer < 0 || h->peer >= c->cfg.n_nodes || h->peer == c->cfg.me)
        return MESH_SINK_REFUSED;
    if (h->round == c->number + 1) /* the peer has finished this node's present collective */
        return note_paused(c, h->peer);
    if (!p || h->round != c->number || (peer = collective_plan_peer(p, h->peer)) < 0)
        return MESH_SINK_REFUSED;
    s = &c->senders[peer];
    if (s->cursor == p->n_recvs)
        return MESH_SINK_REFUSED;
    v = &p->recvs[s->cursor];
    if (h->index != s->received || len != bytes(c, v->n))
        return MESH_SINK_REFUSED;
    if (v->op == PLAN_COPY) {
        *at = (char *)c->request.out + bytes(c, v->first);
        return MESH_SINK_READY;
    }
    *at = c->now->staging + c->now->stage[peer];
    return s->is_staged ? note_paused(c, h->peer) : MESH_SINK_READY;
}

/* Has the chunk arrived, and is the part of `in` complete to which it is added? */
static bool can_take(const struct collective *c, size_t recv)
{
    const struct plan_recv *v = &c->now->plan.recvs[recv];
    bool needs_in = v->op == PLAN_ADD_TO_IN || v->op == PLAN_ADD_AND_IN;

    return c->senders[v->peer].cursor > recv && (!needs_in || v->first >= c->ready);
}

static void add_chunk(struct collective *c, const struct plan_recv *v)
{
    char *out = (char *)c->request.out + bytes(c, v->first);
    const char *in = vector(c, PLAN_IN, v->first);
    const char *x = c->now->staging + c->now->stage[v->peer];
    const void *const of[PLAN_OPS][3] = {
        [PLAN_ADD] = {out, x}, [PLAN_ADD_TO_IN] = {in, x}, [PLAN_ADD_AND_IN] = {out, x, in}};

    c->summed += bytes(c, v->n);
    c->request.item->sum(c->request.item->with, out, of[v->op], v->op == PLAN_ADD_AND_IN ? 3 : 2, v->n,
                         v->is_sum && c->request.is_mean ? 1.0f / (float)c->cfg.n_nodes : 1.0f);
}

/* Processes chunks in the order of the plan, as far as they have arrived. */
static void take_chunks(struct collective *c)
{
    const struct collective_plan *p = &c->now->plan;

    for (; c->n_done < p->n_recvs && can_take(c, c->n_done); c->n_done++) {
        const struct plan_recv *v = &p->recvs[c->n_done];
        enum phase last;

        c->cfg.received(c->cfg.owner, v->from, bytes(c, v->n));
        if (v->op == PLAN_COPY)
            continue;
        last = phase_enter(c->cfg.watch, PHASE_DECODE);
        add_chunk(c, v);
        phase_enter(c->cfg.watch, last);
        c->senders[v->peer].is_staged = false;
        resume_sender(c, v->from);
    }
}

int collective_ready(struct collective *c, size_t ready, struct err *e)
{
    if (c->sum.is_under_way) {
        c->ready = ready < c->ready ? ready : c->ready;
        return advance_sum(c, e);
    }
    if (ready < c->ready && copy_own(c, ready, c->ready, e) < 0)
        return e->code;
    c->ready = ready < c->ready ? ready : c->ready;
    take_chunks(c);
    return send_chunks(c, e);
}

static int begin_senders(struct collective *c, struct err *e)
{
    const struct collective_plan *p = &c->now->plan;

    if (p->n_peers > c->senders_room) {
        struct sender *more = realloc(c->senders, p->n_peers * sizeof *more);

        if (!more)
            return err_set(e, ERR_NOMEM, "no memory for the senders of chunks");
        c->senders = more;
        c->senders_room = p->n_peers;
    }
    for (size_t k = 0; k < p->n_peers; k++)
        c->senders[k] = (struct sender){.cursor = p->peers[k].first};
    return 0;
}

int collective_start(struct collective *c, const struct collective_request *request, struct err *e)
{
    assert(!collective_is_under_way(c) && request->in != request->out);
    c->request = *request;
    c->request.item = request->item ? request->item : &floats;
    if (is_for_mesh(c, &c->request))
        c->sum = (struct mesh_sum){.is_under_way = true, .given = request->n, .done = request->n};
    else if (!(c->now = find_plan(c, &c->request, e)) || begin_senders(c, e) < 0)
        return e->code;
    c->number++;
    c->n_sent = c->n_done = 0;
    c->ready = request->n;
    if (c->now)
        resume_all(c);
    return collective_ready(c, request->ready, e);
}

int collective_on_event(struct collective *c, const struct mesh_event *ev, struct err *e)
{
    if (c->sum.is_under_way)
        return advance_sum(c, e);
    if (ev->kind == MESH_MESSAGE && ev->head.kind == FRAME_CHUNK) {
        struct sender *s = &c->senders[collective_plan_peer(&c->now->plan, ev->head.peer)];
        const struct plan_recv *v = &c->now->plan.recvs[s->cursor];

        s->is_staged |= v->op != PLAN_COPY;
        s->cursor = v->next;
        s->received++;
        take_chunks(c);
    }
    return send_chunks(c, e);
}

uint64_t collective_summed(const struct collective *c)
{
    return c->summed;
}

int collective_awaits(const struct collective *c)
{
    if (c->sum.is_under_way)
        return -1;
    return c->n_done < c->now->plan.n_recvs ? c->now->plan.recvs[c->n_done].from : -1;
}

void collective_waits_for(const struct collective *c, char *out, size_t size)
{
    const char *kind = collective_kind_name(c->request.kind);
    unsigned long long number = c->number;
    int node = collective_awaits(c);

    if (c->sum.is_under_way)
        snprintf(out, size, "the sum of all workers in %s %llu", kind, number);
    else if (node >= 0)
        snprintf(out, size, "chunk %u of node %d in %s %llu",
                 c->senders[c->now->plan.recvs[c->n_done].peer].received + 1, node, kind, number);
    else
        snprintf(out, size, "queue space for chunk %u to node %d in %s %llu",
                 c->now->plan.sends[c->n_sent].index + 1, c->now->plan.sends[c->n_sent].to, kind, number);
}
