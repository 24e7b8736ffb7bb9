/* What nodes make of evaluations (exchange/stop_vote.h): all workers of a synchronous job end by the same
 * result after the same step, as a job of that many steps; asynchronous ones after the step in which the
 * decision reaches them; lost workers hold up nothing; frames that no honest node sends are refused. */
#include "tests/unit/unit.h"

#include <math.h>

#include "runner/exchange/exchange_private.h"
#include "runner/exchange/exchange_step.h"
#include "runner/exchange/stop_vote.h"
#include "shared/base/rng.h"
#include "tests/lib/run_well.h"

enum { N_PARAMS = 26, WORKERS = 3, EVERY = 4, END = 20 };

/* Alone the workers would reach the target after steps 20, 17 and 14: their mean does after step 17, and the
 * next evaluation is that of step 20. */
static double rising(int worker, uint64_t step)
{
    return fmin(((double)step + 3 * worker) / 40, 1);
}

static struct cluster_config rising_job(struct cluster_config cfg, uint64_t seed)
{
    cfg.seed = seed;
    cfg.n_workers = WORKERS;
    cfg.n_params = N_PARAMS;
    cfg.n_steps = 200;
    cfg.eval_every = EVERY;
    cfg.accuracy = rising;
    cfg.target_accuracy = 0.5;
    return cfg;
}

static const struct cluster_config synchronous[] = {
    {.codec = "allreduce"},
    {.codec = "allreduce", .path = COMBINE_PATH_GATHER},
    {.codec = "allreduce", .path = COMBINE_PATH_GATHER, .goes_on = 1},
    {.codec = "allreduce", .overlap = OVERLAP_ONE},
    {.codec = "plain", .redundancy = 2},
    {.codec = "signsgd", .n_servers = 2},
    {.codec = "ps", .n_servers = 1},
    {.codec = "ps", .n_servers = 3, .goes_on = 1},
    {.codec = "fedavg", .local_steps = 5},
    {.codec = "fedavg", .local_steps = 7},
    {.codec = "fedavg", .local_steps = 5, .overlap = OVERLAP_ONE},
    {.codec = "fedavg", .local_steps = 7, .overlap = OVERLAP_ONE},
    {.codec = "fedavg", .local_steps = 7, .path = COMBINE_PATH_GATHER, .goes_on = 1},
    {.codec = "fedavg", .local_steps = 7, .n_servers = 2},
    {.codec = "diloco", .local_steps = 7, .n_servers = 1, .goes_on = 1},
    {.codec = "scaffold", .local_steps = 3},
    {.codec = "easgd", .local_steps = 7},
    {.codec = "easgd", .local_steps = 7, .n_servers = 2},
    {.codec = "gossip"},
    {.codec = "dummy"},
};

TEST(synchronous_workers_end_after_the_same_step_as_a_job_of_that_many_steps)
{
    for (size_t k = 0; k < N_OF(synchronous); k++)
        for (uint64_t seed = 1; seed <= 5; seed++) {
            struct cluster_config cfg = rising_job(synchronous[k], seed);
            struct cluster c, whole;

            run_well(&c, &cfg);
            cfg.n_steps = END;
            cfg.eval_every = 0;
            run_well(&whole, &cfg);
            for (int w = 0; w < WORKERS; w++) {
                const struct stop *why = stop_vote_decision(c.nodes[w].x);

                assert_int_equal(c.nodes[w].step.n_done, END);
                assert_int_equal(why->reason, STOP_TARGET_ACCURACY);
                assert_int_equal(why->step, END);
                assert_true(fabs(why->accuracy - 23.0 / 40) < 1e-12 && why->loss == END);
                if (memcmp(c.nodes[w].params, whole.nodes[w].params, N_PARAMS * sizeof(float)) != 0)
                    fail_msg("%s, case %zu, seed %d: other weights", cfg.codec, k, (int)seed);
            }
            cluster_close(&whole);
            cluster_close(&c);
        }
}

/* In asgd a worker may have taken all its steps before another one's first evaluation. */
static bool has_done_all(const struct cluster *c, int worker)
{
    const struct cluster_node *n = &c->nodes[worker];

    return n->step.n_done == c->cfg.n_steps && stop_vote_decision(n->x)->reason == STOP_NONE;
}

TEST(asynchronous_workers_end_after_the_step_in_which_the_same_decision_reaches_them)
{
    static const struct cluster_config cases[] = {
        {.codec = "plain"},
        {.codec = "fedavg", .local_steps = 5},
        {.codec = "plain", .goes_on = 1},
        {.codec = "ps", .n_servers = 1},
        {.codec = "ps", .n_servers = 2},
        {.codec = "downpour", .options = "n_push=2,n_fetch=4", .n_servers = 1},
        {.codec = "easgd", .local_steps = 3, .n_servers = 2, .goes_on = 1},
        {.codec = "sync_replicas", .options = "backups=1", .n_servers = 1},
    };

    int n_jobs = 0, n_stopped = 0;

    for (size_t k = 0; k < N_OF(cases); k++)
        for (uint64_t seed = 1; seed <= 10; seed++) {
            struct cluster_config cfg = rising_job(cases[k], seed);
            const struct stop *first = NULL;
            struct cluster c;

            cfg.is_asgd = true;
            run_well(&c, &cfg);
            for (int w = 0; w < WORKERS; w++) {
                const struct stop *why = stop_vote_decision(c.nodes[w].x);

                n_jobs++;
                if (has_done_all(&c, w))
                    continue;
                n_stopped++;
                assert_int_equal(why->reason, STOP_TARGET_ACCURACY);
                assert_true(c.nodes[w].step.n_done >= why->step && why->accuracy >= 0.5);
                assert_true(!first || (why->step == first->step && why->accuracy == first->accuracy));
                first = why;
            }
            cluster_close(&c);
        }
    assert_true(n_stopped > n_jobs * 3 / 4);
}

static double falling_after_20(int worker, uint64_t step)
{
    (void)worker;
    return step <= 20 ? (double)step / 40 : 0.3;
}

/* The best is evaluation 5. With K = 2 evaluations 7, 8 and 9 are bad: 6 is compared with the fourth, .4. */
TEST(patience_ends_a_job_on_all_nodes)
{
    for (int n_servers = 0; n_servers <= 2; n_servers++)
        for (uint64_t seed = 1; seed <= 5; seed++) {
            struct cluster_config cfg = rising_job(
                (struct cluster_config){.codec = "fedavg", .local_steps = 3, .n_servers = n_servers}, seed);
            struct cluster c;

            cfg.target_accuracy = 0;
            cfg.patience = 2;
            cfg.accuracy = falling_after_20;
            run_well(&c, &cfg);
            for (int i = 0; i < c.n_nodes; i++) {
                const struct stop *why = stop_vote_decision(c.nodes[i].x);

                assert_int_equal(why->reason, STOP_PATIENCE);
                assert_int_equal(why->step, 32);
                assert_true(i >= WORKERS || c.nodes[i].step.n_done == 32);
            }
            cluster_close(&c);
        }
}

/* Workers 0, ... are coordinators in turn. Whenever a worker dies, the others end together, by the target. */
TEST(a_lost_worker_does_not_hold_up_the_others)
{
    static const struct cluster_config cases[] = {
        {.codec = "fedavg", .local_steps = 3, .path = COMBINE_PATH_GATHER},
        {.codec = "allreduce", .path = COMBINE_PATH_GATHER},
        {.codec = "gossip"},
        {.codec = "ps", .n_servers = 2},
        {.codec = "fedavg", .local_steps = 3, .n_servers = 1},
        {.codec = "plain", .is_asgd = true},
        {.codec = "ps", .n_servers = 2, .is_asgd = true},
    };

    for (size_t k = 0; k < N_OF(cases); k++)
        for (uint64_t at = 1; at < 600; at += 7) {
            struct cluster_config cfg = rising_job(cases[k], at);
            const struct cluster_node *other = NULL;
            struct cluster c;

            cfg.goes_on = 1;
            cfg.kill_node = (int)(at % WORKERS);
            cfg.kill_at = at;
            cluster_open(&c, &cfg);
            if (!cluster_run(&c))
                fail_msg("%s hangs, killed at turn %d", cfg.codec, (int)at);
            for (int w = 0; w < WORKERS; w++) {
                const struct cluster_node *n = &c.nodes[w];

                if (n->phase == NODE_KILLED)
                    continue;
                if (n->phase != NODE_DONE)
                    fail_msg("%s, killed at turn %d: node %d: %s", cfg.codec, (int)at, w, n->e.text);
                if (stop_vote_decision(n->x)->reason != STOP_TARGET_ACCURACY &&
                    !(cfg.is_asgd && has_done_all(&c, w)))
                    fail_msg("%s, killed at turn %d: node %d ends with step %d", cfg.codec, (int)at, w,
                             (int)n->step.n_done);
                if (other && !cfg.is_asgd && n->step.n_done != other->step.n_done)
                    fail_msg("%s, killed at turn %d: steps %d and %d", cfg.codec, (int)at,
                             (int)n->step.n_done, (int)other->step.n_done);
                other = n;
            }
            cluster_close(&c);
        }
}

/* The coordinator is lost, then the next one, at any two points: the two that remain end together. */
TEST(two_coordinators_in_a_row_are_lost_at_any_points)
{
    static const struct cluster_config cases[] = {
        {.codec = "allreduce", .path = COMBINE_PATH_GATHER},
        {.codec = "fedavg", .local_steps = 3, .path = COMBINE_PATH_GATHER},
        {.codec = "plain", .is_asgd = true},
    };

    for (size_t k = 0; k < N_OF(cases); k++)
        for (uint64_t at = 20; at < 420; at += 13)
            for (uint64_t gap = 1; gap < 120; gap += 17) {
                struct cluster_config cfg = rising_job(cases[k], at * gap);
                struct cluster c;

                cfg.n_workers = 4;
                cfg.goes_on = 1;
                cfg.kill_at = at;
                cfg.kill_next_at = at + gap;
                cluster_open(&c, &cfg);
                if (!cluster_run(&c))
                    fail_msg("%s hangs, killed at turns %d and %d", cfg.codec, (int)at, (int)(at + gap));
                for (int w = 2; w < 4; w++) {
                    const struct cluster_node *n = &c.nodes[w];

                    if (n->phase != NODE_DONE)
                        fail_msg("%s, killed at turns %d and %d: node %d: %s", cfg.codec, (int)at,
                                 (int)(at + gap), w, n->e.text);
                    if (!cfg.is_asgd)
                        assert_int_equal(n->step.n_done, c.nodes[2].step.n_done);
                }
                cluster_close(&c);
            }
}

/* A job without servers, which the test drives by hand. */
struct bench {
    struct cluster c;
    struct err e;
};

static void open_bench(struct bench *b, const char *codec, int n_servers)
{
    struct cluster_config cfg = rising_job(
        (struct cluster_config){.codec = codec, .n_servers = n_servers, .goes_on = 1}, 1);

    b->e = (struct err){0};
    cfg.path = n_servers == 0 ? COMBINE_PATH_GATHER : COMBINE_PATH_AUTO;
    cluster_open(&b->c, &cfg);
}

static int evaluated(struct bench *b, int worker, double accuracy)
{
    return stop_vote_share(b->c.nodes[worker].x, 4, 1, accuracy, &b->e);
}

/* Passes all messages for the node to it. Returns the result of the last event. */
static int receive(struct bench *b, int slot)
{
    struct mesh_event ev;
    int rc = CODEC_WAIT;

    while (mesh_poll(b->c.nodes[slot].mesh, &ev, 0, &b->e) == 0 && ev.kind != MESH_NOTHING)
        rc = exchange_on_event(b->c.nodes[slot].x, &ev, &b->e);
    return rc;
}

static int lose(struct bench *b, int slot, int peer)
{
    struct mesh_event ev = {.kind = MESH_LOST, .head.peer = peer, .why = "a test"};

    return exchange_on_event(b->c.nodes[slot].x, &ev, &b->e);
}

/* Worker 0 has reported to worker 1, and not to worker 2, when it is lost: the result with it counts,
 * not that of the two others. */
TEST(a_result_that_one_worker_has_received_counts_for_all)
{
    struct bench b;

    open_bench(&b, "allreduce", 0);
    assert_int_equal(evaluated(&b, 0, 0.1), CODEC_WAIT);
    assert_int_equal(evaluated(&b, 1, 0.2), CODEC_WAIT);
    assert_int_equal(evaluated(&b, 2, 0.6), CODEC_WAIT);
    assert_int_equal(receive(&b, 0), CODEC_GO);
    assert_int_equal(receive(&b, 1), CODEC_GO);
    assert_int_equal(lose(&b, 2, 0), CODEC_WAIT);
    assert_int_equal(receive(&b, 2), CODEC_WAIT); /* messages of node 0 are dropped */
    assert_true(receive(&b, 1) >= 0);             /* it learns of the loss from worker 2 */
    assert_int_equal(receive(&b, 2), CODEC_GO);
    for (int w = 1; w < WORKERS; w++)
        assert_true(fabs(b.c.nodes[w].x->stop_vote.known.accuracy - 0.3) < 1e-12);
    cluster_close(&b.c);
}

TEST(a_wait_names_the_worker_whose_result_is_missing)
{
    char what[128];
    struct bench b;

    open_bench(&b, "allreduce", 0);
    assert_int_equal(evaluated(&b, 0, 0.1), CODEC_WAIT);
    assert_int_equal(evaluated(&b, 2, 0.1), CODEC_WAIT);
    assert_int_equal(receive(&b, 0), CODEC_WAIT);
    exchange_waits_for(b.c.nodes[0].x, what, sizeof what);
    assert_string_equal(what, "node 1's result of the evaluation after step 4");
    assert_int_equal(stall_awaits(b.c.nodes[0].x), 1);
    exchange_waits_for(b.c.nodes[2].x, what, sizeof what);
    assert_string_equal(what, "node 0's message about the evaluation after step 4");
    cluster_close(&b.c);
    open_bench(&b, "ps", 1);
    assert_int_equal(evaluated(&b, 0, 0.1), CODEC_WAIT);
    receive(&b, WORKERS);
    assert_int_equal(stall_awaits(b.c.nodes[WORKERS].x), 1);
    assert_int_equal(stall_awaits(b.c.nodes[0].x), -2);
    cluster_close(&b.c);
}

static int deliver(struct bench *b, int slot, int from, enum stop_vote_kind kind, uint64_t round,
                   const void *bytes, size_t len)
{
    struct cluster_node *n = &b->c.nodes[slot];
    struct mesh_event ev = {.kind = MESH_MESSAGE,
                            .head = {.kind = FRAME_STOP_VOTE, .peer = from, .index = kind, .round = round},
                            .buf = mesh_buf_take(n->mesh)};

    b->e = (struct err){0};
    ev.buf->len = len;
    memcpy(ev.buf->bytes, bytes, len);
    return exchange_on_event(n->x, &ev, &b->e);
}

TEST(frames_that_no_node_sends_are_refused)
{
    const struct stop_vote_result fine = {.n = 1, .step = 4, .loss = 1, .accuracy = 0.5};
    const struct stop_vote_result bad[] = {{.n = 0, .step = 4, .loss = 1, .accuracy = 0.5},
                                           {.n = 201, .step = 4, .loss = 1, .accuracy = 0.5},
                                           {.n = 1, .step = 4, .loss = 1, .accuracy = 1.5},
                                           {.n = 1, .step = 4, .loss = 1, .accuracy = -0.5}};
    struct bench b;

    open_bench(&b, "ps", 2);
    for (size_t i = 0; i < N_OF(bad); i++)
        assert_int_equal(deliver(&b, 0, -2, STOP_VOTE_RESULT, STOP_NONE, &bad[i], sizeof fine), ERR_PROTOCOL);
    assert_int_equal(deliver(&b, 0, -2, STOP_VOTE_RESULT, STOP_NONE, &fine, sizeof fine - 1), ERR_PROTOCOL);
    assert_int_equal(deliver(&b, 0, -2, STOP_VOTE_RESULT, N_STOP_REASONS, &fine, sizeof fine), ERR_PROTOCOL);
    assert_int_equal(deliver(&b, 0, -3, STOP_VOTE_RESULT, STOP_NONE, &fine, sizeof fine), ERR_PROTOCOL);
    /* of an evaluation that this worker has not made */
    assert_int_equal(deliver(&b, 0, -2, STOP_VOTE_RESULT, STOP_NONE, &fine, sizeof fine), ERR_PROTOCOL);
    assert_int_equal(deliver(&b, 0, -2, STOP_VOTE_REPORT, STOP_NONE, &fine, sizeof fine), ERR_PROTOCOL);
    assert_int_equal(deliver(&b, 0, -2, STOP_VOTE_STOP, STOP_NONE, &fine, 1), ERR_PROTOCOL);
    assert_int_equal(deliver(&b, 0, -2, STOP_VOTE_KINDS, STOP_NONE, &fine, 0), ERR_PROTOCOL);
    assert_int_equal(evaluated(&b, 0, 0.1), CODEC_WAIT);
    assert_int_equal(deliver(&b, 0, -2, STOP_VOTE_RESULT, STOP_NONE, &fine, sizeof fine), CODEC_GO);
    /* A worker that sends one to a server counts as lost. */
    for (int w = 0; w < 2; w++) {
        assert_int_equal(deliver(&b, WORKERS, w, w == 0 ? STOP_VOTE_STOP : STOP_VOTE_REPORT, STOP_NONE, &fine,
                                 sizeof fine),
                         CODEC_GO);
        receive(&b, WORKERS);
        assert_true(b.c.nodes[WORKERS].x->peer_stats.has_left[w]);
    }
    cluster_close(&b.c);
}

/* A worker cannot report results of later evaluations, which would end the count at the others. */
TEST(a_report_of_a_result_is_refused_before_every_worker_has_evaluated)
{
    const struct stop_vote_result first = {.n = 1, .step = 4, .loss = 1, .accuracy = 0.1};
    const struct stop_vote_result last = {.n = 200, .step = 800, .loss = 1, .accuracy = 1};
    const struct stop_vote_report ahead = {.own = first, .known = last}, liar = {.own = last, .known = last};
    struct bench b;

    /* More than it has made itself. */
    open_bench(&b, "ps", 1);
    assert_int_equal(deliver(&b, WORKERS, 0, STOP_VOTE_REPORT, STOP_NONE, &ahead, sizeof ahead), CODEC_GO);
    receive(&b, WORKERS);
    assert_true(b.c.nodes[WORKERS].x->peer_stats.has_left[0]);
    cluster_close(&b.c);
    /* More than the others have. Those have their own mean. */
    open_bench(&b, "ps", 1);
    assert_int_equal(deliver(&b, WORKERS, 0, STOP_VOTE_REPORT, STOP_NONE, &liar, sizeof liar), CODEC_GO);
    for (int w = 1; w < WORKERS; w++)
        assert_int_equal(evaluated(&b, w, 0.2), CODEC_WAIT);
    receive(&b, WORKERS);
    assert_true(b.c.nodes[WORKERS].x->peer_stats.has_left[0]);
    for (int w = 1; w < WORKERS; w++) {
        assert_int_equal(receive(&b, w), CODEC_GO);
        assert_true(b.c.nodes[w].x->stop_vote.known.n == 1 &&
                    b.c.nodes[w].x->stop_vote.known.accuracy == 0.2);
        assert_int_equal(stop_vote_decision(b.c.nodes[w].x)->reason, STOP_NONE);
    }
    cluster_close(&b.c);
}

/* Nor can a worker in asgd, where no node waits, and results are passed on. */
TEST(an_asynchronous_worker_takes_no_result_beyond_its_own_evaluations)
{
    const struct stop_vote_result last = {.n = 200, .step = 800, .loss = 1, .accuracy = 0.1};
    struct cluster_config cfg = rising_job(
        (struct cluster_config){.codec = "plain", .is_asgd = true, .goes_on = 1}, 1);
    struct bench b = {0};

    cluster_open(&b.c, &cfg);
    assert_int_equal(evaluated(&b, 0, 0.1), CODEC_GO);
    deliver(&b, 0, 1, STOP_VOTE_RESULT, STOP_NONE, &last, sizeof last);
    assert_true(b.c.nodes[0].x->stop_vote.known.n == 0);
    /* A decision counts, also for a worker that has fallen behind. */
    assert_true(deliver(&b, 0, 2, STOP_VOTE_RESULT, STOP_PATIENCE, &last, sizeof last) >= 0);
    assert_int_equal(stop_vote_decision(b.c.nodes[0].x)->reason, STOP_PATIENCE);
    cluster_close(&b.c);
}

/* What of a frame a byte changes: no node reads beyond it, fails for its own reason, or waits for ever. */
TEST(changed_frames_are_refused_or_taken_and_do_no_harm)
{
    static const int slots[] = {0, 1, WORKERS};
    struct stop_vote_report fine = {.own = {.n = 1, .step = 4, .loss = 1, .accuracy = 0.5},
                                    .known = {.n = 1, .step = 4, .loss = 1, .accuracy = 0.5}};
    struct rng r;

    rng_init(&r, 1, 2, 3);
    for (int i = 0; i < 3000; i++) {
        int slot = slots[rng_below(&r, 3)], from = slot == WORKERS ? (int)rng_below(&r, WORKERS) : -2;
        unsigned char bytes[sizeof fine];
        struct bench b;
        int rc;

        memcpy(bytes, &fine, sizeof fine);
        for (uint32_t n = rng_below(&r, 4); n > 0; n--)
            bytes[rng_below(&r, sizeof bytes)] = (unsigned char)rng_below(&r, 256);
        open_bench(&b, "ps", 1);
        if (i % 2 == 0 && slot < WORKERS)
            evaluated(&b, slot, 0.5);
        rc = deliver(&b, slot, from, (enum stop_vote_kind)rng_below(&r, STOP_VOTE_KINDS + 1),
                     rng_below(&r, N_STOP_REASONS + 1), bytes,
                     i % 3 == 0 ? rng_below(&r, sizeof bytes + 1)
                                : sizeof(struct stop_vote_result) * (size_t)(1 + i % 2));
        assert_true(rc == CODEC_GO || rc == CODEC_WAIT || rc == ERR_PROTOCOL);
        cluster_close(&b.c);
    }
}

/* The loss is the step's number, so it never falls: evaluations 3, 5 and 7 cut the rate, the last ends the
 * job. */
TEST(a_codec_sees_evaluations_and_decides_by_them)
{
    for (int n_servers = 0; n_servers <= 2; n_servers++)
        for (int is_asgd = 0; is_asgd <= 1; is_asgd++) {
            struct cluster_config cfg = rising_job((struct cluster_config){.codec = "tests/plateau",
                                                                           .n_servers = n_servers,
                                                                           .is_asgd = is_asgd,
                                                                           .shares_evaluations = true},
                                                   3);
            struct cluster c;

            cfg.target_accuracy = 0;
            run_well(&c, &cfg);
            for (int w = 0; w < WORKERS; w++) {
                const struct cluster_node *n = &c.nodes[w];

                assert_int_equal(stop_vote_decision(n->x)->reason, STOP_CODEC);
                if (is_asgd)
                    assert_in_range(n->step.n_done, 4, 199);
                else
                    assert_int_equal(n->step.n_done, 28);
                if (!is_asgd)
                    assert_true(exchange_lr_factor(n->x) == 0.125f);
                assert_string_equal(n->record.name, "lr_factor");
            }
            cluster_close(&c);
        }
}

/* The programs of three workers have no more data. */

static void open_finishing(struct bench *b)
{
    const struct cluster_config cfg = {.codec = "plain",
                                       .is_asgd = true,
                                       .n_workers = WORKERS,
                                       .goes_on = 1,
                                       .n_params = N_PARAMS,
                                       .n_steps = 200,
                                       .has_trainer = true};

    b->e = (struct err){0};
    cluster_open(&b->c, &cfg);
}

static void finish(struct bench *b, int slot)
{
    assert_int_equal(exchange_set_finished(b->c.nodes[slot].x, &b->e), 0);
}

/* Until no node has a message. */
static void settle(struct bench *b)
{
    for (int i = 0; i < 5 * WORKERS; i++)
        assert_true(receive(b, i % WORKERS) >= 0);
}

static uint64_t last_step(const struct bench *b, int slot)
{
    return b->c.nodes[slot].x->finish_vote.last;
}

TEST(workers_without_more_data_end_after_the_step_that_the_last_of_them_can_promise)
{
    struct bench b;

    open_finishing(&b);
    for (int w = 0; w < WORKERS; w++) {
        b.c.nodes[w].x->channels[0].run.step = (uint64_t)(10 * w + 5);
        settle(&b);
        assert_int_equal(finish_vote_hold(b.c.nodes[w].x), CODEC_GO); /* as long as another one has data */
        finish(&b, w);
    }
    settle(&b);
    for (int w = 0; w < WORKERS; w++) {
        assert_int_equal(last_step(&b, w), 26);
        assert_int_equal(stop_vote_decision(b.c.nodes[w].x)->reason, STOP_NONE);
        assert_int_equal(finish_vote_hold(b.c.nodes[w].x), CODEC_GO);
        b.c.nodes[w].x->channels[0].run.step = 26;
        finish_vote_check(b.c.nodes[w].x);
        assert_int_equal(stop_vote_decision(b.c.nodes[w].x)->reason, STOP_FINISHED);
    }
    cluster_close(&b.c);
}

/* Worker 0 is lost after each number of messages. What one worker knows of the last step counts for all. */
TEST(the_next_coordinator_finds_the_same_last_step)
{
    for (int n_rounds = 0; n_rounds <= 4; n_rounds++)
        for (int to = 1; to < WORKERS; to++) {
            struct bench b;

            open_finishing(&b);
            b.c.nodes[0].x->channels[0].run.step = 50;
            for (int w = 0; w < WORKERS; w++)
                finish(&b, w);
            for (int i = 0; i < n_rounds; i++) {
                receive(&b, 0);
                receive(&b, to); /* the other worker receives nothing of what worker 0 sends */
            }
            for (int w = 1; w < WORKERS; w++)
                assert_true(lose(&b, w, 0) >= 0);
            settle(&b);
            assert_true(last_step(&b, 1) > 0);
            assert_int_equal(last_step(&b, 1), last_step(&b, 2));
            cluster_close(&b.c);
        }
}

TEST(a_worker_that_has_promised_its_last_step_takes_no_other_one_before_it_is_known)
{
    char what[128];
    struct bench b;

    open_finishing(&b);
    for (int w = 0; w < WORKERS; w++)
        finish(&b, w);
    receive(&b, 0);
    receive(&b, 2);
    assert_int_equal(finish_vote_hold(b.c.nodes[2].x), CODEC_GO);
    b.c.nodes[2].x->channels[0].run.step = 1;
    assert_int_equal(finish_vote_hold(b.c.nodes[2].x), CODEC_WAIT);
    exchange_waits_for(b.c.nodes[2].x, what, sizeof what);
    assert_string_equal(what, "node 0's message about the job's last step, as no program has more data");
    b.c.nodes[0].x->channels[0].run.step = 1;
    assert_int_equal(finish_vote_hold(b.c.nodes[0].x), CODEC_WAIT);
    receive(&b, 0);
    assert_int_equal(stall_awaits(b.c.nodes[0].x), 1);
    receive(&b, 1);
    assert_int_equal(receive(&b, 0), CODEC_GO);
    assert_int_equal(receive(&b, 2), CODEC_GO);
    cluster_close(&b.c);
}

TEST(messages_about_the_end_of_data_that_no_node_sends_are_refused)
{
    struct bench b;

    open_finishing(&b);
    /* Worker 1 has data. */
    assert_int_equal(deliver(&b, 1, 0, STOP_VOTE_LAST, 0, "", 0), CODEC_GO);
    receive(&b, 1);
    assert_true(b.c.nodes[1].x->peer_stats.has_left[0]);
    assert_int_equal(deliver(&b, 0, 2, STOP_VOTE_FINISHED, 201, "", 0), CODEC_GO);
    receive(&b, 0);
    assert_true(b.c.nodes[0].x->peer_stats.has_left[2]);
    assert_int_equal(last_step(&b, 0), 0);
    cluster_close(&b.c);
    open_bench(&b, "allreduce", 0); /* a job of no programs */
    deliver(&b, 0, 1, STOP_VOTE_FINISHED, 0, "", 0);
    receive(&b, 0);
    assert_true(b.c.nodes[0].x->peer_stats.has_left[1]);
    cluster_close(&b.c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(synchronous_workers_end_after_the_same_step_as_a_job_of_that_many_steps),
        cmocka_unit_test(asynchronous_workers_end_after_the_step_in_which_the_same_decision_reaches_them),
        cmocka_unit_test(patience_ends_a_job_on_all_nodes),
        cmocka_unit_test(a_lost_worker_does_not_hold_up_the_others),
        cmocka_unit_test(two_coordinators_in_a_row_are_lost_at_any_points),
        cmocka_unit_test(a_result_that_one_worker_has_received_counts_for_all),
        cmocka_unit_test(a_wait_names_the_worker_whose_result_is_missing),
        cmocka_unit_test(frames_that_no_node_sends_are_refused),
        cmocka_unit_test(a_report_of_a_result_is_refused_before_every_worker_has_evaluated),
        cmocka_unit_test(an_asynchronous_worker_takes_no_result_beyond_its_own_evaluations),
        cmocka_unit_test(changed_frames_are_refused_or_taken_and_do_no_harm),
        cmocka_unit_test(a_codec_sees_evaluations_and_decides_by_them),
        cmocka_unit_test(workers_without_more_data_end_after_the_step_that_the_last_of_them_can_promise),
        cmocka_unit_test(the_next_coordinator_finds_the_same_last_step),
        cmocka_unit_test(a_worker_that_has_promised_its_last_step_takes_no_other_one_before_it_is_known),
        cmocka_unit_test(messages_about_the_end_of_data_that_no_node_sends_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
