/* Workers that continue without lost ones, in synchronous rounds without servers: the remaining ones
 * succeed and agree, in whatever order messages arrive, steps are taken and workers die, and whichever
 * messages of a dead worker still arrive. */
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <unistd.h>

#include "runner/exchange/exchange.h"
#include "runner/exchange/exchange_step.h"
#include "shared/plugin/codec_load.h"
#include "sim/mesh_sim.h"
#include "tests/lib/cluster.h"

enum { WORKERS_MAX = 5, N_PARAMS = 3, DEPTH_MAX = 400, MESSAGES_MAX = 64 };

/* Choices of the next action at a node: a message of another node arrives; a dead node is dropped, with its
 * messages in flight; it computes; it dies. */
enum { DROP = WORKERS_MAX, STEP, DIE, SOURCES };
typedef uint64_t choices;
_Static_assert(WORKERS_MAX *SOURCES <= 64, "a set of choices fits 64 bits");

static struct job {
    const char *codec;
    int n_workers, n_deaths, min_nodes;
    int n_parts; /* pairs that lose each other though both live: at least min_nodes succeed then */
    uint64_t n_steps, local_steps;
    int fails;       /* the one that must fail; 0: none, as worker 0 never does */
    bool is_mangled; /* worker 1's first message is truncated on its way to worker 2 */
    bool may_differ; /* the rule permits different weights at the end */
} job;

static struct codec_library lib;
static struct blocks blocks;

struct lossy_worker {
    enum { BEGINS, IN_GRAD, IN_STEP, DONE, FAILED, DEAD } phase;
    uint64_t step;
    float params[N_PARAMS], grads[N_PARAMS];
    struct exchange *x;
    struct mesh *mesh;
    struct err e;
};

struct queue {
    struct sim_message *messages[MESSAGES_MAX];
    int first, n;
};

static struct world {
    struct mesh_sim *net;
    struct lossy_worker workers[WORKERS_MAX];
    struct queue under_way[WORKERS_MAX][WORKERS_MAX]; /* by receiver and sender */
    int n_deaths, n_parts;
} world;

static char failure[512]; /* the fault found in the order just tried; "": none */

static int carry(void *owner, struct sim_message *m, struct err *e)
{
    struct queue *q = &world.under_way[m->to][m->from];

    (void)owner, (void)e;
    if (job.is_mangled && m->from == 1 && m->to == 2 && m->head.kind == FRAME_CONTRIBUTION &&
        m->head.round == 0) {
        struct mesh_buf *whole = m->buf;

        m->buf = mesh_buf_take(world.workers[0].mesh); /* all share one pool */
        m->buf->len = whole->len - 1;
        memcpy(m->buf->bytes, whole->bytes, m->buf->len);
        mesh_buf_put(whole);
    }
    assert_true(q->first + q->n < MESSAGES_MAX);
    q->messages[q->first + q->n++] = m;
    return 0;
}

static void world_open(void)
{
    struct err e = {0};

    memset(&world, 0, sizeof world);
    for (int i = 0; i < job.n_workers; i++) {
        struct lossy_worker *w = &world.workers[i];
        struct exchange_config cfg = {.plugin = lib.plugin,
                                      .node = i,
                                      .n_workers = job.n_workers,
                                      .blocks = &blocks,
                                      .is_sync = true,
                                      .goes_on = true,
                                      .min_nodes = job.min_nodes,
                                      .local_steps = job.local_steps,
                                      .n_steps = job.n_steps,
                                      .n_params = N_PARAMS,
                                      .params = w->params,
                                      .grads = w->grads};

        assert_ok(exchange_new(&w->x, &cfg, &e));
    }
    assert_ok(mesh_sim_new(&world.net,
                           &(struct mesh_sim_config){.n_workers = job.n_workers,
                                                     .limit = exchange_limit(world.workers[0].x),
                                                     .carry = carry},
                           &e));
    for (int i = 0; i < job.n_workers; i++) {
        world.workers[i].mesh = mesh_sim_node(world.net, i);
        exchange_attach(world.workers[i].x, world.workers[i].mesh, NULL);
    }
}

static void world_close(void)
{
    for (int i = 0; i < job.n_workers; i++)
        exchange_free(world.workers[i].x);
    mesh_sim_free(world.net);
}

static void leave(struct lossy_worker *w, bool well)
{
    int slot = (int)(w - world.workers);

    w->phase = well ? DONE : FAILED;
    assert_int_equal((well ? mesh_sim_leave : mesh_sim_kill)(world.net, slot, &w->e), 0);
}

/* Continues according to the codec's return value. The phases are driven here, not by worker_next
 * (runner/core/worker.h), because the search tries a million orders, each from its first event, and only the
 * calls of the exchange matter to it. */
static void go_on(struct lossy_worker *w, int rc)
{
    while (rc == CODEC_GO && w->phase != BEGINS) {
        if (w->phase == IN_STEP) {
            w->phase = BEGINS;
            if (w->step == job.n_steps)
                leave(w, true);
            return;
        }
        for (size_t i = 0; i < N_PARAMS; i++)
            w->params[i] -= 0.125f * w->grads[i];
        w->step++;
        w->phase = IN_STEP;
        rc = exchange_on_step(w->x, &w->e);
    }
    if (rc < 0)
        leave(w, false);
}

static void step(struct lossy_worker *w)
{
    int node = (int)(w - world.workers), rc = 0;

    for (size_t i = 0; i < N_PARAMS; i++)
        w->grads[i] = cluster_gradient(w->step, node, i);
    w->phase = IN_GRAD;
    if (exchange_wants_blocks(w->x))
        rc = exchange_on_block(w->x, node, &w->e);
    go_on(w, rc < 0 ? rc : exchange_on_grad(w->x, 1, &w->e));
}

static void receive(struct lossy_worker *w)
{
    struct mesh_event ev;
    int rc;

    assert_int_equal(mesh_poll(w->mesh, &ev, 0, &w->e), 0);
    if (ev.kind == MESH_NOTHING) /* its sender is lost to this node */
        return;
    rc = exchange_on_event(w->x, &ev, &w->e);
    if (rc < 0)
        leave(w, false);
    else if (rc == CODEC_GO)
        go_on(w, w->phase == BEGINS ? CODEC_WAIT : rc);
}

/* The first message in flight there arrives. */
static void deliver(struct lossy_worker *w, struct queue *q)
{
    q->n--;
    mesh_sim_deliver(world.net, q->messages[q->first++]);
    receive(w);
}

static bool is_over(const struct lossy_worker *w)
{
    return w->phase >= DONE;
}

/* The dead sender of messages to node `to` that will not arrive; -1: none. */
static int dead_sender(int to)
{
    for (int from = 0; from < job.n_workers; from++)
        if (world.workers[from].phase == DEAD && world.under_way[to][from].n > 1)
            return from;
    return -1;
}

static choices bit_of(int node, int source)
{
    return (choices)1 << (node * SOURCES + source);
}

static choices open_choices(void)
{
    choices open = 0;

    for (int i = 0; i < job.n_workers; i++) {
        if (is_over(&world.workers[i]))
            continue;
        for (int from = 0; from < job.n_workers; from++)
            open |= world.under_way[i][from].n > 0 ? bit_of(i, from) : 0;
        open |= mesh_sim_has_event(world.net, i) ? bit_of(i, i) : 0; /* it has noticed a loss by itself */
        open |= dead_sender(i) >= 0 ? bit_of(i, DROP) : 0;
        open |= world.workers[i].phase == BEGINS ? bit_of(i, STEP) : 0;
        open |= world.n_deaths < job.n_deaths ? bit_of(i, DIE) : 0;
    }
    return open;
}

static void take(int choice)
{
    int node = choice / SOURCES, source = choice % SOURCES;
    struct lossy_worker *w = &world.workers[node];
    struct queue *q = &world.under_way[node][source == DROP ? dead_sender(node) : source % WORKERS_MAX];

    if (source == node) {
        receive(w);
    } else if (source < DROP) {
        deliver(w, q);
    } else if (source == DROP) {
        q->first += q->n - 1;
        q->n = 1;
        deliver(w, q);
    } else if (source == STEP) {
        step(w);
    } else {
        world.n_deaths++;
        w->phase = DEAD;
        assert_int_equal(mesh_sim_kill(world.net, node, &w->e), 0);
    }
}

/* Checks the final state, when no choice is left. */
static void check_end(const char *order)
{
    const struct lossy_worker *first = NULL;
    int n_done = 0;

    failure[0] = '\0';
    for (int i = 0; i < job.n_workers && !failure[0]; i++) {
        const struct lossy_worker *w = &world.workers[i];

        n_done += w->phase == DONE;
        if (w->phase < DONE || (w->phase == FAILED && i != job.fails && world.n_parts == 0))
            snprintf(failure, sizeof failure, "order %.200s: worker %d %s: %.200s", order, i,
                     w->phase == FAILED ? "fails" : "hangs", w->e.text);
        if (w->phase != DONE)
            continue;
        if (job.fails && i == job.fails)
            snprintf(failure, sizeof failure, "order %.200s: worker %d ends well", order, i);
        if (first && !job.may_differ && memcmp(first->params, w->params, sizeof w->params) != 0)
            snprintf(failure, sizeof failure, "order %.200s: worker %d ends with other weights", order, i);
        first = w;
    }
    if (!failure[0] && n_done < job.min_nodes)
        snprintf(failure, sizeof failure, "order %.200s: %d workers end well", order, n_done);
}

static void job_open(void)
{
    struct err e = {0};
    char path[512];

    snprintf(path, sizeof path, "%s/codecs/%s.so", test_build_dir(), job.codec);
    assert_ok(codec_library_open(&lib, path, &e));
    assert_ok(blocks_init(&blocks, BLOCKS_IID, job.n_workers, 1, &e));
}

static void job_close(void)
{
    blocks_clear(&blocks);
    codec_library_close(&lib);
}

/* All orders, each once except for the order of choices at different nodes, which are independent (sleep
 * sets, as in sim/explore.h). */
static struct {
    struct branch {
        choices open, asleep, done;
        int chosen;
    } path[DEPTH_MAX];
    int n_path;
    uint64_t n_orders;
    char order[3 * DEPTH_MAX + 1];
} search;

static int first_of(choices c)
{
    return __builtin_ctzll(c);
}

static bool choose(choices open)
{
    const struct branch *last = search.n_path > 0 ? &search.path[search.n_path - 1] : NULL;
    choices own = last ? ((((choices)1 << SOURCES) - 1) << (last->chosen / SOURCES * SOURCES)) : 0;
    choices asleep = last ? (last->asleep | last->done) & ~own : 0;

    if (!(open & ~asleep))
        return false;
    assert_true(search.n_path < DEPTH_MAX);
    search.path[search.n_path++] = (struct branch){
        .open = open, .asleep = asleep & open, .chosen = first_of(open & ~asleep)};
    return true;
}

static void write_order(void)
{
    char *out = search.order;

    for (int i = 0; i < search.n_path; i++) {
        *out++ = (char)('0' + search.path[i].chosen / SOURCES);
        *out++ = "01234gsd"[search.path[i].chosen % SOURCES];
        *out++ = '.';
    }
    *out = 0;
}

static void run_one_order(void)
{
    int n_given = search.n_path;
    choices open;

    world_open();
    for (int depth = 0; (open = open_choices()) != 0; depth++) {
        if (depth >= n_given && !choose(open)) {
            world_close();
            return;
        }
        take(search.path[depth].chosen);
    }
    write_order();
    check_end(search.order);
    search.n_orders++;
    world_close();
}

static bool go_back(void)
{
    for (; search.n_path > 0; search.n_path--) {
        struct branch *b = &search.path[search.n_path - 1];
        choices left;

        b->done |= (choices)1 << b->chosen;
        left = b->open & ~b->asleep & ~b->done;
        if (left) {
            b->chosen = first_of(left);
            return true;
        }
    }
    return false;
}

/* Nodes log their losses on stderr, a million times. */
static int silence_stderr(void)
{
    int was = dup(STDERR_FILENO), nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);

    assert_true(was >= 0 && nowhere >= 0 && dup2(nowhere, STDERR_FILENO) >= 0);
    close(nowhere);
    return was;
}

static void restore_stderr(int was)
{
    assert_true(dup2(was, STDERR_FILENO) >= 0);
    close(was);
    if (failure[0])
        fail_msg("%s, %d workers, %llu steps, %s", job.codec, job.n_workers, (unsigned long long)job.n_steps,
                 failure);
}

static uint64_t try_all_orders(struct job j)
{
    int was;

    job = j;
    job_open();
    search.n_path = 0;
    search.n_orders = 0;
    was = silence_stderr();
    do
        run_one_order();
    while (!failure[0] && go_back());
    restore_stderr(was);
    job_close();
    return search.n_orders;
}

/* Cuts the connection between two live nodes. */
static void cut_a_pair(struct rng *rng)
{
    int a = (int)rng_below(rng, (uint32_t)job.n_workers), b = (int)rng_below(rng, (uint32_t)job.n_workers);
    struct err e;

    if (a == b || is_over(&world.workers[a]) || is_over(&world.workers[b]))
        return;
    world.n_parts++;
    assert_int_equal(mesh_sim_part(world.net, a, b, &e), 0);
}

/* One random order. Rare choices, a death and the loss of messages, stay rare. */
static void run_random_order(uint64_t seed)
{
    char order[48];
    struct rng rng;
    choices open;

    snprintf(order, sizeof order, "random order, seed %llu", (unsigned long long)seed);
    rng_init(&rng, seed, 1, 1);
    world_open();
    while ((open = open_choices()) != 0) {
        choices rare = 0;

        for (int i = 0; i < job.n_workers; i++)
            rare |= bit_of(i, DIE) | bit_of(i, DROP);
        if (open & ~rare && rng_below(&rng, 8) > 0)
            open &= ~rare;
        for (uint32_t k = rng_below(&rng, (uint32_t)__builtin_popcountll(open)); k > 0; k--)
            open &= open - 1;
        take(first_of(open));
        if (world.n_parts < job.n_parts && rng_below(&rng, 16) == 0)
            cut_a_pair(&rng);
    }
    check_end(order);
    world_close();
}

static void try_random_orders(struct job j, uint64_t n)
{
    int was;

    job = j;
    job_open();
    was = silence_stderr();
    failure[0] = '\0';
    for (uint64_t seed = 1; seed <= n && !failure[0]; seed++)
        run_random_order(seed);
    restore_stderr(was);
    job_close();
}

TEST(one_of_three_dies_at_any_point_of_any_order_and_the_others_end_equal)
{
    static const char *const codecs[] = {"plain", "fedavg", "fedpaq"};

    for (size_t k = 0; k < N_OF(codecs); k++) {
        struct job j = {.codec = codecs[k],
                        .n_workers = 3,
                        .n_deaths = 1,
                        .min_nodes = 2,
                        .n_steps = 1,
                        .local_steps = 1};
        uint64_t n;

        if (!unit_is_long()) { /* all orders of two workers are tried below */
            try_random_orders(j, 5000);
            continue;
        }
        n = try_all_orders(j);
        print_message("# %s: %llu orders\n", codecs[k], (unsigned long long)n);
        assert_true(n > 100000);
    }
}

TEST(one_of_two_dies_at_any_point_of_any_order_of_three_steps)
{
    uint64_t n = try_all_orders((struct job){
        .codec = "plain", .n_workers = 2, .n_deaths = 1, .min_nodes = 1, .n_steps = 3, .local_steps = 1});

    print_message("# %llu orders\n", (unsigned long long)n);
    assert_true(n > 100);
}

TEST(of_many_workers_some_die_at_once_or_in_sequence)
{
    static const struct job jobs[] = {
        {.codec = "plain", .n_workers = 3, .n_deaths = 2, .min_nodes = 1, .n_steps = 4, .local_steps = 1},
        {.codec = "plain", .n_workers = 5, .n_deaths = 3, .min_nodes = 2, .n_steps = 4, .local_steps = 1},
        {.codec = "fedavg", .n_workers = 5, .n_deaths = 3, .min_nodes = 2, .n_steps = 5, .local_steps = 2},
        {.codec = "easgd",
         .n_workers = 4,
         .n_deaths = 2,
         .min_nodes = 2,
         .n_steps = 4,
         .local_steps = 1,
         .may_differ = true},
    };

    for (size_t k = 0; k < N_OF(jobs); k++)
        try_random_orders(jobs[k], unit_is_long() ? 10000 : 1000);
}

TEST(of_two_workers_that_cannot_reach_each_other_at_least_one_ends_and_the_others_end_equal)
{
    static const struct job jobs[] = {
        {.codec = "plain", .n_workers = 3, .n_parts = 1, .min_nodes = 2, .n_steps = 4, .local_steps = 1},
        {.codec = "fedavg", .n_workers = 4, .n_parts = 1, .min_nodes = 2, .n_steps = 4, .local_steps = 1},
        {.codec = "plain",
         .n_workers = 5,
         .n_parts = 1,
         .n_deaths = 1,
         .min_nodes = 2,
         .n_steps = 4,
         .local_steps = 1},
    };

    for (size_t k = 0; k < N_OF(jobs); k++)
        try_random_orders(jobs[k], unit_is_long() ? 10000 : 1000);
}

/* Sends a message of worker 1 to worker 0, which has sent its first contribution and waits. */
static int send_to_waiting_worker(struct mesh_head head, const void *bytes, size_t len, struct err *e)
{
    struct lossy_worker *w = &world.workers[0];
    struct mesh_event ev = {.kind = MESH_MESSAGE, .head = head, .buf = mesh_buf_take(w->mesh)};

    memcpy(ev.buf->bytes, bytes, len);
    ev.buf->len = len;
    return exchange_on_event(w->x, &ev, e);
}

TEST(a_sender_of_an_impossible_statement_is_lost)
{
    static const struct {
        struct mesh_head head;
        unsigned char bytes[3];
        size_t len;
    } bad[] = {
        {{.kind = FRAME_LOSS, .peer = 1}, {4, 0}, 1},     /* short */
        {{.kind = FRAME_LOSS, .peer = 1}, {4, 0, 0}, 3},  /* long */
        {{.kind = FRAME_LOSS, .peer = 1}, {0, 0}, 2},     /* no worker is lost */
        {{.kind = FRAME_LOSS, .peer = 1}, {2, 0}, 2},     /* its sender is lost */
        {{.kind = FRAME_LOSS, .peer = 1}, {4 | 8, 0}, 2}, /* of three workers a fourth is lost */
        {{.kind = FRAME_LOSS, .peer = 1}, {4, 8}, 2},     /* a lost worker whose contribution arrived */
        {{.kind = FRAME_LOSS, .peer = 1, .round = 2}, {4, 0}, 2},      /* too early */
        {{.kind = FRAME_CONTRIBUTION, .peer = 1, .index = 2}, {0}, 1}, /* of a worker that is not lost */
        {{.kind = FRAME_CONTRIBUTION, .peer = 1, .index = 1, .round = 2}, {0}, 1},
        {{.kind = FRAME_EVENT, .peer = 1}, {0}, 1},
        {{.kind = FRAME_CONTRIBUTION, .peer = 1, .index = 1, .channel = 1}, {0}, 1},
    };
    struct err e = {0};

    job = (struct job){
        .codec = "plain", .n_workers = 3, .min_nodes = 2, .n_steps = 2, .local_steps = 1, .fails = 1};
    job_open();
    for (size_t k = 0; k < N_OF(bad); k++) {
        world_open();
        step(&world.workers[0]);
        assert_int_equal(send_to_waiting_worker(bad[k].head, bad[k].bytes, bad[k].len, &e), CODEC_WAIT);
        for (choices open; (open = open_choices()) != 0;)
            take(first_of(open));
        check_end("as it comes");
        if (failure[0])
            fail_msg("case %zu: %s", k, failure);
        world_close();
    }
    job_close();
}

TEST(a_worker_lost_to_another_ends_and_names_it)
{
    struct err e = {0};

    job = (struct job){.codec = "plain", .n_workers = 3, .min_nodes = 1, .n_steps = 2, .local_steps = 1};
    job_open();
    world_open();
    step(&world.workers[0]);
    assert_int_equal(send_to_waiting_worker((struct mesh_head){.kind = FRAME_LOSS, .peer = 1}, "\1", 2, &e),
                     ERR_LOST);
    assert_error_has("node 1 continues without this node");
    world_close();
    job_close();
}

TEST(too_few_remaining_workers_end)
{
    struct err e = {0};

    job = (struct job){.codec = "plain", .n_workers = 3, .min_nodes = 3, .n_steps = 2, .local_steps = 1};
    job_open();
    world_open();
    step(&world.workers[0]);
    assert_int_equal(send_to_waiting_worker((struct mesh_head){.kind = FRAME_LOSS, .peer = 1}, "\4", 2, &e),
                     ERR_LOST);
    assert_error_has("node 2 is lost: node 1 reported it; 2 workers are left, at least 3 are needed");
    world_close();
    job_close();
}

TEST(the_sender_of_a_malformed_contribution_to_all_is_lost_to_all)
{
    try_random_orders((struct job){.codec = "../tests/codecs/short_message",
                                   .n_workers = 4,
                                   .min_nodes = 3,
                                   .n_steps = 4,
                                   .local_steps = 1,
                                   .fails = 1},
                      1000);
}

TEST(a_malformed_contribution_to_some_loses_its_sender_and_counts_only_in_closed_rounds)
{
    uint64_t n = try_all_orders((struct job){.codec = "plain",
                                             .n_workers = 3,
                                             .min_nodes = 2,
                                             .n_steps = 1,
                                             .local_steps = 1,
                                             .fails = 1,
                                             .is_mangled = true});

    print_message("# %llu orders\n", (unsigned long long)n);
    assert_true(n > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_of_three_dies_at_any_point_of_any_order_and_the_others_end_equal),
        cmocka_unit_test(one_of_two_dies_at_any_point_of_any_order_of_three_steps),
        cmocka_unit_test(of_many_workers_some_die_at_once_or_in_sequence),
        cmocka_unit_test(
            of_two_workers_that_cannot_reach_each_other_at_least_one_ends_and_the_others_end_equal),
        cmocka_unit_test(a_sender_of_an_impossible_statement_is_lost),
        cmocka_unit_test(a_worker_lost_to_another_ends_and_names_it),
        cmocka_unit_test(too_few_remaining_workers_end),
        cmocka_unit_test(the_sender_of_a_malformed_contribution_to_all_is_lost_to_all),
        cmocka_unit_test(a_malformed_contribution_to_some_loses_its_sender_and_counts_only_in_closed_rounds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
