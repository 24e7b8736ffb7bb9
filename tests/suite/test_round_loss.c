/* Workers that go on without lost ones, in synchronous rounds without servers: whoever is left ends well and
 * equal, in whatever order messages come, steps are taken and workers die, and whatever still arrives of what
 * a dead one has sent. */
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <unistd.h>

#include "agent/runner/exchange/exchange.h"
#include "shared/codec_load.h"
#include "sim/mesh_sim.h"
#include "tests/lib/cluster.h"

enum { WORKERS_MAX = 5, N_PARAMS = 3, DEPTH_MAX = 400, MESSAGES_MAX = 64 };

/* What may happen next at a node: a message of one of the others comes; a dead one is given up, and with it
 * what it has under way; it computes; it dies. */
enum { GIVE_UP = WORKERS_MAX, STEP, DIE, SOURCES };
typedef uint64_t choices;
_Static_assert(WORKERS_MAX *SOURCES <= 64, "a set of choices fits 64 bits");

static struct job {
    const char *codec;
    int n_workers, n_deaths, min_nodes;
    int n_parts; /* pairs that lose each other though both live: at least min_nodes end well then */
    uint64_t n_steps, local_steps;
    int fails;       /* the one that must; 0: none, as worker 0 never does */
    bool is_mangled; /* what worker 1 says first is cut short on its way to worker 2 */
    bool may_differ; /* weights at the end, by the rule */
} job;

static struct codec_library lib;
static struct blocks blocks;

struct worker {
    enum { BEGINS, IN_GRAD, IN_STEP, DONE, FAILED, DEAD } phase;
    uint64_t step;
    float params[N_PARAMS], grads[N_PARAMS];
    struct exchange *x;
    struct mesh *mesh;
    struct err e;
};

struct queue {
    struct sim_message *letters[MESSAGES_MAX];
    int first, n;
};

static struct world {
    struct mesh_sim *net;
    struct worker workers[WORKERS_MAX];
    struct queue under_way[WORKERS_MAX][WORKERS_MAX]; /* by receiver and sender */
    int n_deaths, n_parts;
} world;

static char failure[512]; /* what is wrong with the order just tried; "": nothing */

static int carry(void *owner, struct sim_message *l, struct err *e)
{
    struct queue *q = &world.under_way[l->to][l->from];

    (void)owner, (void)e;
    if (job.is_mangled && l->from == 1 && l->to == 2 && l->head.kind == FRAME_CONTRIBUTION &&
        l->head.round == 0) {
        struct mesh_buf *whole = l->buf;

        l->buf = mesh_buf_take(world.workers[0].mesh); /* all share one pool */
        l->buf->len = whole->len - 1;
        memcpy(l->buf->bytes, whole->bytes, l->buf->len);
        mesh_buf_put(world.workers[0].mesh, whole);
    }
    assert_true(q->first + q->n < MESSAGES_MAX);
    q->letters[q->first + q->n++] = l;
    return 0;
}

static void world_open(void)
{
    struct err e = {0};

    memset(&world, 0, sizeof world);
    for (int i = 0; i < job.n_workers; i++) {
        struct worker *w = &world.workers[i];
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
        exchange_attach(world.workers[i].x, world.workers[i].mesh);
    }
}

static void world_close(void)
{
    for (int i = 0; i < job.n_workers; i++)
        exchange_free(world.workers[i].x);
    mesh_sim_free(world.net);
}

static void leave(struct worker *w, bool well)
{
    int slot = (int)(w - world.workers);

    w->phase = well ? DONE : FAILED;
    assert_int_equal((well ? mesh_sim_leave : mesh_sim_kill)(world.net, slot, &w->e), 0);
}

/* What the codec's answer is followed by. */
static void go_on(struct worker *w, int rc)
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

static void step(struct worker *w)
{
    int node = (int)(w - world.workers), rc = 0;

    for (size_t i = 0; i < N_PARAMS; i++)
        w->grads[i] = cluster_gradient(w->step, node, i);
    w->phase = IN_GRAD;
    if (exchange_wants_blocks(w->x))
        rc = exchange_on_block(w->x, node, &w->e);
    go_on(w, rc < 0 ? rc : exchange_on_grad(w->x, 1, &w->e));
}

static void receive(struct worker *w)
{
    struct mesh_event ev;
    int rc;

    assert_int_equal(mesh_poll(w->mesh, &ev, 0, &w->e), 0);
    if (ev.kind == MESH_NOTHING) /* its sender is lost to this one */
        return;
    rc = exchange_on_event(w->x, &ev, &w->e);
    if (rc < 0)
        leave(w, false);
    else if (rc == CODEC_GO)
        go_on(w, w->phase == BEGINS ? CODEC_WAIT : rc);
}

/* The first message under way there arrives. */
static void deliver(struct worker *w, struct queue *q)
{
    q->n--;
    mesh_sim_deliver(world.net, q->letters[q->first++]);
    receive(w);
}

static bool is_over(const struct worker *w)
{
    return w->phase >= DONE;
}

/* From whom something is under way to node `to` that was never to arrive; -1: nobody. */
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
        open |= mesh_sim_has_news(world.net, i) ? bit_of(i, i) : 0; /* it has noticed a loss by itself */
        open |= dead_sender(i) >= 0 ? bit_of(i, GIVE_UP) : 0;
        open |= world.workers[i].phase == BEGINS ? bit_of(i, STEP) : 0;
        open |= world.n_deaths < job.n_deaths ? bit_of(i, DIE) : 0;
    }
    return open;
}

static void take(int choice)
{
    int node = choice / SOURCES, source = choice % SOURCES;
    struct worker *w = &world.workers[node];
    struct queue *q = &world.under_way[node][source == GIVE_UP ? dead_sender(node) : source % WORKERS_MAX];

    if (source == node) {
        receive(w);
    } else if (source < GIVE_UP) {
        deliver(w, q);
    } else if (source == GIVE_UP) {
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

/* Nothing can happen any more. */
static void judge(const char *order)
{
    const struct worker *first = NULL;
    int n_done = 0;

    failure[0] = '\0';
    for (int i = 0; i < job.n_workers && !failure[0]; i++) {
        const struct worker *w = &world.workers[i];

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
    assert_ok(blocks_init(&blocks, "iid", job.n_workers, 1, &e));
}

static void job_close(void)
{
    blocks_clear(&blocks);
    codec_library_close(&lib);
}

/* All orders, each once but for the order of choices at different nodes, which do not touch each other (sleep
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
    judge(search.order);
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

/* Nodes say on stderr whom they have lost, a million times. */
static int be_quiet(void)
{
    int was = dup(STDERR_FILENO), nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);

    assert_true(was >= 0 && nowhere >= 0 && dup2(nowhere, STDERR_FILENO) >= 0);
    close(nowhere);
    return was;
}

static void speak_again(int was)
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
    was = be_quiet();
    do
        run_one_order();
    while (!failure[0] && go_back());
    speak_again(was);
    job_close();
    return search.n_orders;
}

/* Two who live cannot reach each other any more. */
static void part(struct rng *rng)
{
    int a = (int)rng_below(rng, (uint32_t)job.n_workers), b = (int)rng_below(rng, (uint32_t)job.n_workers);
    struct err e;

    if (a == b || is_over(&world.workers[a]) || is_over(&world.workers[b]))
        return;
    world.n_parts++;
    assert_int_equal(mesh_sim_part(world.net, a, b, &e), 0);
}

/* One of all orders. What is rare, a death and what it takes with it, is kept so. */
static void run_by_lot(uint64_t seed)
{
    char order[32];
    struct rng rng;
    choices open;

    snprintf(order, sizeof order, "by lot %llu", (unsigned long long)seed);
    rng_init(&rng, seed, 1, 1);
    world_open();
    while ((open = open_choices()) != 0) {
        choices rare = 0;

        for (int i = 0; i < job.n_workers; i++)
            rare |= bit_of(i, DIE) | bit_of(i, GIVE_UP);
        if (open & ~rare && rng_below(&rng, 8) > 0)
            open &= ~rare;
        for (uint32_t k = rng_below(&rng, (uint32_t)__builtin_popcountll(open)); k > 0; k--)
            open &= open - 1;
        take(first_of(open));
        if (world.n_parts < job.n_parts && rng_below(&rng, 16) == 0)
            part(&rng);
    }
    judge(order);
    world_close();
}

static void try_orders_by_lot(struct job j, uint64_t n)
{
    int was;

    job = j;
    job_open();
    was = be_quiet();
    failure[0] = '\0';
    for (uint64_t seed = 1; seed <= n && !failure[0]; seed++)
        run_by_lot(seed);
    speak_again(was);
    job_close();
}

TEST(one_of_three_dies_at_any_point_of_any_order_and_the_others_end_equal)
{
    static const char *const codecs[] = {"plain", "fedavg", "fedpaq"};

    for (size_t k = 0; k < (IS_SANITIZED ? 1 : N_OF(codecs)); k++) {
        uint64_t n = try_all_orders((struct job){.codec = codecs[k],
                                                 .n_workers = 3,
                                                 .n_deaths = 1,
                                                 .min_nodes = 2,
                                                 .n_steps = 1,
                                                 .local_steps = 1});

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

TEST(of_many_some_die_at_once_or_one_after_the_other)
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
        try_orders_by_lot(jobs[k], IS_SANITIZED ? 1000 : 10000);
}

TEST(of_two_who_cannot_reach_each_other_one_ends_or_both_and_the_others_end_equal)
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
        try_orders_by_lot(jobs[k], IS_SANITIZED ? 1000 : 10000);
}

/* What worker 1 says to worker 0, who has said its first word and waits. */
static int say_to_waiting_worker(struct mesh_head head, const void *bytes, size_t len, struct err *e)
{
    struct worker *w = &world.workers[0];
    struct mesh_event ev = {.kind = MESH_MESSAGE, .head = head, .buf = mesh_buf_take(w->mesh)};

    memcpy(ev.buf->bytes, bytes, len);
    ev.buf->len = len;
    return exchange_on_event(w->x, &ev, e);
}

TEST(who_says_what_nobody_could_say_is_lost)
{
    static const struct {
        struct mesh_head head;
        unsigned char bytes[3];
        size_t len;
    } bad[] = {
        {{.kind = FRAME_LOSS, .peer = 1}, {4, 0}, 1},                  /* short */
        {{.kind = FRAME_LOSS, .peer = 1}, {4, 0, 0}, 3},               /* long */
        {{.kind = FRAME_LOSS, .peer = 1}, {0, 0}, 2},                  /* nobody is lost */
        {{.kind = FRAME_LOSS, .peer = 1}, {2, 0}, 2},                  /* its sender is */
        {{.kind = FRAME_LOSS, .peer = 1}, {4 | 8, 0}, 2},              /* so is a fourth of three */
        {{.kind = FRAME_LOSS, .peer = 1}, {4, 8}, 2},                  /* whose word was heard */
        {{.kind = FRAME_LOSS, .peer = 1, .round = 2}, {4, 0}, 2},      /* it cannot be there yet */
        {{.kind = FRAME_CONTRIBUTION, .peer = 1, .index = 2}, {0}, 1}, /* of one who is not lost */
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
        assert_int_equal(say_to_waiting_worker(bad[k].head, bad[k].bytes, bad[k].len, &e), CODEC_WAIT);
        for (choices open; (open = open_choices()) != 0;)
            take(first_of(open));
        judge("as it comes");
        if (failure[0])
            fail_msg("case %zu: %s", k, failure);
        world_close();
    }
    job_close();
}

TEST(who_is_lost_to_another_ends_and_says_to_whom)
{
    struct err e = {0};

    job = (struct job){.codec = "plain", .n_workers = 3, .min_nodes = 1, .n_steps = 2, .local_steps = 1};
    job_open();
    world_open();
    step(&world.workers[0]);
    assert_int_equal(say_to_waiting_worker((struct mesh_head){.kind = FRAME_LOSS, .peer = 1}, "\1", 2, &e),
                     ERR_LOST);
    assert_says("node 1 goes on without this node");
    world_close();
    job_close();
}

TEST(too_few_who_are_left_end)
{
    struct err e = {0};

    job = (struct job){.codec = "plain", .n_workers = 3, .min_nodes = 3, .n_steps = 2, .local_steps = 1};
    job_open();
    world_open();
    step(&world.workers[0]);
    assert_int_equal(say_to_waiting_worker((struct mesh_head){.kind = FRAME_LOSS, .peer = 1}, "\4", 2, &e),
                     ERR_LOST);
    assert_says("node 2 is lost: node 1 says so; 2 workers are left of at least 3");
    world_close();
    job_close();
}

TEST(who_says_a_malformed_word_to_all_is_lost_to_all)
{
    try_orders_by_lot((struct job){.codec = "../tests/codecs/mumble",
                                   .n_workers = 4,
                                   .min_nodes = 3,
                                   .n_steps = 4,
                                   .local_steps = 1,
                                   .fails = 1},
                      1000);
}

TEST(who_says_one_to_some_is_lost_to_all_and_its_word_counts_where_a_round_was_closed_with_it)
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
        cmocka_unit_test(of_many_some_die_at_once_or_one_after_the_other),
        cmocka_unit_test(of_two_who_cannot_reach_each_other_one_ends_or_both_and_the_others_end_equal),
        cmocka_unit_test(who_says_what_nobody_could_say_is_lost),
        cmocka_unit_test(who_is_lost_to_another_ends_and_says_to_whom),
        cmocka_unit_test(too_few_who_are_left_end),
        cmocka_unit_test(who_says_a_malformed_word_to_all_is_lost_to_all),
        cmocka_unit_test(
            who_says_one_to_some_is_lost_to_all_and_its_word_counts_where_a_round_was_closed_with_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
