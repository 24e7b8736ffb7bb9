#include "sim/mesh_sim.h"

#include <assert.h>
#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runner/exchange/exchange.h"
#include "sim/pairs.h"

enum { BLOCK_MESSAGES = 256, CACHE_LINE = 64 };

/* Messages are allocated by the block, reused, and placed two cache lines apart: with millions of them,
 * memory access is the bottleneck of a simulation. */
struct message_slot {
    alignas(CACHE_LINE) struct sim_message message;
};

struct message_block {
    struct message_slot slots[BLOCK_MESSAGES];
    struct message_block *next;
};

struct message_pool {
    struct sim_message *free;
    struct message_block *blocks;
};

struct endpoint {
    struct mesh mesh;
    struct mesh_sim *net;
    int slot;
    bool is_gone; /* has left or is lost */
    struct sim_message *first, **last;
    bool wants_room;                     /* was refused because of a full queue */
    int pairs;                           /* list of pairs in which it sends, the latest first */
    uint32_t most;                       /* n_waiting of the fullest of them */
    uint32_t levels[MESH_QUEUE_MAX + 1]; /* by n_waiting: how many of them; [0] is not used */
};

struct loss_reason { /* reason of a loss, referenced by messages */
    struct loss_reason *next;
    char why[MESH_REASON_MAX];
};

struct mesh_sim {
    struct mesh_sim_config cfg;
    int n;
    struct endpoint *nodes; /* (n) */
    struct mesh_pool pool;
    struct sim_pairs pairs;
    struct message_pool messages;
    struct loss_reason *reasons;
    int *peers; /* (n), for end_node */
    uint64_t n_delivered, n_good_byes;
};

static int make_block(struct message_pool *pool, struct err *e)
{
    struct message_block *b = aligned_alloc(CACHE_LINE, sizeof *b);

    if (!b)
        return err_set(e, ERR_NOMEM, "no memory for a message");
    b->next = pool->blocks;
    pool->blocks = b;
    for (int i = BLOCK_MESSAGES - 1; i >= 0; i--) {
        b->slots[i].message = (struct sim_message){.next = pool->free};
        pool->free = &b->slots[i].message;
    }
    return 0;
}

/* NULL: no memory. */
static struct sim_message *take_message(struct message_pool *pool, struct err *e)
{
    struct sim_message *message;

    if (!pool->free && make_block(pool, e) < 0)
        return NULL;
    message = pool->free;
    pool->free = message->next;
    __builtin_prefetch(pool->free, 1);
    return message;
}

/* Also puts its buffer. */
static void put_message(struct message_pool *pool, struct sim_message *message)
{
    mesh_buf_put(message->buf);
    message->buf = NULL;
    message->next = pool->free;
    pool->free = message;
}

/* Also frees messages that are not put yet. */
static void clear_messages(struct message_pool *pool)
{
    for (struct message_block *b = pool->blocks, *next; b; b = next) {
        for (int i = 0; i < BLOCK_MESSAGES; i++)
            mesh_buf_put(b->slots[i].message.buf);
        next = b->next;
        free(b);
    }
    *pool = (struct message_pool){0};
}

static int slot_of(const struct mesh_sim *net, int node)
{
    return mesh_slot(net->cfg.n_workers, node);
}

static int node_of(const struct mesh_sim *net, int slot)
{
    return mesh_node_at(net->cfg.n_workers, slot);
}

static bool is_linked(const struct mesh_sim *net, int a, int b)
{
    bool are_servers = a >= net->cfg.n_workers && b >= net->cfg.n_workers;

    return a != b && (!net->cfg.is_star || (a < net->cfg.n_workers) != (b < net->cfg.n_workers) ||
                      (are_servers && net->cfg.links_servers));
}

static struct sim_pair *add_pair(struct mesh_sim *net, int from, int to, struct err *e)
{
    struct sim_pair *p = sim_pairs_add(&net->pairs, from, to, e);

    if (p) {
        p->next_of_sender = net->nodes[from].pairs;
        net->nodes[from].pairs = (int)(p - net->pairs.of);
    }
    return p;
}

/* A pair is added with its reverse, so that the pairs in which a node sends are all that it has met. */
static struct sim_pair *get_pair(struct mesh_sim *net, int from, int to, struct err *e)
{
    struct sim_pair *p = sim_pairs_find(&net->pairs, from, to);

    return p || !add_pair(net, to, from, e) ? p : add_pair(net, from, to, e);
}

/* Updates the counters after one message of the pair was taken. */
static void took(struct mesh_sim *net, struct sim_pair *p)
{
    struct endpoint *sender = &net->nodes[p->from];

    sender->levels[p->n_waiting--]--;
    sender->levels[p->n_waiting]++;
    while (sender->most > 0 && sender->levels[sender->most] == 0)
        sender->most--;
    if (!sender->wants_room || !net->cfg.on_room)
        return;
    sender->wants_room = false;
    net->cfg.on_room(net->cfg.owner, p->from);
}

static void append_message(struct endpoint *n, struct sim_message *m)
{
    m->next = NULL;
    *n->last = m;
    n->last = &m->next;
}

/* Returns a message that notifies one node that `from` has left or is lost. NULL: no memory. */
static struct sim_message *end_message(struct mesh_sim *net, int from, int to, enum mesh_event_kind kind,
                                       const char *why, struct err *e)
{
    struct sim_pair *p = get_pair(net, from, to, e);
    struct sim_message *m = p ? take_message(&net->messages, e) : NULL;

    if (m)
        *m = (struct sim_message){.kind = kind,
                                  .head.peer = node_of(net, from),
                                  .why = why,
                                  .pair = (uint32_t)(p - net->pairs.of),
                                  .from = from,
                                  .to = to};
    return m;
}

static int send_end(struct mesh_sim *net, int from, int to, enum mesh_event_kind kind, const char *why,
                    struct err *e)
{
    struct sim_message *m = end_message(net, from, to, kind, why, e);

    net->n_good_byes += kind == MESH_LEFT;
    return m ? net->cfg.carry(net->cfg.owner, m, e) : e->code;
}

/* A node that has left without a good-bye to this one says it now. Returns 1; 0: there is no such good-bye;
 * or a code. */
static int send_late_good_bye(struct mesh_sim *net, int from, int to, struct err *e)
{
    if (!net->nodes[from].is_gone || net->nodes[to].is_gone || !is_linked(net, from, to) ||
        sim_pairs_find(&net->pairs, from, to))
        return 0;
    return send_end(net, from, to, MESH_LEFT, NULL, e) < 0 ? e->code : 1;
}

static int sim_send(struct mesh *m, const struct mesh_head *h, const void *bytes, size_t len,
                    struct mesh_buf *b, struct err *e)
{
    struct endpoint *self = (struct endpoint *)m;
    struct mesh_sim *net = self->net;
    int to = slot_of(net, h->peer);
    struct sim_message *message;
    struct sim_pair *p;

    if (send_late_good_bye(net, to, self->slot, e) < 0 || !(p = get_pair(net, self->slot, to, e)))
        return e->code;
    if (net->nodes[to].is_gone || p->is_broken)
        return 0;
    if (p->n_waiting == MESH_QUEUE_MAX)
        return err_set(e, ERR_REFUSED, "%d messages are queued for node %d", MESH_QUEUE_MAX, h->peer);
    assert(b || h->kind == FRAME_CHUNK);
    message = take_message(&net->messages, e);
    if (!message)
        return e->code;
    *message = (struct sim_message){.kind = MESH_MESSAGE,
                                    .head = *h,
                                    .buf = b,
                                    .view = b ? NULL : bytes,
                                    .len = len,
                                    .pair = (uint32_t)(p - net->pairs.of),
                                    .from = self->slot,
                                    .to = to};
    message->head.peer = node_of(net, self->slot);
    if (b)
        b->refs++;
    self->levels[p->n_waiting++]--;
    self->levels[p->n_waiting]++;
    if (p->n_waiting > self->most)
        self->most = p->n_waiting;
    return net->cfg.carry(net->cfg.owner, message, e);
}

int mesh_sim_tell(struct mesh_sim *net, int slot, struct err *e)
{
    int n = 0;

    for (int from = 0; from < net->n; from++) {
        int rc = send_late_good_bye(net, from, slot, e);

        if (rc < 0)
            return rc;
        n += rc;
    }
    return n;
}

int mesh_sim_kill(struct mesh_sim *net, int slot, struct err *e)
{
    if (net->nodes[slot].is_gone)
        return 0;
    net->nodes[slot].is_gone = true;
    for (int to = 0; to < net->n; to++)
        if (is_linked(net, slot, to) && !net->nodes[to].is_gone &&
            send_end(net, slot, to, MESH_LOST, "its process has ended", e) < 0)
            return e->code;
    return 0;
}

/* The loss is detected by the receiver, not sent. Messages in transit between them are dropped. */
static int break_pair(struct mesh_sim *net, int from, int to, struct err *e)
{
    struct sim_pair *p;
    struct sim_message *m;

    if (net->nodes[from].is_gone || net->nodes[to].is_gone)
        return 0; /* a pair would say that its good-bye has been sent */
    p = get_pair(net, from, to, e);
    if (!p)
        return e->code;
    if (p->is_broken)
        return 0;
    p->is_broken = true;
    m = end_message(net, from, to, MESH_LOST, "it cannot be reached", e);
    if (!m)
        return e->code;
    append_message(&net->nodes[to], m);
    return 0;
}

int mesh_sim_part(struct mesh_sim *net, int a, int b, struct err *e)
{
    if (!is_linked(net, a, b))
        return 0;
    return break_pair(net, a, b, e) < 0 ? e->code : break_pair(net, b, a, e);
}

static int by_slot(const void *a, const void *b)
{
    const int *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

/* Lists, by slot, the nodes that get its good-bye. */
static int list_met(struct mesh_sim *net, int slot)
{
    int n = 0, first_server = slot < net->cfg.n_workers ? net->cfg.n_workers : 0;

    for (int i = net->nodes[slot].pairs; i != SIM_NO_PAIR; i = net->pairs.of[i].next_of_sender)
        if (net->pairs.of[i].to < first_server)
            net->peers[n++] = net->pairs.of[i].to;
    qsort(net->peers, (size_t)n, sizeof *net->peers, by_slot);
    for (int to = first_server; to < net->n; to++)
        net->peers[n++] = to;
    return n;
}

int mesh_sim_leave(struct mesh_sim *net, int slot, struct err *e)
{
    int n;

    if (net->nodes[slot].is_gone)
        return 0;
    net->nodes[slot].is_gone = true;
    n = list_met(net, slot);
    for (int i = 0; i < n; i++)
        if (is_linked(net, slot, net->peers[i]) && !net->nodes[net->peers[i]].is_gone &&
            send_end(net, slot, net->peers[i], MESH_LEFT, NULL, e) < 0)
            return e->code;
    return 0;
}

static void sim_close(struct mesh *m, double deadline)
{
    struct endpoint *self = (struct endpoint *)m;
    struct err ignored;

    (void)deadline;
    mesh_sim_leave(self->net, self->slot, &ignored);
}

void mesh_sim_deliver(struct mesh_sim *net, struct sim_message *m)
{
    struct endpoint *to = &net->nodes[m->to];

    net->n_delivered += m->kind == MESH_MESSAGE;
    if (to->is_gone || (net->pairs.of[m->pair].is_broken && m->kind == MESH_MESSAGE)) {
        if (m->kind == MESH_MESSAGE)
            took(net, &net->pairs.of[m->pair]);
        put_message(&net->messages, m);
        return;
    }
    append_message(to, m);
}

/* Returns the link to the first message whose sender is not paused. */
static struct sim_message **first_open(const struct mesh_sim *net, struct endpoint *n)
{
    struct sim_message **at = &n->first;

    while (*at && net->pairs.of[(*at)->pair].is_paused)
        at = &(*at)->next;
    return *at ? at : NULL;
}

bool mesh_sim_has_event(const struct mesh_sim *net, int slot)
{
    return net->nodes[slot].first && first_open(net, &net->nodes[slot]);
}

static void unlink_message(struct endpoint *n, struct sim_message **at)
{
    struct sim_message *m = *at;

    *at = m->next;
    if (n->last == &m->next)
        n->last = at;
}

/* Copies a chunk to its sink. MESH_SINK_LATER: it stays queued, and so do later messages of its sender. */
static enum mesh_sink_result sink_of_chunk(struct endpoint *self, struct sim_message *m)
{
    const struct mesh *to = &self->mesh;
    void *at = NULL;
    enum mesh_sink_result where = to->sink ? to->sink(to->owner, &m->head, m->len, &at) : MESH_SINK_REFUSED;

    if (where == MESH_SINK_LATER)
        self->net->pairs.of[m->pair].is_paused = true;
    else if (where == MESH_SINK_READY)
        memcpy(at, m->view, m->len);
    return where;
}

static int sim_poll(struct mesh *m, struct mesh_event *out, double deadline, struct err *e)
{
    struct endpoint *self = (struct endpoint *)m;
    struct mesh_sim *net = self->net;
    enum mesh_sink_result where = MESH_SINK_READY;
    struct sim_message **at, *message;

    (void)deadline;
    (void)e;
    out->kind = MESH_NOTHING;
    do {
        at = self->first ? first_open(net, self) : NULL;
        if (!at)
            return 0;
        message = *at;
        if (message->kind == MESH_MESSAGE && message->view)
            where = sink_of_chunk(self, message);
    } while (where == MESH_SINK_LATER);
    unlink_message(self, at);
    out->kind = message->kind;
    out->head = message->head;
    out->buf = message->buf;
    if (where == MESH_SINK_REFUSED) {
        out->kind = MESH_LOST;
        message->why = "it sent an unexpected chunk";
    }
    if (out->kind == MESH_LOST)
        snprintf(out->why, sizeof out->why, "%s", message->why);
    if (message->kind == MESH_MESSAGE)
        took(net, &net->pairs.of[message->pair]);
    if (out->kind == MESH_MESSAGE && net->cfg.on_taken)
        net->cfg.on_taken(net->cfg.owner, message);
    message->buf = NULL; /* the caller now owns the reference */
    put_message(&net->messages, message);
    return 0;
}

static size_t sim_queued(const struct mesh *m)
{
    struct endpoint *self = (struct endpoint *)(uintptr_t)m;

    self->wants_room |= self->most >= EXCHANGE_BACKLOG_MAX;
    return self->most;
}

static size_t sim_queued_for(const struct mesh *m, int node)
{
    struct endpoint *self = (struct endpoint *)(uintptr_t)m;
    const struct sim_pair *p = sim_pairs_find(&self->net->pairs, self->slot, slot_of(self->net, node));

    return p ? p->n_waiting : 0;
}

static void sim_pause(struct mesh *m, int node, bool on)
{
    struct endpoint *self = (struct endpoint *)m;
    int from = slot_of(self->net, node);
    struct err ignored;
    struct sim_pair *p = on ? get_pair(self->net, from, self->slot, &ignored)
                            : sim_pairs_find(&self->net->pairs, from, self->slot);

    if (p)
        p->is_paused = on;
}

/* Drops messages received from the pair's sender and not taken. */
static void drop_messages(struct mesh_sim *net, struct endpoint *n, uint32_t pair)
{
    struct sim_message **at = &n->first;

    while (*at) {
        struct sim_message *m = *at;

        if (m->pair != pair) {
            at = &m->next;
            continue;
        }
        unlink_message(n, at);
        if (m->kind == MESH_MESSAGE)
            took(net, &net->pairs.of[pair]);
        put_message(&net->messages, m);
    }
}

static void sim_drop(struct mesh *m, int node, const char *why)
{
    struct endpoint *self = (struct endpoint *)m;
    struct mesh_sim *net = self->net;
    int other = slot_of(net, node);
    struct loss_reason *r = malloc(sizeof *r);
    struct err ignored;
    struct sim_pair *from = get_pair(net, other, self->slot, &ignored);
    struct sim_message *message;

    if (!r || !from || from->is_broken || net->nodes[other].is_gone) {
        free(r);
        return;
    }
    snprintf(r->why, sizeof r->why, "%s", why);
    r->next = net->reasons;
    net->reasons = r;
    from->is_broken = true;
    drop_messages(net, self, (uint32_t)(from - net->pairs.of));
    message = end_message(net, other, self->slot, MESH_LOST, r->why, &ignored);
    if (message)
        append_message(self, message);
    from = get_pair(net, self->slot, other, &ignored);
    if (from)
        from->is_broken = true;
    send_end(net, self->slot, other, MESH_LOST, "it has closed the connection", &ignored);
}

static bool sim_is_local(const struct mesh *m, int node)
{
    (void)m;
    (void)node;
    return false;
}

static int sim_watch(struct mesh *m, int fd, struct err *e)
{
    (void)m;
    return fd < 0 ? 0 : err_set(e, ERR_IO, "a simulated mesh cannot watch descriptor %d", fd);
}

static const struct mesh_ops ops = {sim_send,  sim_poll,     sim_queued, sim_queued_for, sim_pause, sim_drop,
                                    sim_close, sim_is_local, sim_watch,  NULL,           NULL,      NULL};

int mesh_sim_new(struct mesh_sim **out, const struct mesh_sim_config *cfg, struct err *e)
{
    struct mesh_sim *net = calloc(1, sizeof *net);

    if (!net)
        return err_set(e, ERR_NOMEM, "no memory for the network");
    net->cfg = *cfg;
    net->n = cfg->n_workers + cfg->n_servers;
    net->pool.limit = cfg->limit;
    net->nodes = calloc((size_t)net->n, sizeof *net->nodes);
    net->peers = malloc((size_t)net->n * sizeof *net->peers);
    if (!net->nodes || !net->peers)
        err_set(e, ERR_NOMEM, "no memory for %d nodes", net->n);
    if (!net->nodes || !net->peers || sim_pairs_init(&net->pairs, e) < 0) {
        mesh_sim_free(net);
        return e->code;
    }
    for (int i = 0; i < net->n; i++) {
        struct endpoint *n = &net->nodes[i];

        *n = (struct endpoint){.mesh = {.ops = &ops, .pool = &net->pool},
                               .net = net,
                               .slot = i,
                               .last = &n->first,
                               .pairs = SIM_NO_PAIR};
    }
    *out = net;
    return 0;
}

struct mesh *mesh_sim_node(struct mesh_sim *net, int slot)
{
    return &net->nodes[slot].mesh;
}

uint64_t mesh_sim_messages(const struct mesh_sim *net)
{
    return net->n_delivered;
}

uint64_t mesh_sim_good_byes(const struct mesh_sim *net)
{
    return net->n_good_byes;
}

uint64_t mesh_sim_queued(const struct mesh_sim *net)
{
    uint64_t n = 0;

    for (uint32_t i = 0; i < net->pairs.n; i++)
        n += net->pairs.of[i].n_waiting;
    return n;
}

void mesh_sim_free(struct mesh_sim *net)
{
    if (!net)
        return;
    clear_messages(&net->messages);
    mesh_pool_clear(&net->pool);
    for (struct loss_reason *r = net->reasons, *next; r; r = next) {
        next = r->next;
        free(r);
    }
    sim_pairs_clear(&net->pairs);
    free(net->peers);
    free(net->nodes);
    free(net);
}
