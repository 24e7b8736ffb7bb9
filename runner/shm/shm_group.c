#include "runner/shm/shm_group.h"

#include <assert.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "runner/base/vector.h"
#include "runner/shm/shm_group_private.h"
#include "shared/base/clock.h"

/* Waking another processor takes up to 55 us on a virtual machine: a node spins at least about that long
 * before it sleeps. */
static const double SPIN_S = 50e-6;
/* Where no other node needs its processor, it spins for twice its usual wait, which may be longer: the first
 * of 16 nodes waits for the slowest one. Beside longer waits than this the time of waking is short, and a
 * node that hangs costs the others no more. */
static const double SPIN_MOST_S = 2e-3;
static const double TAKEN_AWAY_S = 200e-6; /* without a look: another process needs this processor */
static const double WEIGHT = 1.0 / 8;      /* of the last wait in the usual one */

enum {
    PART_FLOATS = 65536, /* of a part: stays in a processor's own cache from summing to copying */
    TRIES_PER_CLOCK_READ = 16,
    LINE_FLOATS = SHM_GROUP_LINE / sizeof(float),
    PAGE_FLOATS = SHM_GROUP_PAGE / sizeof(float),
    PAGES_LEAST =
        4, /* of a mean slice, where slices are whole pages: the longest is at most a quarter longer */
    SLOTS_AT = 4096,
    IN_AT = SLOTS_AT + 2 * SHM_GROUP_SMALL * sizeof(float),
};

static const char *const kinds[] = {
    [SHM_ALL_REDUCE] = "all-reduce",
    [SHM_BROADCAST] = "broadcast",
};

_Static_assert(sizeof(struct shm_group_counters) <= SLOTS_AT, "the counters fit before the slots");
_Static_assert(RENDEZVOUS_MAX <= 64, "`nonfinite` has a bit for each node");
_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "atomics shared between processes must be lock-free");

static size_t round_up(size_t n, size_t unit)
{
    return (n + unit - 1) / unit * unit;
}

static size_t vector_bytes(size_t n_floats)
{
    return round_up(n_floats, PAGE_FLOATS) * sizeof(float);
}

/* Floats per slice: whole pages, which can be mapped one after the other, or at least whole cache lines, so
 * that no line is written by two nodes. */
static size_t slice_floats(size_t n, int n_nodes)
{
    size_t each = n / (size_t)n_nodes + (n % (size_t)n_nodes > 0);

    return round_up(each, each >= PAGES_LEAST * PAGE_FLOATS ? PAGE_FLOATS : LINE_FLOATS);
}

size_t shm_group_bytes(size_t n_floats, int n_nodes)
{
    return n_floats > SIZE_MAX / 64
               ? 0
               : IN_AT + vector_bytes(n_floats) + vector_bytes(slice_floats(n_floats, n_nodes));
}

static struct shm_group_view view_of(struct sealed s, size_t n_floats)
{
    char *p = s.start;

    return (struct shm_group_view){
        .counters = (struct shm_group_counters *)(void *)p,
        .slots = {(float *)(void *)(p + SLOTS_AT), (float *)(void *)(p + SLOTS_AT) + SHM_GROUP_SMALL},
        .in = (float *)(void *)(p + IN_AT),
        .sums = (float *)(void *)(p + IN_AT + vector_bytes(n_floats)),
    };
}

static void unmap_sum(struct shm_group *g)
{
    if (g->sum)
        munmap(g->sum, vector_bytes(g->n_floats));
    g->sum = NULL;
}

/* Maps the pages at `from` a second time, at `to`, for reading. */
static bool map_again(char *to, void *from, size_t size)
{
    return mremap(from, 0, size, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to &&
           mprotect(to, size, PROT_READ) == 0;
}

/* Maps all slices of the sum one after the other. */
static void map_sum(struct shm_group *g)
{
    size_t size = vector_bytes(g->n_floats), from, to;
    char *all;

    if (g->n_floats == 0 || slice_floats(g->n_floats, g->n) % PAGE_FLOATS != 0)
        return;
    all = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED)
        return;
    g->sum = (float *)(void *)all;
    for (int i = 0; i < g->n; i++) {
        shm_group_slice(g, g->n_floats, i, &from, &to);
        if (from < to && !map_again(all + from * sizeof(float), g->views[i].sums, vector_bytes(to - from))) {
            unmap_sum(g);
            return;
        }
    }
}

int shm_group_open(struct shm_group **out, struct rendezvous *m, size_t n_floats, struct err *e)
{
    struct shm_group *g = calloc(1, sizeof *g);

    *out = NULL;
    if (!g) {
        rendezvous_close(m);
        return err_set(e, ERR_NOMEM, "no memory for a shm group");
    }
    g->rendezvous = m;
    g->n = rendezvous_n(m);
    g->me = rendezvous_me(m);
    g->n_floats = n_floats;
    g->crowding = AFFINITY_CROWDED;
    for (int i = 0; i < g->n; i++) {
        struct sealed s = rendezvous_memory(m, i);

        assert(s.start && s.size >= shm_group_bytes(n_floats, g->n));
        g->views[i] = view_of(s, n_floats);
    }
    affinity_read(&g->views[g->me].counters->affinity);
    map_sum(g);
    *out = g;
    return 0;
}

void shm_group_close(struct shm_group *g)
{
    if (!g)
        return;
    unmap_sum(g);
    rendezvous_close(g->rendezvous);
    free(g);
}

int shm_group_n(const struct shm_group *g)
{
    return g->n;
}

int shm_group_me(const struct shm_group *g)
{
    return g->me;
}

int shm_group_node(const struct shm_group *g, int i)
{
    return rendezvous_node(g->rendezvous, i);
}

float *shm_group_in(const struct shm_group *g)
{
    return g->views[g->me].in;
}

float *shm_group_sum(const struct shm_group *g, size_t n)
{
    return n == g->n_floats ? g->sum : NULL;
}

int shm_group_fd(const struct shm_group *g)
{
    return rendezvous_fd(g->rendezvous);
}

static size_t smaller(size_t x, size_t y)
{
    return x < y ? x : y;
}

void shm_group_slice(const struct shm_group *g, size_t n, int i, size_t *from, size_t *to)
{
    size_t each = slice_floats(n, g->n);

    *from = smaller(n, (size_t)i * each);
    *to = smaller(n, *from + each);
}

/* Part `part` of node i's slice. */
static void part_of(const struct shm_group *g, int i, size_t part, size_t *from, size_t *to)
{
    size_t end;

    shm_group_slice(g, g->now.n, i, from, &end);
    *from = smaller(end, *from + part * PART_FLOATS);
    *to = smaller(end, *from + PART_FLOATS);
}

static bool is_small(const struct shm_group *g)
{
    return g->now.n <= SHM_GROUP_SMALL;
}

/* Node i's vector in this collective. */
static const float *in_of(const struct shm_group *g, int i)
{
    const struct shm_group_view *v = &g->views[i];

    return is_small(g) ? v->slots[g->number % 2] : v->in;
}

static bool is_finite(const float *v, size_t n)
{
    while (n > 0 && isfinite(v[n - 1]))
        n--;
    return n == 0;
}

/* Computes the sum from its number `from` on; out[0] is that number. Notes the nodes whose numbers are not
 * finite: none if the sum has overflowed. */
static void sum_range(struct shm_group *g, float *out, size_t from, size_t to)
{
    const float *in[RENDEZVOUS_MAX];

    for (int i = 0; i < g->n; i++)
        in[i] = in_of(g, i) + from;
    if (to <= from || vector_sum(out, in, g->n, to - from, g->now.is_mean ? 1.0f / (float)g->n : 1.0f))
        return;
    for (int i = 0; i < g->n; i++)
        if (!is_finite(in[i], to - from))
            g->nonfinite |= (uint64_t)1 << i;
}

static void copy_floats(struct shm_group *g, float *out, const float *in, size_t n)
{
    if (out == in || n == 0)
        return;
    vector_copy(out, in, n);
    g->counts.copied_bytes += n * sizeof *out;
}

/* The place of number `at` of the sum, which is in node i's slice. */
static float *sum_of(const struct shm_group *g, int i, size_t at)
{
    size_t from, to;

    shm_group_slice(g, g->now.n, i, &from, &to);
    return g->views[i].sums + (at - from);
}

/* Computes the whole result on this node from the nodes' vectors. */
static void read_all(struct shm_group *g)
{
    const struct shm_collective *c = &g->now;

    if (c->kind == SHM_BROADCAST)
        copy_floats(g, c->out, c->root == g->me ? c->in : in_of(g, c->root), c->n);
    else
        sum_range(g, c->out, 0, c->n);
}

static uint64_t signature_of(const struct shm_collective *c)
{
    return (uint64_t)c->kind | (uint64_t)c->is_mean << 8 | (uint64_t)c->root << 16;
}

/* A node that publishes stores a counter and then loads the others' sleeps_on; a node that goes to sleep
 * stores sleeps_on and then loads the counters once more. Neither release/acquire nor x86-64 keeps a store
 * and a later load of another variable in order. With a full fence between the two on both sides, at least
 * one of the nodes sees the other's store. */
static void store_before_load(void)
{
    atomic_thread_fence(memory_order_seq_cst);
}

/* Wakes the nodes that sleep until this one has published. */
static void wake_sleepers(struct shm_group *g)
{
    store_before_load();
    for (int i = 0; i < g->n; i++) {
        uint64_t on = atomic_load_explicit(&g->views[i].counters->sleeps_on, memory_order_relaxed);

        if ((on & 255) != (uint64_t)g->me + 1 || on == g->has_woken[i])
            continue;
        g->has_woken[i] = on;
        rendezvous_wake(g->rendezvous, i);
        g->counts.n_wakeups++;
    }
}

/* Stores with release order: a node that acquires the counter sees the floats that it counts and the
 * signature of their collective, and may overwrite memory that this node read before. */
static void publish(struct shm_group *g, _Atomic uint64_t *counter, uint64_t value)
{
    atomic_store_explicit(counter, value, memory_order_release);
    wake_sleepers(g);
}

/* Whether other nodes read this node's vector. */
static bool is_read(const struct shm_group *g)
{
    return g->now.kind == SHM_ALL_REDUCE || g->now.root == g->me;
}

int shm_group_start(struct shm_group *g, const struct shm_collective *c, struct err *e)
{
    struct shm_group_view *mine = &g->views[g->me];

    if (g->broken.code) {
        *e = g->broken;
        return e->code;
    }
    assert(g->stage == STAGE_NONE && c->n <= g->n_floats);
    assert(c->root >= 0 && c->root < g->n);
    assert(!g->sum || c->out != g->sum || (c->kind == SHM_ALL_REDUCE && c->n == g->n_floats));
    g->now = *c;
    g->number++;
    g->counts.n_collectives++;
    g->stage = STAGE_READY;
    g->part = 0;
    g->waits_for = 0;
    g->blocked_by = g->me;
    g->n_parts = c->kind == SHM_ALL_REDUCE ? (slice_floats(c->n, g->n) + PART_FLOATS - 1) / PART_FLOATS : 1;
    if (c->kind == SHM_ALL_REDUCE)
        g->nonfinite = 0;
    for (int i = 0; i < g->n; i++)
        g->n_taken[i] = 0;
    g->waits_since = clock_now();
    if (is_read(g))
        copy_floats(g, is_small(g) ? mine->slots[g->number % 2] : mine->in, c->in, c->n);
    /* Relaxed: `ready` releases both. */
    atomic_store_explicit(&mine->counters->signature[g->number % 2], signature_of(c), memory_order_relaxed);
    atomic_store_explicit(&mine->counters->floats[g->number % 2], c->n, memory_order_relaxed);
    publish(g, &mine->counters->ready, g->number);
    return 0;
}

/* All nodes have written their processors: `ready` released them. */
static void find_crowding(struct shm_group *g)
{
    struct affinity nodes[RENDEZVOUS_MAX];

    for (int i = 0; i < g->n; i++)
        nodes[i] = g->views[i].counters->affinity;
    g->crowding = affinity_crowding(nodes, g->n, g->me);
}

static int lost(const struct shm_group *g, struct err *e)
{
    return err_set(e, ERR_LOST, "node %d, on this machine, ended in the middle of %s %llu of %zu numbers",
                   rendezvous_node(g->rendezvous, g->waits_for), kinds[g->now.kind],
                   (unsigned long long)g->number, g->now.n);
}

/* Relaxed loads: `ready` was acquired. */
static int check_same_collective(const struct shm_group *g, int i, struct err *e)
{
    struct shm_group_counters *c = g->views[i].counters;
    uint64_t signature = atomic_load_explicit(&c->signature[g->number % 2], memory_order_relaxed);
    uint64_t floats = atomic_load_explicit(&c->floats[g->number % 2], memory_order_relaxed);

    if (signature == signature_of(&g->now) && floats == g->now.n)
        return 0;
    return err_set(
        e, ERR_PROTOCOL,
        "collective %llu: node %d is in another one (%#llx of %llu numbers) than this node's %s of %zu",
        (unsigned long long)g->number, rendezvous_node(g->rendezvous, i), (unsigned long long)signature,
        (unsigned long long)floats, kinds[g->now.kind], g->now.n);
}

static bool is_ready(const struct shm_group *g, int i)
{
    return atomic_load_explicit(&g->views[i].counters->ready, memory_order_acquire) >= g->number;
}

/* 1 when every node's vector is published. Acquires the vector, and that the node has finished reading for
 * the previous collective (shm_group.h). */
static int all_are_ready(struct shm_group *g, struct err *e)
{
    for (; g->waits_for < g->n; g->waits_for++) {
        if (!is_ready(g, g->waits_for)) {
            g->blocked_by = g->waits_for;
            return rendezvous_has_ended(g->rendezvous, g->waits_for) ? lost(g, e) : 0;
        }
        if (check_same_collective(g, g->waits_for, e) < 0)
            return e->code;
    }
    return 1;
}

/* Number of parts of its slice that node i has finished. Acquiring `working` ensures that `parts` belongs
 * to this collective; acquiring `parts` ensures that their floats are written, and those of this node
 * read. */
static size_t parts_done(const struct shm_group *g, int i)
{
    struct shm_group_counters *c = g->views[i].counters;
    uint64_t working = atomic_load_explicit(&c->working, memory_order_acquire);

    if (working != g->number)
        return working > g->number ? g->n_parts : 0;
    return smaller(g->n_parts, atomic_load_explicit(&c->parts, memory_order_acquire));
}

/* Copies numbers of the sum, which are in node i's slice, to the result, unless that is where they are. */
static void copy_sums(struct shm_group *g, int i, size_t from, size_t to)
{
    if (!g->sum || g->now.out != g->sum)
        copy_floats(g, g->now.out + from, sum_of(g, i, from), to - from);
}

/* Takes the parts that node i has summed and this node has not taken yet. */
static void take_parts(struct shm_group *g, int i)
{
    size_t n_done = parts_done(g, i), from, to;

    for (; g->n_taken[i] < n_done; g->n_taken[i]++)
        if (g->now.kind == SHM_ALL_REDUCE && i != g->me) {
            part_of(g, i, g->n_taken[i], &from, &to);
            copy_sums(g, i, from, to);
            g->nonfinite |= atomic_load_explicit(&g->views[i].counters->nonfinite, memory_order_relaxed);
        }
}

/* Sums one part of this node's slice, then copies the others' finished parts while caches still hold them. */
static void sum_part(struct shm_group *g)
{
    struct shm_group_view *mine = &g->views[g->me];
    size_t from, to;

    part_of(g, g->me, g->part, &from, &to);
    sum_range(g, sum_of(g, g->me, from), from, to);
    atomic_store_explicit(&mine->counters->nonfinite, g->nonfinite,
                          memory_order_relaxed); /* released by `parts` */
    publish(g, &mine->counters->parts, ++g->part);
    copy_sums(g, g->me, from, to);
    for (int i = 0; i < g->n; i++)
        take_parts(g, i);
}

/* 1 when every node has finished its slice and this node has copied it. */
static int all_are_done(struct shm_group *g, struct err *e)
{
    for (; g->waits_for < g->n; g->waits_for++) {
        take_parts(g, g->waits_for);
        if (g->n_taken[g->waits_for] < g->n_parts)
            return rendezvous_has_ended(g->rendezvous, g->waits_for) ? lost(g, e) : 0;
    }
    return 1;
}

/* All vectors are published: does this node's share of the collective. */
static void work_on_share(struct shm_group *g)
{
    struct shm_group_counters *mine = g->views[g->me].counters;

    if (is_small(g)) {
        read_all(g);
        g->stage = STAGE_NONE;
        return;
    }
    /* `working` is released after it: a node that sees `working` counts no parts of an earlier collective. */
    atomic_store_explicit(&mine->parts, 0, memory_order_relaxed);
    atomic_store_explicit(&mine->working, g->number, memory_order_release);
    if (g->now.kind == SHM_ALL_REDUCE) {
        while (g->part < g->n_parts)
            sum_part(g);
    } else {
        read_all(g);
        publish(g, &mine->parts, g->n_parts);
    }
    g->waits_for = 0;
    g->stage = STAGE_GATHER;
}

/* A single long wait, as for an evaluation, does not count for more than another one. */
static void note_wait(struct shm_group *g, double waited)
{
    g->usual_wait_s += WEIGHT * (fmin(waited, 2 * SPIN_MOST_S) - g->usual_wait_s);
}

static void begin_work(struct shm_group *g)
{
    if (g->number == 1)
        find_crowding(g);
    g->last = g->blocked_by;
    note_wait(g, clock_now() - g->waits_since);
    work_on_share(g);
    g->waits_since = clock_now();
}

/* 1: the collective is complete; 0: waiting for other nodes. */
static int advance_collective(struct shm_group *g, struct err *e)
{
    int rc = 1;

    if (g->stage == STAGE_READY) {
        rc = all_are_ready(g, e);
        if (rc == 1)
            begin_work(g);
    }
    if (g->stage == STAGE_GATHER) {
        rc = all_are_done(g, e);
        if (rc == 1)
            g->stage = STAGE_NONE;
    }
    return rc;
}

/* Leaves more of a core to its other hardware thread. On arm64 `yield` has no effect on most processors;
 * `isb` takes about as long as `pause` on x86-64. */
static void pause_briefly(const struct shm_group *g)
{
    if (g->crowding != AFFINITY_ALONE)
        sched_yield();
#if defined(__x86_64__)
    else
        __builtin_ia32_pause();
#elif defined(__aarch64__)
    else
        __asm__ volatile("isb" : : : "memory");
#endif
}

double shm_group_spins_until(const struct shm_group *g, double now)
{
    bool spins_long = g->crowding == AFFINITY_ALONE && g->usual_wait_s <= SPIN_MOST_S;
    double until = g->waits_since + (spins_long ? fmin(2 * g->usual_wait_s, SPIN_MOST_S) : 0);

    return fmax(until, now + SPIN_S);
}

/* After SPIN_S it yields a processor that it has alone, too: if it is not bound to it, another node may have
 * been put there. */
static int spin(struct shm_group *g, struct err *e)
{
    double last = 0, yields_at = 0, until = 0;

    for (int tries = 1;; tries++) {
        int rc = advance_collective(g, e);
        double now;

        if (rc != 0)
            return rc;
        if (g->crowding == AFFINITY_CROWDED)
            return 0;
        pause_briefly(g);
        if (g->crowding == AFFINITY_ALONE && tries % TRIES_PER_CLOCK_READ != 0)
            continue;
        now = clock_now();
        if (last == 0) {
            yields_at = now + SPIN_S;
            until = shm_group_spins_until(g, now);
        } else if (g->crowding == AFFINITY_ALONE && now - last > TAKEN_AWAY_S) {
            g->usual_wait_s = 2 * SPIN_MOST_S; /* the next ones sleep soon */
            return 0;
        }
        if (now > until)
            return 0;
        if (now > yields_at)
            sched_yield();
        last = now;
    }
}

/* The node that is to wake this one. Until all are ready that is the one that was the last before, because
 * the same node is often the slowest: once it is ready, the others are, too. */
static int waker_of(const struct shm_group *g)
{
    bool is_awaited = g->stage == STAGE_READY && g->last != g->me && !is_ready(g, g->last) &&
                      !rendezvous_has_ended(g->rendezvous, g->last);

    return is_awaited ? g->last : g->waits_for;
}

/* Announces that this node sleeps, and looks once more. Returns what advance_collective does. */
static int lie_down(struct shm_group *g, struct err *e)
{
    _Atomic uint64_t *sleeps_on = &g->views[g->me].counters->sleeps_on;
    int waker, rc;

    g->n_laid_down++;
    do {
        waker = waker_of(g);
        atomic_store_explicit(sleeps_on, g->n_laid_down << 8 | (uint64_t)(waker + 1), memory_order_relaxed);
        store_before_load();
        rc = advance_collective(g, e);
    } while (rc == 0 && waker_of(g) != waker);
    if (rc != 0)
        atomic_store_explicit(sleeps_on, 0, memory_order_relaxed);
    return rc;
}

static int poll_once(struct shm_group *g, struct err *e)
{
    int rc;

    /* Awake: relaxed, because an extra wakeup is harmless. */
    if (g->must_poll || g->stage == STAGE_NONE) {
        atomic_store_explicit(&g->views[g->me].counters->sleeps_on, 0, memory_order_relaxed);
        g->must_poll = false;
        if (rendezvous_advance(g->rendezvous, e) < 0)
            return e->code;
    }
    rc = spin(g, e);
    if (rc != 0)
        return rc;
    g->must_poll = true;
    rc = lie_down(g, e);
    g->counts.n_sleeps += rc == 0;
    return rc;
}

int shm_group_poll(struct shm_group *g, struct err *e)
{
    int rc;

    if (g->broken.code) {
        *e = g->broken;
        return e->code;
    }
    rc = poll_once(g, e);
    if (rc < 0)
        g->broken = *e;
    return rc;
}

bool shm_group_is_nonfinite(const struct shm_group *g, int i)
{
    return g->nonfinite >> i & 1;
}

struct shm_group_counts shm_group_counts(const struct shm_group *g)
{
    return g->counts;
}

int shm_group_awaits(const struct shm_group *g)
{
    assert(g->waits_for < g->n);
    return rendezvous_node(g->rendezvous, g->waits_for);
}

void shm_group_waits_for(const struct shm_group *g, char *out, size_t size)
{
    assert(g->waits_for < g->n);
    snprintf(out, size, "node %d's part of %s %llu of %zu numbers, in shared memory,",
             rendezvous_node(g->rendezvous, g->waits_for), kinds[g->now.kind], (unsigned long long)g->number,
             g->now.n);
}
