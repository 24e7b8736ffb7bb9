#include "agent/runner/shm/shm_group.h"

#include <assert.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/runner/shm/shm_group_state.h"
#include "agent/runner/vector.h"
#include "shared/clock.h"

/* Waking another processor takes up to 55 us on a virtual machine; who answers sooner is not slept for. */
static const double spin_s = 50e-6;

enum {
    PART = 65536,        /* floats: stays in a processor's own cache between being summed and being copied */
    TRIES_PER_LOOK = 16, /* at the clock */
    LINE_FLOATS = SHM_GROUP_LINE / sizeof(float),
    SLOTS_AT = 4096,
    IN_AT = SLOTS_AT + 2 * SHM_GROUP_SMALL * sizeof(float),
};

static const char *const kinds[] = {
    [SHM_ALL_REDUCE] = "all-reduce",
    [SHM_BROADCAST] = "broadcast",
};

_Static_assert(sizeof(struct shm_group_counters) <= SLOTS_AT, "the words fit before the slots");
_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "words between processes must not need a lock");

static size_t vector_bytes(size_t n_floats)
{
    return (n_floats + LINE_FLOATS - 1) / LINE_FLOATS * SHM_GROUP_LINE;
}

size_t shm_group_bytes(size_t n_floats)
{
    return n_floats > SIZE_MAX / 64 ? 0 : IN_AT + 2 * vector_bytes(n_floats);
}

static struct shm_group_view view_of(struct sealed s, size_t n_floats)
{
    char *p = s.start;

    return (struct shm_group_view){
        .counters = (struct shm_group_counters *)(void *)p,
        .slots = {(float *)(void *)(p + SLOTS_AT), (float *)(void *)(p + SLOTS_AT) + SHM_GROUP_SMALL},
        .in = (float *)(void *)(p + IN_AT),
        .out = (float *)(void *)(p + IN_AT + vector_bytes(n_floats)),
    };
}

int shm_group_open(struct shm_group **out, struct rendezvous *m, size_t n_floats, struct err *e)
{
    struct shm_group *a = calloc(1, sizeof *a);
    cpu_set_t cpus;

    *out = NULL;
    if (!a) {
        rendezvous_close(m);
        return err_set(e, ERR_NOMEM, "no memory for an arena");
    }
    a->rendezvous = m;
    a->n = rendezvous_n(m);
    a->me = rendezvous_me(m);
    a->n_floats = n_floats;
    a->must_yield = sched_getaffinity(0, sizeof cpus, &cpus) < 0 || CPU_COUNT(&cpus) < a->n;
    for (int i = 0; i < a->n; i++) {
        struct sealed s = rendezvous_memory(m, i);

        assert(s.start && s.size >= shm_group_bytes(n_floats));
        a->views[i] = view_of(s, n_floats);
    }
    *out = a;
    return 0;
}

void shm_group_close(struct shm_group *a)
{
    if (!a)
        return;
    rendezvous_close(a->rendezvous);
    free(a);
}

float *shm_group_in(const struct shm_group *a)
{
    return a->views[a->me].in;
}

int shm_group_fd(const struct shm_group *a)
{
    return rendezvous_fd(a->rendezvous);
}

/* Whole cache lines, so that no line is written by two nodes. */
static size_t slice_floats(const struct shm_group *a, size_t n)
{
    size_t each = n / (size_t)a->n + (n % (size_t)a->n > 0);

    return (each + LINE_FLOATS - 1) / LINE_FLOATS * LINE_FLOATS;
}

static size_t least(size_t x, size_t y)
{
    return x < y ? x : y;
}

void shm_group_slice(const struct shm_group *a, size_t n, int i, size_t *from, size_t *to)
{
    size_t each = slice_floats(a, n);

    *from = least(n, (size_t)i * each);
    *to = least(n, *from + each);
}

/* Part `part` of node i's slice. */
static void part_of(const struct shm_group *a, int i, size_t part, size_t *from, size_t *to)
{
    size_t end;

    shm_group_slice(a, a->now.n, i, from, &end);
    *from = least(end, *from + part * PART);
    *to = least(end, *from + PART);
}

static bool is_small(const struct shm_group *a)
{
    return a->now.n <= SHM_GROUP_SMALL;
}

/* Node i's vector of this collective. */
static const float *in_of(const struct shm_group *a, int i)
{
    const struct shm_group_view *v = &a->views[i];

    return is_small(a) ? v->slots[a->number % 2] : v->in;
}

static void sum_range(const struct shm_group *a, float *out, size_t from, size_t to)
{
    const float *in[RENDEZVOUS_MAX];

    for (int i = 0; i < a->n; i++)
        in[i] = in_of(a, i) + from;
    if (to > from)
        vector_sum(out + from, in, a->n, to - from, a->now.is_mean ? 1.0f / (float)a->n : 1.0f);
}

static void copy_range(float *out, const float *in, size_t from, size_t to)
{
    if (out != in && to > from)
        vector_copy(out + from, in + from, to - from);
}

/* The whole result from the nodes' vectors, whatever the others do meanwhile. */
static void read_all(const struct shm_group *a)
{
    const struct shm_collective *c = &a->now;

    if (c->kind == SHM_BROADCAST)
        copy_range(c->out, in_of(a, c->root), 0, c->n);
    else
        sum_range(a, c->out, 0, c->n);
}

static uint64_t what_of(const struct shm_collective *c)
{
    return (uint64_t)c->kind | (uint64_t)c->is_mean << 8 | (uint64_t)c->root << 16;
}

/* A node that has made work stores that and then looks who is asleep; one that falls asleep stores is_asleep
 * and then looks once more whether there is work. Each stores one word and loads another, which release and
 * acquire do not keep in order, nor does x86-64 by itself. With a fence between the two on both sides, at
 * least one of them sees what the other has stored. */
static void store_before_load(void)
{
    atomic_thread_fence(memory_order_seq_cst);
}

/* Wakes who sleeps. */
static void ring(const struct shm_group *a)
{
    store_before_load();
    for (int i = 0; i < a->n; i++)
        if (atomic_load_explicit(&a->views[i].counters->is_asleep, memory_order_relaxed))
            rendezvous_wake(a->rendezvous, i);
}

/* Released: what the word counts, floats and what kind of collective they are of, is there for who acquires
 * it; and what this node has read of the others before may be overwritten by them. */
static void publish(struct shm_group *a, _Atomic uint64_t *word, uint64_t value)
{
    atomic_store_explicit(word, value, memory_order_release);
    ring(a);
}

/* Does anybody read this node's vector? */
static bool is_read(const struct shm_group *a)
{
    return a->now.kind == SHM_ALL_REDUCE || a->now.root == a->me;
}

int shm_group_start(struct shm_group *a, const struct shm_collective *c, struct err *e)
{
    struct shm_group_view *mine = &a->views[a->me];

    if (a->broken.code) {
        *e = a->broken;
        return e->code;
    }
    assert(a->stage == STAGE_NONE && c->n <= a->n_floats);
    assert(c->root >= 0 && c->root < a->n);
    a->now = *c;
    a->number++;
    a->stage = STAGE_READY;
    a->part = 0;
    a->waits_for = 0;
    a->n_parts = c->kind == SHM_ALL_REDUCE ? (slice_floats(a, c->n) + PART - 1) / PART : 1;
    for (int i = 0; i < a->n; i++)
        a->n_taken[i] = 0;
    if (is_read(a))
        copy_range(is_small(a) ? mine->slots[a->number % 2] : mine->in, c->in, 0, c->n);
    /* Relaxed: `ready` releases both. */
    atomic_store_explicit(&mine->counters->what[a->number % 2], what_of(c), memory_order_relaxed);
    atomic_store_explicit(&mine->counters->floats[a->number % 2], c->n, memory_order_relaxed);
    publish(a, &mine->counters->ready, a->number);
    return 0;
}

static int lost(const struct shm_group *a, struct err *e)
{
    return err_set(e, ERR_LOST, "node %d, on this machine, ended in the middle of %s %llu of %zu numbers",
                   rendezvous_node(a->rendezvous, a->waits_for), kinds[a->now.kind],
                   (unsigned long long)a->number, a->now.n);
}

/* Relaxed loads: `ready` was acquired. */
static int is_same(const struct shm_group *a, int i, struct err *e)
{
    struct shm_group_counters *w = a->views[i].counters;
    uint64_t what = atomic_load_explicit(&w->what[a->number % 2], memory_order_relaxed);
    uint64_t floats = atomic_load_explicit(&w->floats[a->number % 2], memory_order_relaxed);

    if (what == what_of(&a->now) && floats == a->now.n)
        return 0;
    return err_set(
        e, ERR_PROTOCOL,
        "collective %llu: node %d is in another one (%#llx of %llu numbers) than this node's %s of %zu",
        (unsigned long long)a->number, rendezvous_node(a->rendezvous, i), (unsigned long long)what,
        (unsigned long long)floats, kinds[a->now.kind], a->now.n);
}

/* 1 when every node's vector is there. Acquired: that vector, and that the node is done with reading for the
 * collective before (shm_group.h). */
static int all_are_ready(struct shm_group *a, struct err *e)
{
    for (; a->waits_for < a->n; a->waits_for++) {
        if (atomic_load_explicit(&a->views[a->waits_for].counters->ready, memory_order_acquire) < a->number)
            return rendezvous_is_gone(a->rendezvous, a->waits_for) ? lost(a, e) : 0;
        if (is_same(a, a->waits_for, e) < 0)
            return e->code;
    }
    return 1;
}

/* How many parts of its slice node i has done. `working` is acquired so that `parts` is this collective's,
 * `parts` so that the floats of those are there, and those of this node read. */
static size_t parts_done(const struct shm_group *a, int i)
{
    struct shm_group_counters *w = a->views[i].counters;
    uint64_t working = atomic_load_explicit(&w->working, memory_order_acquire);

    if (working != a->number)
        return working > a->number ? a->n_parts : 0;
    return least(a->n_parts, atomic_load_explicit(&w->parts, memory_order_acquire));
}

/* Copies what node i has summed and this node has not yet. */
static void take_parts(struct shm_group *a, int i)
{
    size_t n_done = parts_done(a, i), from, to;

    for (; a->n_taken[i] < n_done; a->n_taken[i]++)
        if (a->now.kind == SHM_ALL_REDUCE && i != a->me) {
            part_of(a, i, a->n_taken[i], &from, &to);
            copy_range(a->now.out, a->views[i].out, from, to);
        }
}

/* One part of this node's slice, then what the others have done meanwhile, while caches still hold it. */
static void sum_part(struct shm_group *a)
{
    struct shm_group_view *mine = &a->views[a->me];
    size_t from, to;

    part_of(a, a->me, a->part, &from, &to);
    sum_range(a, mine->out, from, to);
    publish(a, &mine->counters->parts, ++a->part);
    copy_range(a->now.out, mine->out, from, to);
    for (int i = 0; i < a->n; i++)
        take_parts(a, i);
}

/* 1 when every node has done its slice, and this node has copied it. */
static int all_are_done(struct shm_group *a, struct err *e)
{
    for (; a->waits_for < a->n; a->waits_for++) {
        take_parts(a, a->waits_for);
        if (a->n_taken[a->waits_for] < a->n_parts)
            return rendezvous_is_gone(a->rendezvous, a->waits_for) ? lost(a, e) : 0;
    }
    return 1;
}

/* All vectors are there: does this node's part. */
static void work(struct shm_group *a)
{
    struct shm_group_counters *mine = a->views[a->me].counters;

    if (is_small(a)) {
        read_all(a);
        a->stage = STAGE_NONE;
        return;
    }
    /* Released behind it: whoever sees `working` counts none of an earlier one's parts. */
    atomic_store_explicit(&mine->parts, 0, memory_order_relaxed);
    atomic_store_explicit(&mine->working, a->number, memory_order_release);
    if (a->now.kind == SHM_ALL_REDUCE) {
        while (a->part < a->n_parts)
            sum_part(a);
    } else {
        read_all(a);
        publish(a, &mine->parts, a->n_parts);
    }
    a->waits_for = 0;
    a->stage = STAGE_GATHER;
}

/* 1: the collective is complete; 0: it waits. */
static int advance(struct shm_group *a, struct err *e)
{
    int rc = 1;

    if (a->stage == STAGE_READY) {
        rc = all_are_ready(a, e);
        if (rc == 1)
            work(a);
    }
    if (a->stage == STAGE_GATHER) {
        rc = all_are_done(a, e);
        if (rc == 1)
            a->stage = STAGE_NONE;
    }
    return rc;
}

/* Leaves more of a core to its other thread. On arm64 a yield does nothing on most processors; an isb takes
 * about as long as a pause on x86-64. */
static void pause_briefly(const struct shm_group *a)
{
    if (a->must_yield)
        sched_yield();
#if defined(__x86_64__)
    else
        __builtin_ia32_pause();
#elif defined(__aarch64__)
    else
        __asm__ volatile("isb" : : : "memory");
#endif
}

static int spin(struct shm_group *a, struct err *e)
{
    double start = 0;

    for (int tries = 1;; tries++) {
        int rc = advance(a, e);

        if (rc != 0)
            return rc;
        pause_briefly(a);
        if (a->must_yield || tries % TRIES_PER_LOOK == 0) {
            double now = clock_now();

            if (start > 0 && now - start > spin_s)
                return 0;
            start = start > 0 ? start : now;
        }
    }
}

static int poll_once(struct shm_group *a, struct err *e)
{
    struct shm_group_counters *mine = a->views[a->me].counters;
    int rc;

    /* Awake: relaxed, as a byte too many does no harm. */
    if (a->must_poll || a->stage == STAGE_NONE) {
        atomic_store_explicit(&mine->is_asleep, 0, memory_order_relaxed);
        a->must_poll = false;
        if (rendezvous_advance(a->rendezvous, e) < 0)
            return e->code;
    }
    rc = spin(a, e);
    if (rc != 0)
        return rc;
    atomic_store_explicit(&mine->is_asleep, 1, memory_order_relaxed);
    store_before_load();
    a->must_poll = true;
    rc = advance(a, e);
    if (rc != 0)
        atomic_store_explicit(&mine->is_asleep, 0, memory_order_relaxed);
    return rc;
}

int shm_group_poll(struct shm_group *a, struct err *e)
{
    int rc;

    if (a->broken.code) {
        *e = a->broken;
        return e->code;
    }
    rc = poll_once(a, e);
    if (rc < 0)
        a->broken = *e;
    return rc;
}

void shm_group_waits_for(const struct shm_group *a, char *out, size_t size)
{
    assert(a->waits_for < a->n);
    snprintf(out, size, "node %d's part of %s %llu of %zu numbers, in shared memory,",
             rendezvous_node(a->rendezvous, a->waits_for), kinds[a->now.kind], (unsigned long long)a->number,
             a->now.n);
}
