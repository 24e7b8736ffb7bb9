#include "runner/shm/shm_group.h"

#include <math.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include "runner/shm/shm_group_private.h"
#include "shared/base/clock.h"
#include "shared/base/rng.h"
#include "tests/lib/shm_nodes.h"
#include "tests/lib/shm_pair.h"
#include "tests/unit/unit.h"

enum { PRIME = 70001, LONG = 1000000, WAIT_S = UNIT_WAIT_S };

static float out[LONG]; /* shm_nodes are processes with one each; a pair's result is not used */

/* Number i of a node's vector in a round: every node can compute those of all others. */
static float value(uint64_t round, int node, size_t i)
{
    uint64_t h = (round * 64 + (uint64_t)node) * 0x9E3779B97F4A7C15u + i * 0xD1B54A32D192ED03u;

    h = (h ^ h >> 29) * 0xBF58476D1CE4E5B9u;
    return (float)(int32_t)(h >> 32) * 0x1p-31f * (float)(1 << (h & 15));
}

static float sum_at(const struct shm_nodes *c, uint64_t round, size_t i, bool is_mean)
{
    float s = value(round, 0, i);

    for (int k = 1; k < c->n; k++)
        s += value(round, k, i);
    return is_mean ? s * (1.0f / (float)c->n) : s;
}

/* The expected value of out[i]. */
static float expected(const struct shm_nodes *c, const struct shm_collective *j, uint64_t round, size_t i)
{
    return j->kind == SHM_BROADCAST ? value(round, j->root, i) : sum_at(c, round, i, j->is_mean);
}

/* One collective from start to end; 0 if every bit is right. */
static int check(struct shm_nodes *c, struct shm_group *a, int me, struct shm_collective j, float *in,
                 uint64_t round)
{
    struct err e;

    for (size_t i = 0; i < j.n && j.out != shm_group_sum(a, j.n); i++)
        j.out[i] = -1;
    for (size_t i = 0; i < j.n; i++)
        in[i] = value(round, me, i);
    j.in = j.kind == SHM_BROADCAST && j.root != me ? NULL : in;
    if (shm_group_start(a, &j, &e) < 0 || shm_nodes_poll(a, clock_now() + WAIT_S, &e) < 0) {
        fprintf(stderr, "node %d: %s\n", me, e.text);
        return 1;
    }
    for (size_t i = 0; i < j.n; i++) {
        float want = expected(c, &j, round, i);

        if (want != j.out[i]) {
            fprintf(stderr, "node %d, round %llu, kind %d, n %zu: [%zu] is %g instead of %g\n", me,
                    (unsigned long long)round, (int)j.kind, j.n, i, (double)j.out[i], (double)want);
            return 1;
        }
    }
    return 0;
}

static int every_length(struct shm_nodes *c, struct shm_group *a, int me, void *arg)
{
    static const size_t lengths[] = {0, 1, 2, 17, 1021, SHM_GROUP_SMALL, SHM_GROUP_SMALL + 1, PRIME, LONG};
    static float own_in[LONG];
    uint64_t round = 0;

    (void)arg;
    for (size_t k = 0; k < N_OF(lengths); k++)
        for (int way = 0; way < 12; way++) {
            float *const outs[] = {out, shm_group_in(a), shm_group_sum(a, lengths[k])};
            struct shm_collective j = {
                .kind = SHM_ALL_REDUCE, .out = outs[way / 4], .n = lengths[k], .is_mean = way & 1};

            if (!j.out)
                continue;
            if (check(c, a, me, j, way & 2 ? own_in : shm_group_in(a), round++))
                return 1;
        }
    return 0;
}

TEST(every_node_gets_the_bits_of_a_plain_loop_over_the_nodes)
{
    for (int n = 1; n <= 6; n += n == 3 && !unit_is_long() ? 3 : 1) {
        struct shm_nodes c;

        shm_nodes_start(&c, n, LONG, every_length, NULL);
        assert_int_equal(shm_nodes_wait(&c), 0);
    }
}

static int short_and_long(struct shm_nodes *c, struct shm_group *a, int me, void *arg)
{
    static const size_t lengths[] = {17, SHM_GROUP_SMALL + 1};

    (void)arg;
    for (size_t k = 0; k < N_OF(lengths); k++) {
        struct shm_collective j = {.kind = SHM_ALL_REDUCE, .out = out, .n = lengths[k]};

        if (check(c, a, me, j, shm_group_in(a), k))
            return 1;
    }
    return 0;
}

TEST(the_maximum_number_of_nodes_can_join_and_reduce)
{
    struct shm_nodes c;

    shm_nodes_start(&c, RENDEZVOUS_MAX, SHM_GROUP_SMALL + 1, short_and_long, NULL);
    assert_int_equal(shm_nodes_wait(&c), 0);
}

/* Kinds and lengths are drawn from a seed that all nodes share, delays from each node's own. */
static int many_rounds(struct shm_nodes *c, struct shm_group *a, int me, void *arg)
{
    struct rng same, mine;

    (void)arg;
    rng_init(&same, 1, 0, 0);
    rng_init(&mine, 1, 1, (uint64_t)me);
    for (uint64_t round = 0; round < (unit_is_long() ? 1000 : 250); round++) {
        struct shm_collective j = {.kind = rng_below(&same, 2), .out = out};

        j.n = rng_below(&same, rng_below(&same, 4) ? 2000 : 40000);
        j.is_mean = rng_below(&same, 2) > 0;
        j.root = (int)rng_below(&same, (uint32_t)c->n);
        if (rng_below(&mine, 2) && (j.kind == SHM_ALL_REDUCE || j.root == me))
            j.out = shm_group_in(a);
        if (rng_below(&mine, 8) == 0)
            usleep((useconds_t)rng_below(&mine, 2000));
        if (check(c, a, me, j, shm_group_in(a), round))
            return 1;
    }
    return 0;
}

TEST(many_collectives_of_all_kinds_with_random_delays_have_the_right_bits)
{
    for (int n = 2; n <= 5; n += 3) {
        struct shm_nodes c;

        shm_nodes_start(&c, n, 40000, many_rounds, NULL);
        assert_int_equal(shm_nodes_wait(&c), 0);
    }
}

static int one_all_reduce(struct shm_group *a, size_t n, double timeout, struct err *e)
{
    struct shm_collective j = {.kind = SHM_ALL_REDUCE, .in = shm_group_in(a), .out = out, .n = n};

    if (shm_group_start(a, &j, e) < 0)
        return e->code;
    return shm_nodes_poll(a, clock_now() + timeout, e);
}

/* At which of its n numbers a node's vector is not finite in all-reduce `round`, if it is: at the ends of
 * slices and parts, too. */
static bool is_faulty(int round, int node, int n_nodes)
{
    return node == round % (n_nodes + 1) || (round % 4 == 3 && node == 0);
}

static float faulty(int round)
{
    static const float values[] = {NAN, INFINITY, -INFINITY};

    return values[round % (int)N_OF(values)];
}

static size_t place_in(size_t n, int round)
{
    size_t places[] = {0, n - 1, n / 2, n / 3};

    return places[round / 3 % (int)N_OF(places)];
}

/* Every all-reduce takes the vectors' place, or stays where it was summed, as gradients' do. */
static int faulty_vectors(struct shm_nodes *c, struct shm_group *a, int me, void *arg)
{
    static const size_t lengths[] = {17, SHM_GROUP_SMALL, SHM_GROUP_SMALL + 1, PRIME, LONG};
    float *in = shm_group_in(a);
    struct err e;

    (void)arg;
    for (size_t k = 0; k < N_OF(lengths); k++)
        for (int round = 0; round < 24; round++) {
            float *sum = shm_group_sum(a, lengths[k]);
            struct shm_collective j = {
                .kind = SHM_ALL_REDUCE, .in = in, .out = sum && round % 2 ? sum : in, .n = lengths[k]};

            memset(in, 0, j.n * sizeof *in);
            if (is_faulty(round, me, c->n))
                in[place_in(j.n, round)] = faulty(round);
            if (shm_group_start(a, &j, &e) < 0 || shm_nodes_poll(a, clock_now() + WAIT_S, &e) < 0)
                return 1;
            for (int i = 0; i < c->n; i++)
                if (shm_group_is_nonfinite(a, i) != is_faulty(round, i, c->n)) {
                    fprintf(stderr, "node %d, n %zu, round %d: node %d\n", me, j.n, round, i);
                    return 1;
                }
        }
    return 0;
}

TEST(every_node_finds_the_worker_whose_vector_is_not_finite_after_the_sum_has_replaced_it)
{
    for (int n = 1; n <= 5; n += 2) {
        struct shm_nodes c;

        shm_nodes_start(&c, n, LONG, faulty_vectors, NULL);
        assert_int_equal(shm_nodes_wait(&c), 0);
    }
}

static int large_vectors(struct shm_nodes *c, struct shm_group *a, int me, void *arg)
{
    static const size_t lengths[] = {17, PRIME};
    float *in = shm_group_in(a);
    struct err e;

    (void)me;
    (void)arg;
    for (size_t k = 0; k < N_OF(lengths); k++) {
        struct shm_collective j = {.kind = SHM_ALL_REDUCE, .in = in, .out = in, .n = lengths[k]};

        for (size_t i = 0; i < j.n; i++)
            in[i] = 3e38f;
        if (shm_group_start(a, &j, &e) < 0 || shm_nodes_poll(a, clock_now() + WAIT_S, &e) < 0)
            return 1;
        for (int i = 0; i < c->n; i++)
            if (isfinite(in[j.n - 1]) || shm_group_is_nonfinite(a, i))
                return 1;
    }
    return 0;
}

TEST(a_sum_that_overflows_is_no_nodes_fault)
{
    struct shm_nodes c;

    shm_nodes_start(&c, 3, PRIME, large_vectors, NULL);
    assert_int_equal(shm_nodes_wait(&c), 0);
}

/* Node 1 dies after it has published its vector; the others then wait for its part of the sum. */
static int node_1_dies(struct shm_nodes *c, struct shm_group *a, int me, void *arg)
{
    struct shm_collective j = {.kind = SHM_ALL_REDUCE, .in = shm_group_in(a), .out = out, .n = LONG};
    struct err e;

    (void)c;
    (void)arg;
    if (one_all_reduce(a, LONG, WAIT_S, &e) < 0)
        return 1;
    if (shm_group_start(a, &j, &e) < 0)
        return 1;
    if (me == 1)
        raise(SIGKILL);
    if (shm_nodes_poll(a, clock_now() + WAIT_S, &e) != ERR_LOST || /* and not ERR_TIMEOUT */
        !strstr(e.text, "node 1, on this machine, ended in the middle of all-reduce 2 of 1000000 numbers"))
        return 1;
    return one_all_reduce(a, 1, WAIT_S, &e) == ERR_LOST ? 0 : 1; /* and it stays so */
}

TEST(a_killed_node_is_detected_without_a_timeout_and_named)
{
    struct shm_nodes c;

    shm_nodes_start(&c, 3, LONG, node_1_dies, NULL);
    assert_int_equal(shm_nodes_wait(&c), 1);
}

static int node_0_leaves_first(struct shm_nodes *c, struct shm_group *a, int me, void *arg)
{
    struct err e;

    (void)c;
    (void)arg;
    if (me == 0)
        return one_all_reduce(a, LONG, WAIT_S, &e) == 1 ? 0 : 1;
    shm_group_start(
        a, &(struct shm_collective){.kind = SHM_ALL_REDUCE, .in = shm_group_in(a), .out = out, .n = LONG},
        &e);
    usleep(100000);
    return shm_nodes_poll(a, clock_now() + WAIT_S, &e) == 1 ? 0 : 1;
}

TEST(a_node_that_ends_after_its_last_collective_is_not_reported_by_slower_ones)
{
    struct shm_nodes c;

    shm_nodes_start(&c, 3, LONG, node_0_leaves_first, NULL);
    assert_int_equal(shm_nodes_wait(&c), 0);
}

/* From here on: two nodes in one thread. */
TEST(nodes_in_different_collectives_report_the_mismatch)
{
    struct shm_pair p;
    struct err e;

    shm_pair_open(&p, 1000);
    assert_ok(shm_group_start(
        p.a[0],
        &(struct shm_collective){.kind = SHM_ALL_REDUCE, .in = shm_group_in(p.a[0]), .out = out, .n = 9},
        &e));
    assert_ok(shm_group_start(
        p.a[1],
        &(struct shm_collective){.kind = SHM_BROADCAST, .in = shm_group_in(p.a[1]), .out = out, .n = 9}, &e));
    assert_int_equal(shm_group_poll(p.a[0], &e), ERR_PROTOCOL);
    assert_error_has(
        "collective 1: node 7 is in another one (0x1 of 9 numbers) than this node's all-reduce of 9");
    shm_pair_close(&p);
}

TEST(an_inactive_node_is_named_after_the_deadline)
{
    struct shm_pair p;
    double start = clock_now();
    struct err e;

    shm_pair_open(&p, 1000);
    assert_int_equal(one_all_reduce(p.a[0], 1000, 0.2, &e), ERR_TIMEOUT);
    assert_true(clock_now() - start >= 0.2);
    assert_error_has(
        "node 7's part of all-reduce 1 of 1000 numbers, in shared memory, is not complete in time");
    shm_pair_close(&p);
}

static bool is_readable(const struct shm_group *a)
{
    struct pollfd p = {.fd = shm_group_fd(a), .events = POLLIN};

    return poll(&p, 1, 0) == 1;
}

TEST(the_descriptor_becomes_readable_when_another_node_makes_progress)
{
    struct shm_collective j = {.kind = SHM_ALL_REDUCE, .out = out, .n = 5};
    struct shm_pair p;
    struct err e;

    shm_pair_open(&p, 1000);
    j.in = shm_group_in(p.a[0]);
    assert_ok(shm_group_start(p.a[0], &j, &e));
    assert_int_equal(shm_group_poll(p.a[0], &e), 0);
    assert_false(is_readable(p.a[0]));
    j.in = shm_group_in(p.a[1]);
    assert_ok(shm_group_start(p.a[1], &j, &e));
    assert_true(is_readable(p.a[0]));
    assert_int_equal(shm_group_poll(p.a[0], &e), 1);
    assert_int_equal(shm_group_poll(p.a[1], &e), 1);
    assert_false(is_readable(p.a[0]));
    shm_group_close(p.a[1]);
    assert_true(is_readable(p.a[0]));
    assert_int_equal(shm_group_poll(p.a[0], &e), 1); /* there is nothing to wait for */
    assert_false(is_readable(p.a[0]));
    assert_int_equal(one_all_reduce(p.a[0], 5, WAIT_S, &e), ERR_LOST);
    shm_group_close(p.a[0]);
}

/* Completes an all-reduce of a few numbers in which both nodes take part. */
static void reduce_by_both(struct shm_pair *p)
{
    struct shm_collective j = {.kind = SHM_ALL_REDUCE, .out = out, .n = 5};
    struct err e;

    for (int i = 0; i < 2; i++) {
        j.in = shm_group_in(p->a[i]);
        assert_ok(shm_group_start(p->a[i], &j, &e));
    }
    for (int i = 0; i < 2; i++)
        assert_int_equal(shm_group_poll(p->a[i], &e), 1);
}

TEST(the_processors_of_all_nodes_of_the_machine_count_together)
{
    for (int first = 0; first < 2; first++) { /* the processor to which the first node is bound */
        struct shm_pair p;

        shm_pair_open(&p, 1000);
        for (int i = 0; i < 2; i++) {
            assert_int_equal(p.a[i]->crowding, AFFINITY_CROWDED); /* not known yet */
            p.a[i]->views[i].counters->affinity = (struct affinity){{i == 0 && first == 0 ? 1 : 2}};
        }
        reduce_by_both(&p);
        for (int i = 0; i < 2; i++)
            assert_int_equal(p.a[i]->crowding, first == 0 ? AFFINITY_ALONE : AFFINITY_SHARED);
        shm_pair_close(&p);
    }
}

/* Completes an all-reduce of long vectors of ones, in which both nodes take part. */
static void sum_ones(struct shm_pair *p, float *const outs[2], size_t n)
{
    struct shm_collective j = {.kind = SHM_ALL_REDUCE, .n = n};
    struct err e;

    for (int i = 0; i < 2; i++) {
        j.in = shm_group_in(p->a[i]);
        j.out = outs[i];
        for (size_t k = 0; k < n; k++)
            shm_group_in(p->a[i])[k] = 1;
        assert_ok(shm_group_start(p->a[i], &j, &e));
    }
    assert_int_equal(shm_group_poll(p->a[0], &e), 0);
    assert_int_equal(shm_group_poll(p->a[1], &e), 1);
    assert_int_equal(shm_group_poll(p->a[0], &e), 1);
}

static void needs_small_pages(void)
{
    if (sysconf(_SC_PAGESIZE) != SHM_GROUP_PAGE)
        skip();
}

TEST(a_sum_that_stays_where_it_was_summed_is_not_copied_and_holds_until_the_next_collective)
{
    struct shm_collective next = {.kind = SHM_ALL_REDUCE, .n = LONG};
    float *sums[2];
    struct shm_pair p;
    struct err e;

    needs_small_pages();
    shm_pair_open(&p, LONG);
    for (int i = 0; i < 2; i++)
        sums[i] = shm_group_sum(p.a[i], LONG);
    assert_non_null(sums[0]);
    sum_ones(&p, sums, LONG);
    next.in = next.out = shm_group_in(p.a[1]);
    memset(next.out, 0, LONG * sizeof *next.out);
    assert_ok(shm_group_start(p.a[1], &next, &e)); /* the other node still updates */
    assert_int_equal(shm_group_poll(p.a[1], &e), 0);
    for (size_t k = 0; k < LONG; k++)
        assert_true(sums[0][k] == 2);
    for (int i = 0; i < 2; i++)
        assert_int_equal(shm_group_counts(p.a[i]).copied_bytes, 0);
    shm_pair_close(&p);
}

TEST(a_node_that_has_a_copy_of_the_sum_and_one_that_has_none_take_part_in_one_all_reduce)
{
    struct shm_pair p;

    needs_small_pages();
    shm_pair_open(&p, LONG);
    sum_ones(&p, (float *[]){out, shm_group_sum(p.a[1], LONG)}, LONG);
    for (size_t k = 0; k < LONG; k++)
        assert_true(out[k] == 2 && shm_group_sum(p.a[1], LONG)[k] == 2);
    assert_int_equal(shm_group_counts(p.a[0]).copied_bytes, LONG * sizeof *out);
    assert_int_equal(shm_group_counts(p.a[1]).copied_bytes, 0);
    shm_pair_close(&p);
}

TEST(short_vectors_and_those_of_another_length_are_copied)
{
    struct shm_pair p;

    shm_pair_open(&p, 1000);
    assert_null(shm_group_sum(p.a[0], 1000));
    shm_pair_close(&p);
    shm_pair_open(&p, LONG);
    assert_null(shm_group_sum(p.a[0], LONG - 1));
    shm_pair_close(&p);
}

TEST(a_node_spins_for_twice_its_usual_wait_where_no_other_needs_its_processor)
{
    static const struct {
        enum affinity_crowding crowding;
        double usual_s, waited_s; /* before it spins */
        double spins_s;
    } cases[] = {
        {AFFINITY_ALONE, 0, 0, 50e-6},
        {AFFINITY_ALONE, 200e-6, 0, 400e-6},
        {AFFINITY_ALONE, 200e-6, 300e-6, 100e-6}, /* the rest */
        {AFFINITY_ALONE, 1500e-6, 0, 2e-3},
        {AFFINITY_ALONE, 3e-3, 0, 50e-6},
        {AFFINITY_SHARED, 200e-6, 0, 50e-6},
        {AFFINITY_ALONE, 1500e-6, 10, 50e-6}, /* a node hangs */
    };

    for (size_t i = 0; i < N_OF(cases); i++) {
        struct shm_group g = {
            .crowding = cases[i].crowding, .usual_wait_s = cases[i].usual_s, .waits_since = 1000};
        double now = 1000 + cases[i].waited_s;

        assert_true(fabs(shm_group_spins_until(&g, now) - now - cases[i].spins_s) < 1e-6);
    }
}

TEST(a_usual_wait_follows_the_waits)
{
    struct shm_pair p;

    shm_pair_open(&p, 1000);
    for (int i = 0; i < 2; i++)
        p.a[i]->usual_wait_s = 10;
    reduce_by_both(&p);
    for (int i = 0; i < 2; i++)
        assert_true(p.a[i]->usual_wait_s < 10 && p.a[i]->usual_wait_s >= 10 * 7 / 8.0);
    shm_pair_close(&p);
}

static void await_turn(struct shm_nodes *c, int turn)
{
    while (atomic_load(&c->page->marks[0]) != turn)
        usleep(200);
}

static void next_turn(struct shm_nodes *c)
{
    atomic_fetch_add(&c->page->marks[0], 1);
}

/* In each all-reduce node 0 sleeps, then one of the others starts, then the other one. */
static int sleepy_node_0(struct shm_nodes *c, struct shm_group *a, int me, void *arg)
{
    static const struct {
        int first;
        bool is_woken; /* by the first one, too */
    } rounds[] = {{2, false}, {1, true}, {1, false}};
    struct shm_collective j = {.kind = SHM_ALL_REDUCE, .in = shm_group_in(a), .out = out, .n = 9};
    struct err e;

    (void)arg;
    for (int round = 0; round < (int)N_OF(rounds); round++) {
        int start = me == 0 ? 0 : me == rounds[round].first ? 1 : 3;

        await_turn(c, 5 * round + start);
        if (shm_group_start(a, &j, &e) < 0 || (me == 0 && shm_group_poll(a, &e) != 0))
            return 1;
        next_turn(c);
        if (me == 0) {
            await_turn(c, 5 * round + 2);
            if (is_readable(a) != rounds[round].is_woken || shm_group_poll(a, &e) != 0 || is_readable(a))
                return 1;
            next_turn(c);
            await_turn(c, 5 * round + 4);
            if (!is_readable(a))
                return 1;
        }
        if (shm_nodes_poll(a, clock_now() + WAIT_S, &e) < 0)
            return 1;
        if (me == 0)
            next_turn(c);
    }
    return me == 0 && (shm_group_counts(a).n_collectives != 3 || shm_group_counts(a).n_sleeps != 6) ? 1 : 0;
}

TEST(a_node_that_sleeps_is_woken_by_the_node_that_was_the_last_before)
{
    struct shm_nodes c;

    shm_nodes_start(&c, 3, SHM_GROUP_SMALL, sleepy_node_0, NULL);
    assert_int_equal(shm_nodes_wait(&c), 0);
}

TEST(corrupt_counters_of_a_peer_cause_wrong_numbers_and_nothing_else)
{
    static const uint64_t nonsense[] = {0, 1, 2, UINT32_MAX, UINT64_MAX};
    struct err e;

    for (size_t i = 0; i < N_OF(nonsense); i++)
        for (size_t k = 0; k < N_OF(nonsense) * N_OF(nonsense); k++) {
            struct shm_pair p;
            struct shm_group_counters *w;
            int rc;

            shm_pair_open(&p, LONG);
            w = p.a[1]->views[1].counters;
            atomic_store(&w->floats[1], LONG);
            atomic_store(&w->ready, nonsense[i]);
            atomic_store(&w->working, nonsense[k % N_OF(nonsense)]);
            atomic_store(&w->parts, nonsense[k / N_OF(nonsense)]);
            rc = one_all_reduce(p.a[0], LONG, 0.002, &e);
            assert_true(rc == 1 || rc == ERR_TIMEOUT);
            assert_true(rc == ERR_TIMEOUT || i > 0);
            shm_pair_close(&p);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_node_gets_the_bits_of_a_plain_loop_over_the_nodes),
        cmocka_unit_test(the_maximum_number_of_nodes_can_join_and_reduce),
        cmocka_unit_test(many_collectives_of_all_kinds_with_random_delays_have_the_right_bits),
        cmocka_unit_test(
            every_node_finds_the_worker_whose_vector_is_not_finite_after_the_sum_has_replaced_it),
        cmocka_unit_test(a_sum_that_overflows_is_no_nodes_fault),
        cmocka_unit_test(a_killed_node_is_detected_without_a_timeout_and_named),
        cmocka_unit_test(a_node_that_ends_after_its_last_collective_is_not_reported_by_slower_ones),
        cmocka_unit_test(nodes_in_different_collectives_report_the_mismatch),
        cmocka_unit_test(an_inactive_node_is_named_after_the_deadline),
        cmocka_unit_test(the_descriptor_becomes_readable_when_another_node_makes_progress),
        cmocka_unit_test(the_processors_of_all_nodes_of_the_machine_count_together),
        cmocka_unit_test(
            a_sum_that_stays_where_it_was_summed_is_not_copied_and_holds_until_the_next_collective),
        cmocka_unit_test(a_node_that_has_a_copy_of_the_sum_and_one_that_has_none_take_part_in_one_all_reduce),
        cmocka_unit_test(short_vectors_and_those_of_another_length_are_copied),
        cmocka_unit_test(a_node_spins_for_twice_its_usual_wait_where_no_other_needs_its_processor),
        cmocka_unit_test(a_usual_wait_follows_the_waits),
        cmocka_unit_test(a_node_that_sleeps_is_woken_by_the_node_that_was_the_last_before),
        cmocka_unit_test(corrupt_counters_of_a_peer_cause_wrong_numbers_and_nothing_else),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
