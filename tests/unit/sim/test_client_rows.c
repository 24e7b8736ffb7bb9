/* The rows of simulated workers: those of a step in which gradients are computed. */
#include "sim/client_rows.h"

#include "tests/unit/unit.h"

enum { WORKERS = 3, BATCH = 5 };

static struct err e;

static int divide_rows(struct client_rows *r, size_t n_rows, int steps_per_epoch)
{
    struct settings set;
    struct blocks b;
    int rc;

    settings_default(&set);
    set.node_count = WORKERS;
    set.batch_size = BATCH;
    set.steps_per_epoch = steps_per_epoch;
    assert_ok(settings_blocks(&b, &set, &e));
    rc = client_rows_init(r, &set, &b, true, &(struct shard_request){.n_rows = n_rows}, &e);
    blocks_clear(&b);
    return rc;
}

TEST(each_row_is_computed_once_in_an_epoch)
{
    enum { STEPS = 4, ROWS = STEPS * WORKERS * BATCH };
    struct client_rows r;
    int seen[ROWS] = {0};
    uint32_t rows[BATCH];

    assert_ok(divide_rows(&r, ROWS, STEPS));
    assert_int_equal(r.most, BATCH);
    for (int block = 0; block < WORKERS; block++)
        for (uint64_t step = STEPS; step < 2 * STEPS; step++) {
            assert_int_equal(client_rows_of(&r, block, step, rows), BATCH);
            for (size_t i = 0; i < BATCH; i++)
                seen[rows[i]]++;
        }
    for (int i = 0; i < ROWS; i++)
        assert_int_equal(seen[i], 1);
    client_rows_clear(&r);
}

/* A program that reads fewer rows than when the job was submitted. */
TEST(an_epoch_with_fewer_steps_than_the_jobs_is_refused)
{
    struct client_rows r;

    assert_int_equal(divide_rows(&r, 45, 4), ERR_TRAINER);
    assert_error_has("the 45 rows of client() give 3 steps of an epoch, and an epoch of the job has 4");
    client_rows_clear(&r);
    assert_ok(divide_rows(&r, 60, 3));
    client_rows_clear(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_row_is_computed_once_in_an_epoch),
        cmocka_unit_test(an_epoch_with_fewer_steps_than_the_jobs_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
