#include "tests/lib/mesh_mem.h"

#include <assert.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/rng.h"

struct message {
    struct mesh_head head; /* peer: the sender */
    struct mesh_buf *buf;  /* NULL: a chunk */
    struct message *next;
    const void *view; /* the sender's bytes while it is open, to detect early changes; NULL: none */
    size_t len;
    unsigned char copy[]; /* (len): payload of a chunk */
};

struct box { /* messages in flight from one sender to one receiver */
    struct message *first, **last;
    size_t n;
    bool is_paused;
    enum { BOX_OPEN, BOX_LEFT, BOX_LOST, BOX_REPORTED } end;
    char why[MESH_REASON_MAX]; /* BOX_LOST: "": the sender was killed */
};

struct sum {
    const float *in;
    float *out;
    size_t n;
};

struct node {
    struct mesh mesh;
    struct mesh_mem *net;
    int slot;
    struct sum sums[MESH_REDUCE_MAX]; /* a ring */
    size_t n_begun, n_seen;           /* sums that this node has begun; that it knows to be complete */
};

struct mesh_mem {
    int n, n_workers;
    struct mesh_pool pool;
    struct rng rng;
    struct node *nodes; /* (n) */
    struct box *boxes;  /* (n receivers, n senders) */
    size_t n_summed;    /* sums that all nodes have begun */
};

static int slot_of(const struct mesh_mem *net, int node)
{
    return mesh_slot(net->n_workers, node);
}

static int node_of(const struct mesh_mem *net, int slot)
{
    return mesh_node_at(net->n_workers, slot);
}

static struct box *box_of(struct mesh_mem *net, int to, int from)
{
    return &net->boxes[to * net->n + from];
}

static unsigned char *payload_of(struct message *msg)
{
    return msg->buf ? msg->buf->bytes : msg->copy;
}

static int mem_send(struct mesh *m, const struct mesh_head *h, const void *bytes, size_t len,
                    struct mesh_buf *b, struct err *e)
{
    struct node *self = (struct node *)m;
    struct mesh_mem *net = self->net;
    struct box *box = box_of(net, slot_of(net, h->peer), self->slot);
    bool is_chunk = h->kind == FRAME_CHUNK;
    struct message *msg;

    assert(is_chunk || len <= net->pool.limit);
    if (box_of(net, self->slot, slot_of(net, h->peer))->end != BOX_OPEN)
        return 0;
    if (box->n == MESH_QUEUE_MAX)
        return err_set(e, ERR_REFUSED, "%d messages are queued for node %d", MESH_QUEUE_MAX, h->peer);
    msg = malloc(sizeof *msg + (is_chunk ? len : 0));
    if (!msg)
        return err_set(e, ERR_NOMEM, "no memory for a message");
    *msg = (struct message){
        .head = *h, .buf = is_chunk ? NULL : mesh_buf_take(m), .view = b ? NULL : bytes, .len = len};
    if (!is_chunk && !msg->buf) {
        free(msg);
        return err_set(e, ERR_NOMEM, "no memory for a message");
    }
    msg->head.peer = node_of(net, self->slot);
    if (msg->buf)
        msg->buf->len = len;
    memcpy(payload_of(msg), bytes, len);
    if (!box->first)
        box->last = &box->first;
    *box->last = msg;
    box->last = &msg->next;
    box->n++;
    return 0;
}

static bool has_event(const struct box *b)
{
    return (b->first && !b->is_paused) || (!b->first && b->end != BOX_OPEN && b->end != BOX_REPORTED);
}

static void box_clear(struct box *b)
{
    for (struct message *msg = b->first, *next; msg; msg = next) {
        next = msg->next;
        mesh_buf_put(msg->buf);
        free(msg);
    }
    b->first = NULL;
    b->n = 0;
}

/* Ends this box for new messages; queued views may lose their sender's memory, so they are not compared. */
static void end_link(struct box *b, int how)
{
    if (b->end == BOX_OPEN)
        b->end = how == BOX_LEFT ? BOX_LEFT : BOX_LOST;
    for (struct message *msg = b->first; msg; msg = msg->next)
        msg->view = NULL;
}

static void mem_pause(struct mesh *m, int node, bool on)
{
    struct node *self = (struct node *)m;

    box_of(self->net, self->slot, slot_of(self->net, node))->is_paused = on;
}

/* Delivers the box's first message. False: its sink is not ready. */
static bool deliver(struct node *self, struct box *box, struct mesh_event *out)
{
    struct mesh *m = &self->mesh;
    struct message *msg = box->first;
    enum mesh_sink_result where = MESH_SINK_READY;
    void *at = NULL;

    assert(!msg->view || memcmp(msg->view, payload_of(msg), msg->len) == 0); /* views must not change */
    if (msg->head.kind == FRAME_CHUNK)
        where = m->sink ? m->sink(m->owner, &msg->head, msg->len, &at) : MESH_SINK_REFUSED;
    if (where == MESH_SINK_LATER) {
        box->is_paused = true;
        return false;
    }
    if (where == MESH_SINK_REFUSED) {
        *out = (struct mesh_event){
            .kind = MESH_LOST, .head.peer = msg->head.peer, .why = "it sent an unexpected chunk"};
        end_link(box_of(self->net, slot_of(self->net, msg->head.peer), self->slot), BOX_LOST);
        box_clear(box);
        box->end = BOX_REPORTED;
        return true;
    }
    if (at)
        memcpy(at, msg->copy, msg->len);
    *out = (struct mesh_event){.kind = MESH_MESSAGE, .head = msg->head, .buf = msg->buf};
    box->first = msg->next;
    box->n--;
    free(msg);
    return true;
}

static int mem_poll(struct mesh *m, struct mesh_event *out, double deadline, struct err *e)
{
    struct node *self = (struct node *)m;
    struct mesh_mem *net = self->net;
    struct box *box;

    (void)deadline;
    (void)e;
    *out = (struct mesh_event){.kind = MESH_NOTHING};
    self->n_seen = net->n_summed;
    do {
        uint32_t n = 0;
        int chosen = 0;

        for (int s = 0; s < net->n; s++)
            if (has_event(box_of(net, self->slot, s)) && rng_below(&net->rng, ++n) == 0)
                chosen = s;
        if (n == 0)
            return 0;
        box = box_of(net, self->slot, chosen);
        if (!box->first) {
            out->kind = box->end == BOX_LEFT ? MESH_LEFT : MESH_LOST;
            snprintf(out->why, sizeof out->why, "%s", box->why[0] ? box->why : "killed");
            box->end = BOX_REPORTED;
            out->head.peer = node_of(net, chosen);
            return 0;
        }
    } while (!deliver(self, box, out));
    return 0;
}

static size_t mem_queued(const struct mesh *m)
{
    const struct node *self = (const struct node *)m;
    size_t most = 0;

    for (int to = 0; to < self->net->n; to++)
        if (box_of(self->net, to, self->slot)->n > most)
            most = box_of(self->net, to, self->slot)->n;
    return most;
}

static size_t mem_queued_for(const struct mesh *m, int node)
{
    const struct node *self = (const struct node *)m;

    return box_of(self->net, slot_of(self->net, node), self->slot)->n;
}

static void end_links(struct mesh_mem *net, int slot, int how)
{
    for (int to = 0; to < net->n; to++)
        if (to != slot)
            end_link(box_of(net, to, slot), how);
}

static void mem_close(struct mesh *m, double deadline)
{
    struct node *self = (struct node *)m;

    (void)deadline;
    end_links(self->net, self->slot, BOX_LEFT);
}

void mesh_mem_kill(struct mesh_mem *net, int node)
{
    end_links(net, slot_of(net, node), BOX_LOST);
}

static void mem_drop(struct mesh *m, int node, const char *why)
{
    struct node *self = (struct node *)m;
    struct box *box = box_of(self->net, self->slot, slot_of(self->net, node));

    if (box->end != BOX_OPEN)
        return;
    box_clear(box);
    box->end = BOX_LOST;
    snprintf(box->why, sizeof box->why, "%s", why);
    end_link(box_of(self->net, slot_of(self->net, node), self->slot), BOX_LOST);
}

static bool mem_is_local(const struct mesh *m, int node)
{
    (void)m;
    (void)node;
    return false;
}

static int mem_watch(struct mesh *m, int fd, struct err *e)
{
    (void)m;
    return fd < 0 ? 0 : err_set(e, ERR_IO, "a mesh in memory cannot watch descriptor %d", fd);
}

/* The last node to begin a sum computes it for all, in the order of the nodes. */
static void compute_sum(struct mesh_mem *net, size_t turn)
{
    size_t n = net->nodes[0].sums[turn].n;

    for (int k = 0; k < net->n; k++)
        assert(net->nodes[k].sums[turn].n == n);
    for (size_t i = 0; i < n; i++) {
        float total = 0;

        for (int k = 0; k < net->n; k++)
            total += net->nodes[k].sums[turn].in[i];
        for (int k = 0; k < net->n; k++)
            net->nodes[k].sums[turn].out[i] = total;
    }
}

static int mem_reduce(struct mesh *m, const float *in, float *out, size_t n, struct err *e)
{
    struct node *self = (struct node *)m;
    struct mesh_mem *net = self->net;

    (void)e;
    assert(n > 0 && self->n_begun - self->n_seen < MESH_REDUCE_MAX);
    self->sums[self->n_begun++ % MESH_REDUCE_MAX] = (struct sum){in, out, n};
    for (int k = 0; k < net->n; k++)
        if (net->nodes[k].n_begun == net->n_summed)
            return 0;
    compute_sum(net, net->n_summed++ % MESH_REDUCE_MAX);
    return 0;
}

static size_t mem_reducing(const struct mesh *m)
{
    const struct node *self = (const struct node *)m;

    return self->n_begun - self->n_seen;
}

static const struct mesh_ops ops = {mem_send,  mem_poll, mem_queued, mem_queued_for,
                                    mem_pause, mem_drop, mem_close,  mem_is_local,
                                    mem_watch, NULL,     mem_reduce, mem_reducing};

struct mesh_mem *mesh_mem_new(int n_workers, int n_servers, size_t limit, uint64_t seed)
{
    struct mesh_mem *net = calloc(1, sizeof *net);
    size_t n = (size_t)(n_workers + n_servers);

    if (!net)
        return NULL;
    net->n = (int)n;
    net->n_workers = n_workers;
    net->pool.limit = limit;
    rng_init(&net->rng, seed, 0, 0);
    net->nodes = calloc(n, sizeof *net->nodes);
    net->boxes = calloc(n * n, sizeof *net->boxes);
    if (!net->nodes || !net->boxes) {
        mesh_mem_free(net);
        return NULL;
    }
    for (int i = 0; i < net->n; i++)
        net->nodes[i] = (struct node){.mesh = {.ops = &ops, .pool = &net->pool}, .net = net, .slot = i};
    return net;
}

struct mesh *mesh_mem_node(struct mesh_mem *net, int node)
{
    return &net->nodes[slot_of(net, node)].mesh;
}

void mesh_mem_free(struct mesh_mem *net)
{
    for (int i = 0; net->boxes && i < net->n * net->n; i++)
        box_clear(&net->boxes[i]);
    mesh_pool_clear(&net->pool);
    free(net->nodes);
    free(net->boxes);
    free(net);
}
