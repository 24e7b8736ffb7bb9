#include "runner/collective/collective_plan.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "shared/plugin/path_cost.h"

struct range {
    size_t first, n;
};

/* The algorithms number the nodes of a group by their places in it, 0 to n_nodes - 1. */
struct builder {
    struct collective_plan *p;
    const int *nodes; /* (n_nodes) of the group; NULL: all nodes of the job */
    int n_nodes, me;
    enum plan_vector own; /* this node's vector: PLAN_IN, or PLAN_OUT if it is a sum already */
    struct range whole;   /* the range that is being planned: the vector, or a bucket of it */
    bool no_memory;
};

size_t collective_slice(size_t n, int k, int n_slices)
{
    size_t parts = (size_t)n_slices;

    return n / parts * (size_t)k + n % parts * (size_t)k / parts;
}

/* Slices k to l - 1. */
static struct range slices(const struct builder *b, int k, int l, int n_slices)
{
    size_t first = collective_slice(b->whole.n, k, n_slices);

    return (struct range){b->whole.first + first, collective_slice(b->whole.n, l, n_slices) - first};
}

static struct range slice_of(const struct builder *b, int node)
{
    int k = (node % b->n_nodes + b->n_nodes) % b->n_nodes;

    return slices(b, k, k + 1, b->n_nodes);
}

/* The chunks of a range, the last one first, as few and as equal as possible: every node divides a range the
 * same way. An empty range is one empty chunk. */
struct chunks {
    struct range whole, chunk;
    int n_left, n;
};

static struct chunks chunks_of(const struct builder *b, struct range r)
{
    size_t limit = b->p->request.chunk;
    int n = r.n > 0 ? (int)((r.n - 1) / limit + 1) : 1;

    return (struct chunks){.whole = r, .n_left = n, .n = n};
}

static bool next_chunk(struct chunks *p)
{
    size_t first, end;

    if (p->n_left == 0)
        return false;
    end = collective_slice(p->whole.n, p->n_left, p->n);
    first = collective_slice(p->whole.n, --p->n_left, p->n);
    p->chunk = (struct range){p->whole.first + first, end - first};
    return true;
}

/* `items`, grown if necessary to hold n + 1, or NULL. */
static void *with_room(struct builder *b, void *items, size_t n, size_t *room, size_t size)
{
    size_t wanted = *room ? 2 * *room : 16;
    void *more;

    if (n < *room)
        return items;
    more = realloc(items, wanted * size);
    if (more)
        *room = wanted;
    else
        b->no_memory = true;
    return more;
}

static int id_of(const struct builder *b, int place)
{
    return b->nodes ? b->nodes[place] : place;
}

static void recv_chunk(struct builder *b, int from, enum plan_op op, bool is_sum, struct range r)
{
    struct collective_plan *p = b->p;
    struct plan_recv *recvs = with_room(b, p->recvs, p->n_recvs, &p->recvs_room, sizeof *recvs);

    if (!recvs)
        return;
    p->recvs = recvs;
    recvs[p->n_recvs++] = (struct plan_recv){
        .from = id_of(b, from), .op = op, .is_sum = is_sum, .first = r.first, .n = r.n};
}

static bool overlaps(const struct plan_recv *v, struct range r)
{
    return v->first < r.first + r.n && r.first < v->first + v->n;
}

/* The number of receipts on which a send of this range of OUT depends: up to the last that writes there. A
 * range that no receipt writes, and an empty chunk, depend on all receipts so far. */
static size_t needed(const struct collective_plan *p, enum plan_vector vector, struct range r)
{
    size_t n = p->n_recvs;

    if (vector != PLAN_OUT)
        return 0;
    while (r.n > 0 && n > 0 && !overlaps(&p->recvs[n - 1], r))
        n--;
    return n > 0 ? n : p->n_recvs;
}

static void send_chunk(struct builder *b, int to, enum plan_vector vector, struct range r)
{
    struct collective_plan *p = b->p;
    struct plan_send *sends = with_room(b, p->sends, p->n_sends, &p->sends_room, sizeof *sends);

    if (!sends)
        return;
    p->sends = sends;
    sends[p->n_sends++] = (struct plan_send){id_of(b, to), 0, vector, r.first, r.n, needed(p, vector, r)};
}

static void send_all(struct builder *b, int to, enum plan_vector vector, struct range r)
{
    for (struct chunks i = chunks_of(b, r); next_chunk(&i);)
        send_chunk(b, to, vector, i.chunk);
}

static void recv_all(struct builder *b, int from, enum plan_op op, bool is_sum, struct range r)
{
    for (struct chunks i = chunks_of(b, r); next_chunk(&i);)
        recv_chunk(b, from, op, is_sum, i.chunk);
}

static void add_copy(struct builder *b, enum plan_vector to, struct range r)
{
    b->p->copies[b->p->n_copies++] = (struct plan_copy){to, r.first, r.n};
}

static int at_distance(const struct builder *b, int d)
{
    return (b->me + d + b->n_nodes) % b->n_nodes;
}

/* Adds the first chunk to this node's vector. */
static enum plan_op add_to_own(const struct builder *b)
{
    return b->own == PLAN_IN ? PLAN_ADD_TO_IN : PLAN_ADD;
}

/* Slice k starts at node k+1 and goes around the ring; each node adds its own, until node k has the sum. */
static void ring_down(struct builder *b, enum plan_vector begins_in)
{
    for (int s = 0; s < b->n_nodes - 1; s++) {
        send_all(b, at_distance(b, 1), s == 0 ? begins_in : PLAN_OUT, slice_of(b, b->me - 1 - s));
        recv_all(b, at_distance(b, -1), add_to_own(b), s == b->n_nodes - 2, slice_of(b, b->me - 2 - s));
    }
}

static void ring_up(struct builder *b)
{
    for (int s = 0; s < b->n_nodes - 1; s++) {
        send_all(b, at_distance(b, 1), PLAN_OUT, slice_of(b, b->me - s));
        recv_all(b, at_distance(b, -1), PLAN_COPY, false, slice_of(b, b->me - 1 - s));
    }
}

static void ring(struct builder *b)
{
    ring_down(b, b->own);
    ring_up(b);
}

/* The first slice sent is not acknowledged by any later chunk, so it is sent from OUT, where no receipt
 * overwrites it. */
static void reduce_scatter(struct builder *b)
{
    add_copy(b, PLAN_OUT, slice_of(b, b->me - 1));
    ring_down(b, PLAN_OUT);
}

static void all_gather(struct builder *b)
{
    add_copy(b, PLAN_OUT, slice_of(b, b->me));
    ring_up(b);
}

static int power_of_two_in(int n)
{
    int p = 1;

    while (p <= n / 2)
        p *= 2;
    return p;
}

/* For nodes below the power of two: halves the range that it sums until one slice is left, then doubles it
 * again. */
static void halve_and_double(struct builder *b, int power, bool has_sum_in_out)
{
    int me = b->me;
    int lo = 0, hi = power;

    for (int mask = power / 2; mask > 0; mask /= 2) {
        int mid = (lo + hi) / 2;
        bool is_upper = (me & mask) != 0;
        struct range lower = slices(b, lo, mid, power), upper = slices(b, mid, hi, power);

        send_all(b, me ^ mask, has_sum_in_out ? PLAN_OUT : PLAN_IN, is_upper ? lower : upper);
        recv_all(b, me ^ mask, has_sum_in_out ? PLAN_ADD : PLAN_ADD_TO_IN, mask == 1,
                 is_upper ? upper : lower);
        has_sum_in_out = true;
        lo = is_upper ? mid : lo;
        hi = is_upper ? hi : mid;
    }
    for (int mask = 1; mask < power; mask *= 2) {
        int theirs = me & mask ? lo - mask : hi;

        send_all(b, me ^ mask, PLAN_OUT, slices(b, lo, hi, power));
        recv_all(b, me ^ mask, PLAN_COPY, false, slices(b, theirs, theirs + mask, power));
        lo = me & mask ? lo - mask : lo;
        hi = lo + 2 * mask;
    }
}

static void halving_doubling(struct builder *b)
{
    int me = b->me;
    int power = power_of_two_in(b->n_nodes);
    bool has_folded_node = me + power < b->n_nodes;

    if (me >= power) {
        send_all(b, me - power, b->own, b->whole);
        recv_all(b, me - power, PLAN_COPY, false, b->whole);
        return;
    }
    if (has_folded_node)
        recv_all(b, me + power, add_to_own(b), false, b->whole);
    halve_and_double(b, power, has_folded_node || b->own == PLAN_OUT);
    if (has_folded_node)
        send_all(b, me + power, PLAN_OUT, b->whole);
}

/* Slices k .. k + n - 1 of the circle of all slices: one range, two, or none. Returns how many. */
static int circle(const struct builder *b, int k, int n, struct range out[2])
{
    int n_nodes = b->n_nodes, first = k % n_nodes;
    int n_first = first + n > n_nodes ? n_nodes - first : n;

    if (n == 0)
        return 0;
    out[0] = slices(b, first, first + n_first, n_nodes);
    out[1] = slices(b, 0, n - n_first, n_nodes);
    return n > n_first ? 2 : 1;
}

static void send_circle(struct builder *b, int to, enum plan_vector vector, int k, int n)
{
    struct range r[2];
    int n_ranges = circle(b, k, n, r);

    for (int i = 0; i < n_ranges; i++)
        send_all(b, to, vector, r[i]);
}

static void recv_circle(struct builder *b, int from, enum plan_op op, bool is_sum, int k, int n)
{
    struct range r[2];
    int n_ranges = circle(b, k, n, r);

    for (int i = 0; i < n_ranges; i++)
        recv_all(b, from, op, is_sum, r[i]);
}

/* Each node sums its own slice: of the slices me .. me + size - 1 that it still sums, it sends the second
 * half to the node where that is the first, until one is left; then they come back in the reverse order. Of
 * an odd number of slices the middle one is sent before anything was added to it. */
static void circulant(struct builder *b)
{
    int n_nodes = b->n_nodes, me = b->me, sizes[32], n_sizes = 0;

    for (int size = n_nodes; size > 1; size = (size + 1) / 2)
        sizes[n_sizes++] = size;
    for (int k = 0; k < n_sizes; k++) {
        int size = sizes[k], half = (size + 1) / 2;
        int n_summed = k == 0 ? 0 : n_nodes / 2 < size ? n_nodes / 2 - half : size - half;
        int to = at_distance(b, half), from = at_distance(b, -half);
        enum plan_op op = k == 0 ? add_to_own(b) : PLAN_ADD;

        send_circle(b, to, PLAN_OUT, me + half, n_summed);
        send_circle(b, to, b->own, me + half + n_summed, size - half - n_summed);
        recv_circle(b, from, op, half == 1, me, n_summed);
        recv_circle(b, from, op, half == 1, me + n_summed, size - half - n_summed);
    }
    for (int k = n_sizes - 1; k >= 0; k--) {
        int size = sizes[k], half = (size + 1) / 2;

        send_circle(b, at_distance(b, -half), PLAN_OUT, me, size - half);
        recv_circle(b, at_distance(b, half), PLAN_COPY, false, me + half, size - half);
    }
}

/* The binomial tree whose root is node `root`: ranks are relative to it. */
static int node_at(const struct builder *b, int root, int rank)
{
    return (root + rank) % b->n_nodes;
}

static int rank_of(const struct builder *b, int root)
{
    return at_distance(b, -root);
}

/* Distances to a rank's children: 1, 2, 4, ... while the rank is a multiple of twice the distance. */
static bool has_child(const struct builder *b, int rank, int distance)
{
    return rank % (2 * distance) == 0 && rank + distance < b->n_nodes;
}

static int parent_of(const struct builder *b, int root, int rank)
{
    return node_at(b, root, rank & (rank - 1));
}

static void tree_down(struct builder *b, int root, struct range chunk)
{
    int rank = rank_of(b, root);

    if (rank > 0)
        recv_chunk(b, parent_of(b, root, rank), PLAN_COPY, false, chunk);
    for (int d = power_of_two_in(b->n_nodes); d > 0; d /= 2)
        if (has_child(b, rank, d))
            send_chunk(b, node_at(b, root, rank + d), PLAN_OUT, chunk);
}

static void tree(struct builder *b)
{
    int me = b->me, n_nodes = b->n_nodes;

    for (struct chunks i = chunks_of(b, b->whole); next_chunk(&i);) {
        for (int d = 1; has_child(b, me, d); d *= 2)
            recv_chunk(b, me + d, d == 1 ? add_to_own(b) : PLAN_ADD, me == 0 && 2 * d >= n_nodes, i.chunk);
        if (me > 0)
            send_chunk(b, parent_of(b, 0, me), has_child(b, me, 1) ? PLAN_OUT : b->own, i.chunk);
    }
    for (struct chunks i = chunks_of(b, b->whole); next_chunk(&i);)
        tree_down(b, 0, i.chunk);
}

/* First each node sends an empty chunk towards the root: when the root sends the vector, all nodes have
 * begun. */
static void broadcast(struct builder *b)
{
    int root = b->p->request.root;
    int rank = rank_of(b, root);

    for (int d = 1; has_child(b, rank, d); d *= 2)
        recv_chunk(b, node_at(b, root, rank + d), PLAN_COPY, false, (struct range){0, 0});
    if (rank > 0)
        send_chunk(b, parent_of(b, root, rank), PLAN_OUT, (struct range){0, 0});
    else
        add_copy(b, PLAN_OUT, b->whole);
    for (struct chunks i = chunks_of(b, b->whole); next_chunk(&i);)
        tree_down(b, root, i.chunk);
}

/* The sum is in the order of the nodes, with this node's vector at its position: x + y is y + x, so node 1
 * may add node 0's to its own. */
static enum plan_op direct_op(int me, int from)
{
    if (from == 0)
        return me == 1 ? PLAN_ADD_TO_IN : PLAN_COPY;
    if (me == 0 && from == 1)
        return PLAN_ADD_TO_IN;
    return from == me - 1 ? PLAN_ADD_AND_IN : PLAN_ADD;
}

static void direct(struct builder *b)
{
    int me = b->me, n_nodes = b->n_nodes;
    int last = me == n_nodes - 1 ? me - 1 : n_nodes - 1;

    add_copy(b, PLAN_KEPT, b->whole);
    for (struct chunks i = chunks_of(b, b->whole); next_chunk(&i);) {
        for (int d = 1; d < n_nodes; d++)
            send_chunk(b, at_distance(b, d), PLAN_KEPT, i.chunk);
        for (int from = 0; from < n_nodes; from++)
            if (from != me)
                recv_chunk(b, from, direct_op(me, from), from == last, i.chunk);
    }
}

static void all_to_all(struct builder *b)
{
    int me = b->me;

    add_copy(b, PLAN_KEPT, b->whole);
    add_copy(b, PLAN_OUT, slice_of(b, me));
    for (int d = 1; d < b->n_nodes; d++) {
        send_all(b, at_distance(b, d), PLAN_KEPT, slice_of(b, me + d));
        recv_all(b, at_distance(b, -d), PLAN_COPY, false, slice_of(b, me - d));
    }
}

/* An all-reduce between b's group. */
static void run_algorithm(struct builder *b)
{
    static void (*const by[])(struct builder *) = {ALLREDUCE_ALGORITHMS(ALLREDUCE_FUNCTION)};

    if (b->n_nodes > 1)
        by[b->p->request.algorithm](b);
}

/* `all` is the first node of a machine, whose `own` has that machine's sum. */
static void between_machines(struct builder *all, const int *firsts, enum plan_vector own)
{
    struct builder b = {.p = all->p, .nodes = firsts, .own = own, .whole = all->whole};

    b.n_nodes = collective_machines(all->p->request.machines, all->n_nodes);
    while (firsts[b.me] != all->me)
        b.me++;
    run_algorithm(&b);
    all->no_memory |= b.no_memory;
}

/* The first node of a machine adds the vectors of the machine's other nodes in their order, as shm_group
 * does. */
static void on_levels(struct builder *b, const int *firsts)
{
    const struct plan_request *a = &b->p->request;
    const int *machines = a->machines;
    int first = machines[b->me], last = first;

    for (int k = first; k < b->n_nodes; k++)
        last = machines[k] == first ? k : last;
    if (a->levels == PLAN_BETWEEN) {
        if (b->me == first)
            between_machines(b, firsts, PLAN_IN);
        return;
    }
    if (b->me != first) {
        send_all(b, first, PLAN_IN, b->whole);
        recv_all(b, first, PLAN_COPY, false, b->whole);
        return;
    }
    for (struct chunks i = chunks_of(b, b->whole); next_chunk(&i);)
        for (int k = first + 1, n = 0; k <= last; k++)
            if (machines[k] == first)
                recv_chunk(b, k, n++ == 0 ? PLAN_ADD_TO_IN : PLAN_ADD, false, i.chunk);
    between_machines(b, firsts, last > first ? PLAN_OUT : PLAN_IN);
    for (struct chunks i = chunks_of(b, b->whole); next_chunk(&i);)
        for (int k = first + 1; k <= last; k++)
            if (machines[k] == first)
                send_chunk(b, k, PLAN_OUT, i.chunk);
}

/* The first node of each machine, in order; the caller frees it. */
static int *firsts_of(struct builder *b)
{
    const struct plan_request *a = &b->p->request;
    int *firsts = malloc((size_t)a->n_nodes * sizeof *firsts), n = 0;

    for (int k = 0; firsts && k < a->n_nodes; k++)
        if (a->machines[k] == k)
            firsts[n++] = k;
    b->no_memory = !firsts;
    return firsts;
}

/* `firsts` NULL: on one level. */
static void reduce_whole(struct builder *b, const int *firsts)
{
    if (firsts)
        on_levels(b, firsts);
    else
        run_algorithm(b);
}

static void all_reduce(struct builder *b)
{
    const struct plan_request *a = &b->p->request;
    int *firsts = a->levels == PLAN_FLAT ? NULL : firsts_of(b);
    size_t end = a->n;

    /* In `direct` no chunk waits for an earlier one, so buckets gain nothing. */
    if (!b->no_memory && (a->n_buckets == 0 || a->algorithm == COLLECTIVE_DIRECT))
        reduce_whole(b, firsts);
    else
        for (size_t k = 0; !b->no_memory && k < a->n_buckets; end = a->buckets[k++]) {
            b->whole = (struct range){a->buckets[k], end - a->buckets[k]};
            reduce_whole(b, firsts);
        }
    free(firsts);
}

static int by_node(const void *a, const void *b)
{
    const struct plan_peer *x = a, *y = b;

    return (x->node > y->node) - (x->node < y->node);
}

static void add_peer(struct builder *b, int node)
{
    struct collective_plan *p = b->p;
    struct plan_peer *peers = with_room(b, p->peers, p->n_peers, &p->peers_room, sizeof *peers);

    if (!peers)
        return;
    p->peers = peers;
    peers[p->n_peers++] = (struct plan_peer){.node = node, .first = p->n_recvs};
}

static void list_peers(struct builder *b)
{
    struct collective_plan *p = b->p;
    size_t n = 0;

    p->n_peers = 0;
    for (size_t i = 0; i < p->n_sends; i++) /* to one node there may be many in turn */
        if (i == 0 || p->sends[i].to != p->sends[i - 1].to)
            add_peer(b, p->sends[i].to);
    for (size_t i = 0; i < p->n_recvs; i++)
        if (i == 0 || p->recvs[i].from != p->recvs[i - 1].from)
            add_peer(b, p->recvs[i].from);
    if (p->n_peers > 0)
        qsort(p->peers, p->n_peers, sizeof *p->peers, by_node);
    for (size_t i = 0; i < p->n_peers; i++)
        if (n == 0 || p->peers[i].node != p->peers[n - 1].node)
            p->peers[n++] = p->peers[i];
    p->n_peers = n;
}

int collective_plan_peer(const struct collective_plan *p, int node)
{
    size_t low = 0, end = p->n_peers;

    while (low < end) {
        size_t middle = (low + end) / 2;

        if (p->peers[middle].node < node)
            low = middle + 1;
        else
            end = middle;
    }
    return low < p->n_peers && p->peers[low].node == node ? (int)low : -1;
}

/* Numbers the chunks of each pair of nodes, and links those of each sender in order. */
static void number_chunks(struct collective_plan *p)
{
    for (size_t i = 0; i < p->n_sends; i++)
        p->sends[i].index = p->peers[collective_plan_peer(p, p->sends[i].to)].sent++;
    for (size_t i = p->n_recvs; i-- > 0;) {
        struct plan_recv *v = &p->recvs[i];

        v->peer = collective_plan_peer(p, v->from);
        v->next = p->peers[v->peer].first;
        p->peers[v->peer].first = i;
    }
}

int collective_machines(const int *machines, int n_nodes)
{
    int n = 0;

    for (int k = 0; k < n_nodes; k++)
        n += !machines || machines[k] == k;
    return n;
}

/* With one machine, or one for each node, there is one level. */
static void choose(struct plan_request *a)
{
    int n = collective_machines(a->machines, a->n_nodes);

    if (a->levels == PLAN_TWO_LEVELS && (n == 1 || n == a->n_nodes))
        a->levels = PLAN_FLAT;
    if (a->levels != PLAN_FLAT && (a->algorithm == COLLECTIVE_AUTO || a->algorithm == COLLECTIVE_DIRECT))
        a->algorithm = COLLECTIVE_CIRCULANT;
    if (a->algorithm == COLLECTIVE_AUTO)
        a->algorithm = collective_choose(a->n_nodes, a->n * a->item_bytes, n == 1);
}

int collective_plan_make(struct collective_plan *p, const struct plan_request *request, struct err *e)
{
    static void (*const by[])(struct builder *) = {
        [COLLECTIVE_ALL_REDUCE] = all_reduce, [COLLECTIVE_REDUCE_SCATTER] = reduce_scatter,
        [COLLECTIVE_ALL_GATHER] = all_gather, [COLLECTIVE_BROADCAST] = broadcast,
        [COLLECTIVE_ALL_TO_ALL] = all_to_all,
    };
    struct builder b = {.p = p, .n_nodes = request->n_nodes, .me = request->me, .whole = {0, request->n}};

    p->request = *request;
    p->n_copies = p->n_sends = p->n_recvs = 0;
    choose(&p->request);
    if (request->n_nodes == 1)
        add_copy(&b, PLAN_OUT, b.whole);
    else
        by[request->kind](&b);
    list_peers(&b);
    if (b.no_memory) {
        collective_plan_clear(p);
        return err_set(e, ERR_NOMEM, "no memory for the plan of %s over %zu numbers",
                       collective_kind_name(request->kind), request->n);
    }
    number_chunks(p);
    return 0;
}

void collective_plan_clear(struct collective_plan *p)
{
    free(p->sends);
    free(p->recvs);
    free(p->peers);
    *p = (struct collective_plan){0};
}

int collective_plan_link(bool *linked, const struct plan_request *request, struct err *e)
{
    struct collective_plan p = {0};

    if (collective_plan_make(&p, request, e) < 0)
        return e->code;
    for (size_t i = 0; i < p.n_sends; i++)
        linked[p.sends[i].to] = true;
    for (size_t i = 0; i < p.n_recvs; i++)
        linked[p.recvs[i].from] = true;
    collective_plan_clear(&p);
    return 0;
}

size_t collective_buckets(size_t *starts, size_t n_starts, size_t n, size_t least)
{
    size_t n_buckets = 0, end = n;

    for (size_t k = 0; k < n_starts; k++)
        if (starts[k] < end && (starts[k] == 0 || (least > 0 && end - starts[k] >= least)))
            end = starts[n_buckets++] = starts[k];
    return n_buckets;
}

/* Between processes of one machine, where a message costs processor time: the first row whose limits hold. */
static enum collective_algorithm choose_on_one_machine(int n_nodes, size_t n_bytes)
{
    static const struct {
        int nodes_max;
        size_t bytes_max;
        bool is_power_of_two;
        enum collective_algorithm algorithm;
    } rows[] = {
        {2, 64 << 10, true, COLLECTIVE_DIRECT},
        {2, SIZE_MAX, true, COLLECTIVE_RING},
        {INT_MAX, 63 << 10, false, COLLECTIVE_TREE}, /* with its header: one segment of loopback TCP */
        {INT_MAX, SIZE_MAX, true, COLLECTIVE_HALVING_DOUBLING},
        {INT_MAX, 64 << 10, false, COLLECTIVE_TREE},
    };

    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
        if (n_nodes <= rows[k].nodes_max && n_bytes <= rows[k].bytes_max &&
            (!rows[k].is_power_of_two || power_of_two_in(n_nodes) == n_nodes))
            return rows[k].algorithm;
    return COLLECTIVE_RING;
}

/* Between machines: the algorithm of the least time. No other takes less than circulant: ring and tree take
 * more messages or bytes, and halving-doubling the same. */
static enum collective_algorithm choose_between_machines(int n_nodes, double n_bytes)
{
    return path_cost_time(path_cost_direct(n_nodes, n_bytes)) <=
                   path_cost_time(path_cost_circulant(n_nodes, n_bytes))
               ? COLLECTIVE_DIRECT
               : COLLECTIVE_CIRCULANT;
}

enum collective_algorithm collective_choose(int n_nodes, size_t n_bytes, bool is_one_machine)
{
    return is_one_machine || n_nodes <= 2 ? choose_on_one_machine(n_nodes, n_bytes)
                                          : choose_between_machines(n_nodes, (double)n_bytes);
}

const char *collective_kind_name(enum collective_kind kind)
{
    static const char *const names[] = {"all-reduce", "reduce-scatter", "all-gather", "broadcast",
                                        "all-to-all"};

    return names[kind];
}
