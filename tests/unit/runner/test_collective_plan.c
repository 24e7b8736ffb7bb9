/* Plans run by a naive interpreter in which a chunk in flight is only a reference to its sender's vector:
 * it is read when its receiver takes it, as late as the random order allows. A plan that modifies sent data
 * too early yields wrong numbers. */
#include "tests/unit/unit.h"

#include "runner/collective/collective_plan.h"
#include "shared/base/rng.h"

enum { N_MAX = 9, LEN_MAX = 64, CHUNK = 5, IN_TURN = 3 };

struct message {
    const float *at;
    float then[CHUNK]; /* content when it was sent */
    size_t n;
    uint32_t index;
    int turn;
};

struct link {
    struct message messages[1024];
    size_t first, n;
};

struct plan_node {
    struct collective_plan plans[2]; /* of even and of odd turns */
    struct collective_plan *plan;    /* of this turn */
    int turn;                        /* index of the collective in progress */
    size_t n_sent, n_done;
    size_t cursor[N_MAX];     /* by sender: index of the next chunk */
    uint32_t received[N_MAX]; /* chunks received */
    float staged[N_MAX][CHUNK];
    bool is_staged[N_MAX];
    bool has_come[2048];
    float in[LEN_MAX], out[2][LEN_MAX], kept[2][LEN_MAX];
    float result[IN_TURN][LEN_MAX];
};

static struct plan_node nodes[N_MAX];
static struct link links[N_MAX][N_MAX]; /* to, from */

struct scenario {
    struct plan_request request;
    bool whole;           /* small integers: sums are exact */
    bool has_empty_turns; /* each odd one is empty */
    uint64_t seed;
    uint64_t n_orders; /* of arrival; 0: 4, or 12 */
};

static float input(const struct scenario *g, int node, int turn, size_t i)
{
    struct rng r;

    rng_init(&r, (uint64_t)node + 1, (uint64_t)turn, i);
    return g->whole ? (float)(int)(rng_uniform(&r) * 100) : rng_uniform(&r) - 0.5f;
}

static float *vector(struct plan_node *p, enum plan_vector v)
{
    return v == PLAN_IN ? p->in : v == PLAN_OUT ? p->out[p->turn % 2] : p->kept[p->turn % 2];
}

static void begin_turn(const struct scenario *g, int me)
{
    struct plan_node *p = &nodes[me];

    p->plan = &p->plans[p->turn % 2];
    p->n_sent = p->n_done = 0;
    memset(p->received, 0, sizeof p->received);
    memset(p->has_come, 0, sizeof p->has_come);
    for (int k = 0; k < g->request.n_nodes; k++) {
        int peer = collective_plan_peer(p->plan, k);

        p->cursor[k] = peer >= 0 ? p->plan->peers[peer].first : p->plan->n_recvs;
    }
    for (size_t i = 0; i < p->plan->request.n; i++) {
        p->in[i] = input(g, me, p->turn, i);
        p->out[p->turn % 2][i] = 1e6f; /* a value that is never written is visible */
    }
    for (size_t k = 0; k < p->plan->n_copies; k++) {
        const struct plan_copy *c = &p->plan->copies[k];

        memcpy(vector(p, c->to) + c->first, p->in + c->first, c->n * sizeof(float));
    }
}

static bool send_one(int me)
{
    struct plan_node *p = &nodes[me];
    const struct plan_send *s;
    struct link *l;

    if (p->n_sent == p->plan->n_sends)
        return false;
    s = &p->plan->sends[p->n_sent];
    if (s->after > p->n_done)
        return false;
    l = &links[s->to][me];
    assert_true(l->n < N_OF(l->messages));
    assert_true(s->n <= CHUNK);
    struct message *w = &l->messages[(l->first + l->n++) % N_OF(l->messages)];
    *w = (struct message){
        .at = vector(p, s->vector) + s->first, .n = s->n, .index = s->index, .turn = p->turn};
    memcpy(w->then, w->at, s->n * sizeof(float));
    p->n_sent++;
    return true;
}

static void take(struct plan_node *p, const struct plan_recv *v, const float *x)
{
    float *out = vector(p, PLAN_OUT) + v->first;
    const float *in = p->in + v->first;

    for (size_t i = 0; i < v->n; i++)
        switch (v->op) {
        case PLAN_ADD:
            out[i] = out[i] + x[i];
            break;
        case PLAN_ADD_TO_IN:
            out[i] = in[i] + x[i];
            break;
        case PLAN_ADD_AND_IN:
            out[i] = (out[i] + x[i]) + in[i];
            break;
        default:
            break;
        }
}

/* Delivers the first chunk of a link, if its sink is free; then performs all operations that became
 * possible. */
static bool deliver_one(int me, int from)
{
    struct plan_node *p = &nodes[me];
    struct link *l = &links[me][from];
    const struct message *w = &l->messages[l->first];
    const struct plan_recv *v;

    if (l->n == 0 || w->turn != p->turn || p->turn == IN_TURN)
        return false;
    assert_true(p->cursor[from] < p->plan->n_recvs);
    v = &p->plan->recvs[p->cursor[from]];
    if (v->op != PLAN_COPY && p->is_staged[from])
        return false;
    assert_int_equal(v->from, from);
    assert_int_equal(v->n, w->n);
    assert_int_equal(w->index, p->received[from]++);
    assert_memory_equal(w->at, w->then, w->n * sizeof(float));
    memcpy(v->op == PLAN_COPY ? vector(p, PLAN_OUT) + v->first : p->staged[from], w->at,
           w->n * sizeof(float));
    p->is_staged[from] |= v->op != PLAN_COPY;
    p->has_come[p->cursor[from]] = true;
    p->cursor[from] = v->next;
    l->first = (l->first + 1) % N_OF(l->messages);
    l->n--;
    for (; p->n_done < p->plan->n_recvs && p->has_come[p->n_done]; p->n_done++) {
        v = &p->plan->recvs[p->n_done];
        take(p, v, p->staged[v->from]);
        if (v->op != PLAN_COPY)
            p->is_staged[v->from] = false;
    }
    return true;
}

/* A node that has finished its plan keeps the result, and starts the next with the same `in` and the other
 * `out`. */
static bool finish_one(const struct scenario *g, int me)
{
    struct plan_node *p = &nodes[me];

    if (p->turn == IN_TURN || p->n_done < p->plan->n_recvs || p->n_sent < p->plan->n_sends)
        return false;
    for (int i = 0; i < g->request.n_nodes; i++)
        assert_true(nodes[i].turn >= p->turn); /* a node that has finished knows that all have started */
    memcpy(p->result[p->turn], vector(p, PLAN_OUT), g->request.n * sizeof(float));
    if (++p->turn < IN_TURN)
        begin_turn(g, me);
    return true;
}

static bool act(const struct scenario *g, struct rng *r)
{
    uint32_t n = (uint32_t)g->request.n_nodes, kinds = n + 2;
    uint32_t start = rng_below(r, n * kinds);

    for (uint32_t k = 0; k < n * kinds; k++) {
        uint32_t what = (start + k * (2 * n * kinds - 1)) % (n * kinds);
        int me = (int)(what / kinds), act_kind = (int)(what % kinds);

        if (act_kind < (int)n    ? deliver_one(me, act_kind)
            : act_kind == (int)n ? send_one(me)
                                 : finish_one(g, me))
            return true;
    }
    return false;
}

static void play(const struct scenario *g)
{
    struct rng r;
    struct err e = {0};

    rng_init(&r, g->seed, 1, 2);
    memset(links, 0, sizeof links);
    for (int i = 0; i < g->request.n_nodes; i++) {
        struct plan_request request = g->request;

        request.me = i;
        memset(&nodes[i], 0, sizeof nodes[i]);
        assert_ok(collective_plan_make(&nodes[i].plans[0], &request, &e));
        request.n = g->has_empty_turns ? 0 : request.n;
        assert_ok(collective_plan_make(&nodes[i].plans[1], &request, &e));
    }
    for (int i = 0; i < g->request.n_nodes; i++)
        begin_turn(g, i);
    while (act(g, &r))
        ;
    for (int i = 0; i < g->request.n_nodes; i++) {
        if (nodes[i].turn < IN_TURN)
            fail_msg("%s, algorithm %d, %d nodes, %zu numbers: node %d hangs after %zu of %zu chunks",
                     collective_kind_name(g->request.kind), (int)g->request.algorithm, g->request.n_nodes,
                     g->request.n, i, nodes[i].n_done, nodes[i].plan->n_recvs);
        collective_plan_clear(&nodes[i].plans[0]);
        collective_plan_clear(&nodes[i].plans[1]);
    }
}

static float expected(const struct scenario *g, int me, int turn, size_t i)
{
    int n_nodes = g->request.n_nodes, k = 0;
    float sum = 0;

    while (i >= collective_slice(g->request.n, k + 1, n_nodes))
        k++;
    switch (g->request.kind) {
    case COLLECTIVE_ALL_GATHER:
        return input(g, k, turn, i);
    case COLLECTIVE_BROADCAST:
        return input(g, g->request.root, turn, i);
    case COLLECTIVE_ALL_TO_ALL:
        return input(g, k, turn,
                     i - collective_slice(g->request.n, k, n_nodes) +
                         collective_slice(g->request.n, me, n_nodes));
    default:
        for (int node = 0; node < n_nodes; node++)
            sum += input(g, node, turn, i);
        return sum;
    }
}

static void assert_right(const struct scenario *g)
{
    for (int me = 0; me < g->request.n_nodes; me++)
        for (int turn = 0; turn < IN_TURN; turn += g->has_empty_turns ? 2 : 1)
            for (size_t i = 0; i < g->request.n; i++) {
                bool is_mine = i >= collective_slice(g->request.n, me, g->request.n_nodes) &&
                               i < collective_slice(g->request.n, me + 1, g->request.n_nodes);

                if (g->request.kind == COLLECTIVE_REDUCE_SCATTER && !is_mine)
                    continue;
                if (nodes[me].result[turn][i] != expected(g, me, turn, i))
                    fail_msg("%s, algorithm %d, %d nodes, %zu numbers: number %zu of node %d is %g",
                             collective_kind_name(g->request.kind), (int)g->request.algorithm,
                             g->request.n_nodes, g->request.n, i, me, (double)nodes[me].result[turn][i]);
            }
}

/* Every awkward length for every number of nodes. */
static void for_lengths(struct scenario g, void (*check)(struct scenario *))
{
    static const size_t primes[] = {7, 13, 31, 61};

    for (g.request.n_nodes = 1; g.request.n_nodes <= N_MAX; g.request.n_nodes++) {
        size_t n_nodes = (size_t)g.request.n_nodes;
        size_t lengths[] = {0, 1, n_nodes - 1, n_nodes, n_nodes + 1, LEN_MAX / n_nodes * n_nodes};

        for (size_t k = 0; k < N_OF(lengths) + N_OF(primes); k++) {
            g.request.n = k < N_OF(lengths) ? lengths[k] : primes[k - N_OF(lengths)];
            if (g.request.kind != COLLECTIVE_ALL_TO_ALL || g.request.n % n_nodes == 0)
                check(&g);
        }
    }
}

static uint64_t orders_of(const struct scenario *g)
{
    return g->n_orders > 0 ? g->n_orders : unit_is_long() ? 12 : 4;
}

static void check_numbers(struct scenario *g)
{
    for (g->seed = 1; g->seed <= orders_of(g); g->seed++) {
        play(g);
        assert_right(g);
    }
}

static void for_algorithms(struct scenario g, void (*check)(struct scenario *))
{
    for (int a = COLLECTIVE_RING; a < COLLECTIVE_ALGORITHMS; a++) {
        g.request.algorithm = (enum collective_algorithm)a;
        for_lengths(g, check);
    }
}

/* A vector of layers of similar length, in buckets of at least two of them. */
static size_t cut(size_t *starts, size_t n)
{
    enum { N_LAYERS = 7 };

    for (size_t k = 0; k < N_LAYERS; k++)
        starts[k] = n * (N_LAYERS - 1 - k) / N_LAYERS;
    return collective_buckets(starts, N_LAYERS, n, 2 * n / N_LAYERS);
}

static void check_buckets(struct scenario *g)
{
    size_t starts[8];

    g->request.buckets = starts;
    g->request.n_buckets = cut(starts, g->request.n);
    check_numbers(g);
}

static const struct scenario whole = {.request = {.chunk = CHUNK}, .whole = true};

TEST(all_reduce_gives_the_sum_with_every_algorithm_in_any_arrival_order)
{
    for_algorithms(whole, check_numbers);
}

TEST(bucketed_all_reduce_gives_the_sum_with_every_algorithm_in_any_arrival_order)
{
    for_algorithms(whole, check_buckets);
}

/* For each node the first one on its machine: all on one machine but the last two, pairs of neighbours, every
 * third on one machine, one machine with a hole in the middle. */
static const int groupings[][N_MAX] = {{0, 0, 0, 0, 0, 0, 0, 7, 8},
                                       {0, 0, 2, 2, 4, 4, 6, 6, 8},
                                       {0, 1, 2, 0, 1, 2, 0, 1, 2},
                                       {0, 1, 1, 3, 1, 1, 1, 1, 0}};

static void for_groupings(struct scenario g, void (*check)(struct scenario *))
{
    g.request.levels = PLAN_TWO_LEVELS;
    g.n_orders = 3;
    for (size_t k = 0; k < N_OF(groupings); k++) {
        g.request.machines = groupings[k];
        for_algorithms(g, check);
    }
}

TEST(all_reduce_on_two_levels_gives_the_sum_in_any_arrival_order)
{
    for_groupings(whole, check_numbers);
    for_groupings(whole, check_buckets);
}

/* The first nodes of the machines run the plan of a job of as many nodes, under their own names. */
static void check_between(const struct plan_request *request, const int *firsts, int n_firsts)
{
    struct collective_plan p = {0}, alone = {0};
    struct plan_request flat = *request;
    struct err e = {0};

    assert_ok(collective_plan_make(&p, request, &e));
    flat.levels = PLAN_FLAT;
    flat.machines = NULL;
    flat.n_nodes = n_firsts;
    for (flat.me = 0; flat.me < n_firsts && firsts[flat.me] != request->me;)
        flat.me++;
    if (flat.me == n_firsts) {
        assert_int_equal(p.n_sends + p.n_recvs + p.n_copies, 0);
        collective_plan_clear(&p);
        return;
    }
    assert_ok(collective_plan_make(&alone, &flat, &e));
    assert_int_equal(p.n_sends, alone.n_sends);
    assert_int_equal(p.n_recvs, alone.n_recvs);
    for (size_t i = 0; i < p.n_sends; i++) {
        assert_int_equal(p.sends[i].to, firsts[alone.sends[i].to]);
        assert_int_equal(p.sends[i].first, alone.sends[i].first);
        assert_int_equal(p.sends[i].vector, alone.sends[i].vector);
        assert_int_equal(p.sends[i].after, alone.sends[i].after);
    }
    for (size_t i = 0; i < p.n_recvs; i++) {
        assert_int_equal(p.recvs[i].from, firsts[alone.recvs[i].from]);
        assert_int_equal(p.recvs[i].op, alone.recvs[i].op);
        assert_int_equal(p.recvs[i].is_sum, alone.recvs[i].is_sum);
    }
    collective_plan_clear(&p);
    collective_plan_clear(&alone);
}

TEST(between_machines_only_the_first_node_of_each_takes_part)
{
    struct plan_request request = {.levels = PLAN_BETWEEN, .n_nodes = N_MAX, .n = 61, .chunk = CHUNK};

    for (size_t g = 0; g < N_OF(groupings); g++) {
        int firsts[N_MAX], n_firsts = 0;

        request.machines = groupings[g];
        for (int k = 0; k < N_MAX; k++)
            if (groupings[g][k] == k)
                firsts[n_firsts++] = k;
        assert_int_equal(collective_machines(request.machines, N_MAX), n_firsts);
        for (request.me = 0; request.me < N_MAX; request.me++) {
            request.algorithm = COLLECTIVE_RING;
            check_between(&request, firsts, n_firsts);
            request.algorithm = COLLECTIVE_CIRCULANT;
            check_between(&request, firsts, n_firsts);
        }
    }
}

TEST(chunks_of_one_vector_are_sent_from_end_to_front_bucket_by_bucket)
{
    struct collective_plan p = {0};
    struct err e = {0};
    size_t starts[8];
    struct plan_request request = {.n_nodes = 4, .n = 1000, .item_bytes = 4, .chunk = 16, .buckets = starts};

    request.n_buckets = cut(starts, request.n);
    assert_true(request.n_buckets > 2);
    for (request.me = 0; request.me < request.n_nodes; request.me++)
        for (int a = COLLECTIVE_RING; a < COLLECTIVE_ALGORITHMS; a++) {
            size_t bucket = 0, last = request.n;

            request.algorithm = (enum collective_algorithm)a;
            assert_ok(collective_plan_make(&p, &request, &e));
            for (size_t i = 0; i < p.n_sends; i++) {
                const struct plan_send *s = &p.sends[i];

                while (a != COLLECTIVE_DIRECT && s->first < starts[bucket])
                    bucket++;
                if (a != COLLECTIVE_DIRECT)
                    assert_true(bucket == 0 || s->first + s->n <= starts[bucket - 1]);
                if (s->vector == PLAN_OUT)
                    continue;
                assert_true(s->first <= last);
                last = s->first;
            }
            assert_true(a == COLLECTIVE_DIRECT || bucket + 1 == request.n_buckets);
        }
    collective_plan_clear(&p);
}

TEST(layers_are_merged_into_buckets_of_a_minimum_length)
{
    size_t lenet[] = {1199882, 1198592, 1180032, 1179904, 18816, 18752, 320, 288, 0};
    size_t small[] = {60, 50, 0};
    size_t with_statistics[] = {100, 97, 90, 50, 40, 98, 96, 10, 0};

    assert_int_equal(collective_buckets(lenet + 1, 8, 1199882, 1 << 18), 2);
    assert_int_equal(lenet[1], 18816);
    assert_int_equal(lenet[2], 0);
    assert_int_equal(collective_buckets(small, 3, 70, 1 << 18), 1);
    assert_int_equal(small[0], 0);
    assert_int_equal(collective_buckets((size_t[]){60, 50, 0}, 3, 70, 0), 1);
    assert_int_equal(collective_buckets(with_statistics, 9, 104, 50), 2);
    assert_int_equal(with_statistics[0], 50);
    assert_int_equal(with_statistics[1], 0);
    assert_int_equal(collective_buckets(small, 0, 0, 50), 0);
}

TEST(the_other_collectives_give_their_results_in_any_arrival_order)
{
    struct scenario g = whole;

    for (int k = COLLECTIVE_REDUCE_SCATTER; k < COLLECTIVE_KINDS; k++) {
        g.request.kind = (enum collective_kind)k;
        for_lengths(g, check_numbers);
    }
}

TEST(an_empty_collective_frees_the_sent_data_of_the_previous_one)
{
    struct scenario g = whole;

    g.has_empty_turns = true;
    for_algorithms(g, check_numbers);
    for_groupings(g, check_numbers);
    for (int k = COLLECTIVE_REDUCE_SCATTER; k < COLLECTIVE_KINDS; k++) {
        g.request.kind = (enum collective_kind)k;
        for_lengths(g, check_numbers);
    }
}

TEST(a_broadcast_can_have_any_root)
{
    struct scenario g = whole;

    g.request.kind = COLLECTIVE_BROADCAST;
    g.request.n = 31;
    for (g.request.n_nodes = 1; g.request.n_nodes <= N_MAX; g.request.n_nodes++)
        for (g.request.root = 0; g.request.root < g.request.n_nodes; g.request.root++)
            check_numbers(&g);
}

static void check_bits(struct scenario *g)
{
    static float first[IN_TURN][LEN_MAX];

    for (g->seed = 1; g->seed <= orders_of(g); g->seed++) {
        play(g);
        for (int turn = 0; turn < IN_TURN; turn++) {
            if (g->seed == 1)
                memcpy(first[turn], nodes[0].result[turn], sizeof first[turn]);
            for (int i = 0; i < g->request.n_nodes; i++)
                assert_memory_equal(first[turn], nodes[i].result[turn], g->request.n * sizeof(float));
        }
    }
}

TEST(the_sum_has_the_same_bits_on_all_nodes_in_any_arrival_order)
{
    struct scenario g = whole;

    g.whole = false;
    for_algorithms(g, check_bits);
    for_groupings(g, check_bits);
}

static size_t longest_way(enum collective_algorithm a, int n_nodes, size_t n)
{
    struct collective_plan p = {0};
    struct err e = {0};
    size_t most = 0;

    for (int me = 0; me < n_nodes; me++) {
        size_t sent = 0;

        assert_ok(collective_plan_make(&p,
                                       &(struct plan_request){.kind = COLLECTIVE_ALL_REDUCE,
                                                              .algorithm = a,
                                                              .n_nodes = n_nodes,
                                                              .me = me,
                                                              .n = n,
                                                              .chunk = 1024},
                                       &e));
        for (size_t i = 0; i < p.n_sends; i++)
            sent += p.sends[i].n;
        most = sent > most ? sent : most;
    }
    collective_plan_clear(&p);
    return most;
}

TEST(two_nodes_get_the_same_bits_however_the_vector_is_split)
{
    struct scenario g = {.request = {.chunk = CHUNK, .n_nodes = 2, .n = 61}, .seed = 1};
    size_t starts[8], n_buckets = cut(starts, g.request.n);
    float uncut[IN_TURN][LEN_MAX];

    g.request.buckets = starts;
    for (int a = COLLECTIVE_RING; a < COLLECTIVE_ALGORITHMS; a++) {
        g.request.algorithm = (enum collective_algorithm)a;
        g.request.n_buckets = 0;
        play(&g);
        memcpy(uncut, nodes[0].result, sizeof uncut);
        g.request.n_buckets = n_buckets;
        play(&g);
        assert_memory_equal(uncut, nodes[0].result, sizeof uncut);
    }
}

TEST(each_algorithm_sends_as_many_numbers_as_its_paper_states)
{
    enum { N = 8 * 2520 };

    assert_int_equal(longest_way(COLLECTIVE_RING, 5, N), 2 * N / 5 * 4);
    assert_int_equal(longest_way(COLLECTIVE_RING, 8, N), 2 * N / 8 * 7);
    assert_int_equal(longest_way(COLLECTIVE_HALVING_DOUBLING, 8, N), 2 * N / 8 * 7);
    assert_int_equal(longest_way(COLLECTIVE_HALVING_DOUBLING, 5, N), 2 * N / 4 * 3 + N);
    assert_int_equal(longest_way(COLLECTIVE_CIRCULANT, 5, N), 2 * N / 5 * 4);
    assert_int_equal(longest_way(COLLECTIVE_CIRCULANT, 8, N), 2 * N / 8 * 7);
    assert_int_equal(longest_way(COLLECTIVE_TREE, 8, N), 3 * N); /* the root: log2 8 times down */
    assert_int_equal(longest_way(COLLECTIVE_DIRECT, 5, N), 4 * N);
}

TEST(the_chosen_algorithm_always_exists)
{
    for (int n_nodes = 1; n_nodes < 70; n_nodes++)
        for (size_t n = 0; n < (size_t)1 << 28; n = 3 * n + 1) {
            enum collective_algorithm a = collective_choose(n_nodes, n, n % 2 == 0);

            assert_true(a > COLLECTIVE_AUTO && a < COLLECTIVE_ALGORITHMS);
        }
}

TEST(short_vectors_take_one_step_between_machines_and_few_messages_on_one_machine)
{
    for (int n_nodes = 3; n_nodes <= 4; n_nodes++) {
        assert_int_equal(collective_choose(n_nodes, 4 << 10, false), COLLECTIVE_DIRECT);
        assert_int_equal(collective_choose(n_nodes, 4 << 10, true), COLLECTIVE_TREE);
    }
    assert_int_equal(collective_choose(2, 4 << 10, true),
                     COLLECTIVE_DIRECT); /* no algorithm sends fewer messages */
}

TEST(between_machines_vectors_are_sent_whole_while_that_takes_less_time)
{
    assert_int_equal(collective_choose(3, 16 << 10, false), COLLECTIVE_DIRECT);
    assert_int_equal(collective_choose(3, 64 << 10, false), COLLECTIVE_CIRCULANT);
    assert_int_equal(collective_choose(8, 4 << 10, false), COLLECTIVE_DIRECT);
    assert_int_equal(collective_choose(8, 32 << 10, false), COLLECTIVE_CIRCULANT);
    assert_int_equal(collective_choose(1000, 4 << 10, false), COLLECTIVE_CIRCULANT);
}

TEST(powers_of_two_halve_vectors_longer_than_a_segment)
{
    const size_t in_a_segment = 63 << 10, in_two = 64 << 10;

    assert_int_equal(collective_choose(8, in_a_segment, true), COLLECTIVE_TREE);
    assert_int_equal(collective_choose(8, in_two, true), COLLECTIVE_HALVING_DOUBLING);
    assert_int_equal(collective_choose(6, in_two, true), COLLECTIVE_TREE);
    assert_int_equal(collective_choose(6, in_two + 1, true), COLLECTIVE_RING);
}

TEST(a_plan_rebuilt_in_the_same_memory_is_identical)
{
    struct collective_plan a = {0}, b = {0};
    struct err e = {0};
    struct plan_request request = {
        .algorithm = COLLECTIVE_RING, .n_nodes = 7, .me = 3, .n = 1000, .chunk = 16};
    struct plan_request other = {.kind = COLLECTIVE_BROADCAST, .n_nodes = 9, .me = 8, .n = 5, .chunk = 2};

    assert_ok(collective_plan_make(&a, &request, &e));
    assert_ok(collective_plan_make(&b, &other, &e));
    assert_ok(collective_plan_make(&b, &request, &e));
    assert_int_equal(a.n_sends, b.n_sends);
    assert_int_equal(a.n_recvs, b.n_recvs);
    for (size_t i = 0; i < a.n_sends; i++)
        assert_true(a.sends[i].to == b.sends[i].to && a.sends[i].first == b.sends[i].first &&
                    a.sends[i].after == b.sends[i].after && a.sends[i].index == b.sends[i].index);
    collective_plan_clear(&a);
    collective_plan_clear(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_reduce_gives_the_sum_with_every_algorithm_in_any_arrival_order),
        cmocka_unit_test(bucketed_all_reduce_gives_the_sum_with_every_algorithm_in_any_arrival_order),
        cmocka_unit_test(all_reduce_on_two_levels_gives_the_sum_in_any_arrival_order),
        cmocka_unit_test(between_machines_only_the_first_node_of_each_takes_part),
        cmocka_unit_test(chunks_of_one_vector_are_sent_from_end_to_front_bucket_by_bucket),
        cmocka_unit_test(layers_are_merged_into_buckets_of_a_minimum_length),
        cmocka_unit_test(the_other_collectives_give_their_results_in_any_arrival_order),
        cmocka_unit_test(an_empty_collective_frees_the_sent_data_of_the_previous_one),
        cmocka_unit_test(a_broadcast_can_have_any_root),
        cmocka_unit_test(the_sum_has_the_same_bits_on_all_nodes_in_any_arrival_order),
        cmocka_unit_test(two_nodes_get_the_same_bits_however_the_vector_is_split),
        cmocka_unit_test(each_algorithm_sends_as_many_numbers_as_its_paper_states),
        cmocka_unit_test(the_chosen_algorithm_always_exists),
        cmocka_unit_test(short_vectors_take_one_step_between_machines_and_few_messages_on_one_machine),
        cmocka_unit_test(between_machines_vectors_are_sent_whole_while_that_takes_less_time),
        cmocka_unit_test(powers_of_two_halve_vectors_longer_than_a_segment),
        cmocka_unit_test(a_plan_rebuilt_in_the_same_memory_is_identical),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
