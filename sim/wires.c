#include "sim/wires.h"

#include <math.h>
#include <stdlib.h>

#include "runner/mesh/frame.h"

/* Messages due one after the other: only the first one is in the queue, which stays short. */
struct lane {
    struct sim_message *first, *last;
};

struct wire_end { /* of the network: the link of one node, or of one machine */
    struct sim_link link;
    double out_free, in_free; /* when it has sent, and received, all messages so far */
    struct lane out, in;
    double *latest; /* (n): arrival of the last message to each node; NULL: not needed yet */
};

struct sim_wires {
    int n, n_workers;
    struct wire_end *ends; /* (n); of the workers of a machine only the first one's is used */
    const int *machines;
    const struct sim_cuts *cuts;
    struct sim_queue *queue;
    struct rng rng;
};

static int machine_of(const struct sim_wires *w, int slot)
{
    return slot < w->n_workers ? w->machines[slot] : slot;
}

static struct wire_end *end_of(const struct sim_wires *w, int slot)
{
    return &w->ends[machine_of(w, slot)];
}

static bool is_inside(const struct sim_wires *w, const struct sim_message *m)
{
    return machine_of(w, m->from) == machine_of(w, m->to);
}

static bool is_cut(const struct sim_wires *w, const struct sim_cut *c, int a, int b)
{
    int x = mesh_node_at(w->n_workers, a), y = mesh_node_at(w->n_workers, b);

    return (sim_cut_has(c, 0, x) && sim_cut_has(c, 1, y)) || (sim_cut_has(c, 1, x) && sim_cut_has(c, 0, y));
}

/* Queues the mutual loss of nodes that a cut separates for too long. */
static int push_parts(struct sim_wires *w, const struct sim_cut *c, struct err *e)
{
    for (int a = 0; a < w->n; a++)
        for (int b = a + 1; b < w->n; b++)
            if (is_cut(w, c, a, b) &&
                sim_queue_push(w->queue,
                               (struct sim_event){
                                   .at = c->from + SIM_CUT_LOST_S, .what = SIM_PART, .slot = a, .other = b},
                               e) < 0)
                return e->code;
    return 0;
}

int sim_wires_new(struct sim_wires **out, int n_workers, int n_servers, const int *machines,
                  const struct sim_link *worker, const struct sim_link *server, const struct sim_cuts *cuts,
                  struct sim_queue *queue, uint64_t seed, struct err *e)
{
    struct sim_wires *w = calloc(1, sizeof *w);
    int n = n_workers + n_servers;

    if (!w || !(w->ends = calloc((size_t)n, sizeof *w->ends))) {
        free(w);
        return err_set(e, ERR_NOMEM, "no memory for the links of %d nodes", n);
    }
    w->n = n;
    w->n_workers = n_workers;
    w->machines = machines;
    w->cuts = cuts;
    w->queue = queue;
    rng_init(&w->rng, seed, 0x11, 0);
    for (int i = 0; i < n; i++)
        w->ends[i].link = i < n_workers ? *worker : *server;
    for (int i = 0; i < cuts->n; i++)
        if (cuts->of[i].to - cuts->of[i].from > SIM_CUT_LOST_S && push_parts(w, &cuts->of[i], e) < 0) {
            sim_wires_free(w);
            return e->code;
        }
    *out = w;
    return 0;
}

void sim_wires_free(struct sim_wires *w)
{
    for (int i = 0; w && i < w->n; i++)
        free(w->ends[i].latest);
    if (w)
        free(w->ends);
    free(w);
}

/* Returns the arrival time of a message due at `at`, delayed by cuts. */
static double through_cuts(const struct sim_wires *w, const struct sim_message *m, double at)
{
    for (int i = 0; i < w->cuts->n; i++) {
        const struct sim_cut *c = &w->cuts->of[i];

        if (at >= c->from && at < c->to && is_cut(w, c, m->from, m->to))
            at = c->to;
    }
    return at;
}

/* Messages that leave in order arrive in order, unless their latencies differ or they leave at the same
 * time. */
static int keep_order(struct sim_wires *w, const struct sim_message *m, double *first, struct err *e)
{
    struct wire_end *from = end_of(w, m->from);

    if (from->link.jitter_s == 0 && end_of(w, m->to)->link.jitter_s == 0 && from->link.bytes_per_s > 0 &&
        w->cuts->n == 0 && !is_inside(w, m))
        return 0;
    if (!from->latest) {
        from->latest = calloc((size_t)w->n, sizeof *from->latest);
        if (!from->latest)
            return err_set(e, ERR_NOMEM, "no memory for the order of messages to %d nodes", w->n);
    }
    if (*first <= from->latest[m->to])
        *first = nextafter(from->latest[m->to], INFINITY);
    from->latest[m->to] = *first + m->tail;
    return 0;
}

static int queue_message(struct sim_wires *w, struct sim_message *m, struct err *e)
{
    return sim_queue_push(w->queue, (struct sim_event){.at = m->at, .what = m->due, .message = m}, e);
}

/* A message due before the last of the lane is queued separately. */
static int enqueue(struct sim_wires *w, struct lane *lane, struct sim_message *m, struct err *e)
{
    m->next = NULL;
    m->lane = NULL;
    if (lane->first && m->at < lane->last->at)
        return queue_message(w, m, e);
    m->lane = lane;
    if (lane->first) {
        lane->last = lane->last->next = m;
        return 0;
    }
    lane->first = lane->last = m;
    return queue_message(w, m, e);
}

/* After a message leaves the queue, the next of its lane is queued. */
static int dequeue(struct sim_wires *w, struct sim_message *m, struct err *e)
{
    struct lane *lane = m->lane;

    if (!lane)
        return 0;
    lane->first = m->next;
    if (!lane->first)
        return 0;
    __builtin_prefetch(lane->first->next, 1); /* messages are scattered in memory, and this one is needed
                                               * soon */
    return queue_message(w, lane->first, e);
}

static int carry_inside(struct sim_wires *w, struct sim_message *m, double now, struct err *e)
{
    double at = through_cuts(w, m, now + (m->kind == MESH_LOST ? SIM_DEATH_S : 0));

    m->tail = 0;
    m->next = NULL;
    m->lane = NULL;
    m->due = SIM_DELIVER;
    if (keep_order(w, m, &at, e) < 0)
        return e->code;
    m->at = at;
    return queue_message(w, m, e);
}

int sim_wires_carry(struct sim_wires *w, struct sim_message *m, double now, struct err *e)
{
    struct wire_end *from = end_of(w, m->from);
    const struct sim_link *a = &from->link, *b = &end_of(w, m->to)->link;
    double jitter = (a->jitter_s + b->jitter_s) / 2;
    double start = fmax(now, from->out_free), first;

    if (is_inside(w, m))
        return carry_inside(w, m, now, e);
    m->tail = a->bytes_per_s > 0 ? (double)(m->len + FRAME_BYTES) / a->bytes_per_s : 0;
    from->out_free = start + m->tail;
    first = start + (a->latency_s + b->latency_s) / 2 + (jitter > 0 ? jitter * rng_uniform(&w->rng) : 0) +
            (m->kind == MESH_LOST ? SIM_DEATH_S : 0);
    first = through_cuts(w, m, first);
    if (keep_order(w, m, &first, e) < 0)
        return e->code;
    m->due = b->bytes_per_s > 0 ? SIM_ARRIVE : SIM_DELIVER;
    m->at = b->bytes_per_s > 0 ? first : first + m->tail;
    return enqueue(w, &from->out, m, e);
}

int sim_wires_arrive(struct sim_wires *w, struct sim_message *m, struct err *e)
{
    struct wire_end *to = end_of(w, m->to);
    double now = w->queue->now;
    double size = (double)(m->len + FRAME_BYTES) / to->link.bytes_per_s;

    if (dequeue(w, m, e) < 0)
        return e->code;
    m->at = to->in_free = fmax(fmax(now, to->in_free) + size, now + m->tail);
    m->due = SIM_DELIVER;
    return enqueue(w, &to->in, m, e);
}

int sim_wires_end(struct sim_wires *w, struct sim_message *m, struct err *e)
{
    return dequeue(w, m, e);
}
