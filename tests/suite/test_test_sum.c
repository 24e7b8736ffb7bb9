/* A divided test set (exchange/test_sum.h): all workers get the sums of all parts, to the bit, whatever the
 * order in which messages arrive; frames that no honest node sends, and evaluations of different steps, are
 * refused. */
#include "tests/unit/unit.h"

#include <math.h>

#include "runner/exchange/exchange_private.h"
#include "shared/base/rng.h"
#include "shared/job/test_part.h"
#include "tests/lib/run_well.h"

enum { WORKERS = 3, N_SUMS = 20, STEPS = 24 };

static struct cluster_config divided(struct cluster_config cfg, uint64_t seed)
{
    cfg.seed = seed;
    cfg.n_workers = WORKERS;
    cfg.n_params = 26;
    cfg.n_steps = STEPS;
    cfg.eval_every = 4;
    cfg.n_test_sums = N_SUMS;
    return cfg;
}

static double total_of(uint64_t step, size_t i)
{
    double sum = 0;

    for (int w = 0; w < WORKERS; w++)
        sum += cluster_sum(w, step, i);
    return sum;
}

TEST(workers_get_the_sums_of_all_parts_added_in_their_order)
{
    static const struct cluster_config cases[] = {
        {.codec = "allreduce"},
        {.codec = "allreduce", .path = COMBINE_PATH_GATHER},
        {.codec = "allreduce", .target_accuracy = 0.9}, /* the results are shared, too */
        {.codec = "fedavg", .local_steps = 4},
        {.codec = "fedavg", .local_steps = 4, .n_servers = 2},
        {.codec = "ps", .n_servers = 1},
    };

    for (size_t k = 0; k < N_OF(cases); k++)
        for (uint64_t seed = 1; seed <= 10; seed++) {
            struct cluster_config cfg = divided(cases[k], seed);
            struct cluster c;

            run_well(&c, &cfg);
            for (int w = 0; w < WORKERS; w++)
                for (size_t i = 0; i < N_SUMS; i++)
                    assert_true(test_sum_numbers(c.nodes[w].x)[i] == total_of(STEPS, i));
            cluster_close(&c);
        }
}

/* A job that the test drives by hand. */
struct bench {
    struct cluster c;
    struct err e;
};

static void open_bench(struct bench *b, int n_servers)
{
    const struct cluster_config cfg = divided(
        (struct cluster_config){.codec = "signsgd", .n_servers = n_servers}, 1);

    b->e = (struct err){0};
    cluster_open(&b->c, &cfg);
}

static int share(struct bench *b, int worker, uint64_t step)
{
    struct exchange *x = b->c.nodes[worker].x;

    for (size_t i = 0; i < N_SUMS; i++)
        test_sum_numbers(x)[i] = cluster_sum(worker, step, i);
    return test_sum_share(x, step, &b->e);
}

static int receive(struct bench *b, int slot)
{
    struct mesh_event ev;
    int rc = CODEC_WAIT;

    while (rc >= 0 && mesh_poll(b->c.nodes[slot].mesh, &ev, 0, &b->e) == 0 && ev.kind != MESH_NOTHING)
        rc = exchange_on_event(b->c.nodes[slot].x, &ev, &b->e);
    return rc;
}

TEST(a_wait_names_the_worker_whose_part_is_missing)
{
    char what[128];
    struct bench b;

    open_bench(&b, 0);
    assert_int_equal(share(&b, 0, 4), CODEC_WAIT);
    assert_int_equal(share(&b, 2, 4), CODEC_WAIT);
    assert_int_equal(receive(&b, 0), CODEC_WAIT);
    exchange_waits_for(b.c.nodes[0].x, what, sizeof what);
    assert_string_equal(what, "node 1's part of the evaluation after step 4");
    assert_int_equal(stall_awaits(b.c.nodes[0].x), 1);
    exchange_waits_for(b.c.nodes[2].x, what, sizeof what);
    assert_string_equal(what, "node 0's result of the evaluation after step 4");
    assert_int_equal(share(&b, 1, 4), CODEC_WAIT);
    for (int w = 0; w < WORKERS; w++)
        assert_int_equal(receive(&b, w), CODEC_GO);
    assert_true(test_sum_numbers(b.c.nodes[1].x)[0] == total_of(4, 0));
    cluster_close(&b.c);
    open_bench(&b, 1);
    assert_int_equal(share(&b, 0, 4), CODEC_WAIT);
    receive(&b, WORKERS);
    assert_int_equal(stall_awaits(b.c.nodes[WORKERS].x), 1);
    assert_int_equal(stall_awaits(b.c.nodes[0].x), -2);
    cluster_close(&b.c);
}

TEST(workers_that_evaluate_after_different_steps_are_refused)
{
    struct err e;
    struct bench b;

    open_bench(&b, 0);
    assert_int_equal(share(&b, 0, 4), CODEC_WAIT);
    assert_int_equal(share(&b, 1, 5), CODEC_WAIT);
    assert_int_equal(receive(&b, 0), ERR_CODEC);
    e = b.e;
    assert_error_has("node 1 evaluates after step 5, and other workers after step 4");
    cluster_close(&b.c);
    open_bench(&b, 0);
    assert_int_equal(share(&b, 1, 5), CODEC_WAIT);
    assert_true(receive(&b, 0) >= 0);
    assert_int_equal(share(&b, 0, 4), ERR_CODEC);
    cluster_close(&b.c);
}

static int deliver(struct bench *b, int slot, int from, enum stop_vote_kind kind, uint64_t round,
                   const double *sums, size_t n)
{
    struct cluster_node *to = &b->c.nodes[slot];
    struct mesh_event ev = {.kind = MESH_MESSAGE,
                            .head = {.kind = FRAME_STOP_VOTE, .peer = from, .index = kind, .round = round},
                            .buf = mesh_buf_take(to->mesh)};

    ev.buf->len = n * sizeof *sums;
    if (n > 0)
        memcpy(ev.buf->bytes, sums, ev.buf->len);
    return exchange_on_event(to->x, &ev, &b->e);
}

static int deliver_one(double wrong, size_t at, size_t n)
{
    double sums[N_SUMS + 1] = {0};
    struct bench b;
    int rc;

    sums[at] = wrong;
    open_bench(&b, 0);
    rc = deliver(&b, 0, 1, STOP_VOTE_PART, 4, sums, n);
    cluster_close(&b.c);
    return rc;
}

TEST(sums_that_no_worker_can_have_are_refused)
{
    const double none[N_SUMS] = {0};
    struct bench b;

    assert_true(deliver_one(0, 0, N_SUMS) >= 0);
    assert_true(deliver_one(NAN, 0, N_SUMS) >= 0); /* the loss of a model that has diverged */
    assert_int_equal(deliver_one(0, 0, N_SUMS + 1), ERR_PROTOCOL);
    assert_int_equal(deliver_one(0, 0, N_SUMS - 1), ERR_PROTOCOL);
    assert_int_equal(deliver_one(-1, TEST_REAL_SUMS, N_SUMS), ERR_PROTOCOL);
    assert_int_equal(deliver_one(NAN, TEST_REAL_SUMS, N_SUMS), ERR_PROTOCOL);
    assert_int_equal(deliver_one(0.5, N_SUMS - 1, N_SUMS), ERR_PROTOCOL);
    assert_int_equal(deliver_one(1e17, N_SUMS - 1, N_SUMS), ERR_PROTOCOL);
    open_bench(&b, 0);
    assert_true(deliver(&b, 0, 1, STOP_VOTE_PART, 4, none, N_SUMS) >= 0);
    assert_int_equal(deliver(&b, 0, 1, STOP_VOTE_PART, 4, none, N_SUMS), ERR_PROTOCOL);  /* once more */
    assert_int_equal(deliver(&b, 1, 2, STOP_VOTE_PART, 4, none, N_SUMS), ERR_PROTOCOL);  /* no coordinator */
    assert_int_equal(deliver(&b, 1, 0, STOP_VOTE_TOTAL, 4, none, N_SUMS), ERR_PROTOCOL); /* no wait */
    assert_int_equal(share(&b, 1, 4), CODEC_WAIT);
    assert_int_equal(deliver(&b, 1, 2, STOP_VOTE_TOTAL, 4, none, N_SUMS), ERR_PROTOCOL);
    assert_int_equal(deliver(&b, 1, 0, STOP_VOTE_TOTAL, 8, none, N_SUMS), ERR_PROTOCOL);
    assert_int_equal(deliver(&b, 1, 0, STOP_VOTE_TOTAL, 4, none, N_SUMS), CODEC_GO);
    cluster_close(&b.c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(workers_get_the_sums_of_all_parts_added_in_their_order),
        cmocka_unit_test(a_wait_names_the_worker_whose_part_is_missing),
        cmocka_unit_test(workers_that_evaluate_after_different_steps_are_refused),
        cmocka_unit_test(sums_that_no_worker_can_have_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
