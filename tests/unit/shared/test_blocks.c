#include "shared/job/blocks.h"

#include "tests/unit/unit.h"

TEST(iid_lists_all_subsets_in_lexicographic_order)
{
    static const int expected[] = {0, 1, 0, 2, 0, 3, 1, 2, 1, 3, 2, 3};
    struct blocks b;
    struct err e;

    assert_ok(blocks_init(&b, BLOCKS_IID, 4, 2, &e));
    assert_int_equal(b.n_blocks, 6);
    assert_memory_equal(b.holders, expected, sizeof expected);
    blocks_clear(&b);
}

TEST(dup_assigns_one_block_to_each_group_of_workers)
{
    static const int expected[] = {0, 1, 2, 3, 4, 5};
    struct blocks b;
    struct err e;

    assert_ok(blocks_init(&b, BLOCKS_DUP, 6, 2, &e));
    assert_int_equal(b.n_blocks, 3);
    assert_memory_equal(b.holders, expected, sizeof expected);
    blocks_clear(&b);
}

TEST(a_ratio_gives_workers_consecutive_blocks)
{
    static const int expected[] = {0, 0, 1, 2, 2, 2};
    struct blocks b;
    int own[6];
    struct err e;

    assert_ok(blocks_init_ratio(&b, "2,1,3", 3, &e));
    assert_int_equal(b.n_blocks, 6);
    assert_memory_equal(b.holders, expected, sizeof expected);
    assert_false(b.is_equal);
    assert_int_equal(blocks_of(&b, 2, own), 3);
    assert_int_equal(own[0], 3);
    blocks_clear(&b);
    assert_ok(blocks_init_ratio(&b, "1,1", 2, &e));
    assert_true(b.is_equal);
    blocks_clear(&b);
}

TEST(a_ratio_of_other_than_whole_numbers_for_each_worker_is_refused)
{
    static const struct {
        const char *ratio, *expected;
    } cases[] = {
        {"1,2", "\"1,2\" has 2 numbers, the job 3 workers"},
        {"1", "\"1\" has 1 number, the job 3 workers"},
        {"2,2,2", "\"2,2,2\" gives all workers as many blocks; make the batch size 2 times as large"},
        {"1,2,0", "\"1,2,0\" is not a list of whole numbers"},
        {"1,2,", "not a list"},
        {",1,2", "not a list"},
        {"1,,2", "not a list"},
        {"1,-2,1", "not a list"},
        {"1,2.5,1", "not a list"},
        {"1,2,x", "not a list"},
        {"1,2,1 ", "not a list"},
        {"1,2,100000", "not a list"},
        {"30000,30000,30000", "makes more than 65536 blocks"},
    };

    for (size_t i = 0; i < N_OF(cases); i++) {
        struct blocks b;
        struct err e;

        assert_int_equal(blocks_init_ratio(&b, cases[i].ratio, 3, &e), ERR_CONFIG);
        assert_error_has(cases[i].expected);
        blocks_clear(&b);
    }
}

TEST(every_worker_holds_the_same_number_of_blocks)
{
    for (int n = 1; n <= 9; n++)
        for (int r = 1; r <= n; r++) {
            struct blocks b;
            struct err e;
            int out[126];

            assert_ok(blocks_init(&b, BLOCKS_IID, n, r, &e));
            for (int node = 0; node < n; node++) {
                int k = blocks_of(&b, node, out);

                assert_int_equal(k, b.n_blocks * r / n);
                for (int i = 0; i < k; i++) {
                    assert_true(blocks_holds(&b, out[i], node));
                    assert_true(i == 0 || out[i] > out[i - 1]);
                }
            }
            blocks_clear(&b);
        }
}

/* Depends on the block's number alone, so that all its holders have the same gradient. */
TEST(each_block_has_its_own_random_stream_in_each_step)
{
    enum { STEPS = 5, BLOCKS = 6 };
    uint64_t seen[STEPS * BLOCKS];
    struct blocks b;
    struct err e;

    assert_ok(blocks_init(&b, BLOCKS_IID, 4, 2, &e));
    assert_int_equal(b.n_blocks, BLOCKS);
    for (int i = 0; i < STEPS * BLOCKS; i++) {
        seen[i] = blocks_stream(&b, (uint64_t)(i / BLOCKS), i % BLOCKS);
        for (int k = 0; k < i; k++)
            assert_true(seen[k] != seen[i]);
    }
    blocks_clear(&b);
}

TEST(workers_that_share_mini_batches_have_all_samples)
{
    struct blocks b;
    struct err e;
    int own[3];

    assert_ok(blocks_init_shared(&b, 3, &e));
    assert_int_equal(b.n_blocks, 3);
    assert_int_equal(blocks_in_row(&b), 1);
    for (int k = 0; k < 3; k++) {
        assert_int_equal(blocks_of(&b, k, own), 1);
        assert_int_equal(own[0], 0);
        assert_true(blocks_holds(&b, k, k));
    }
    blocks_clear(&b);
}

TEST(invalid_block_assignments_are_refused)
{
    static const struct {
        enum block_assignment assignment;
        int n, r;
    } cases[] = {{BLOCKS_IID, 3, 4}, {BLOCKS_IID, 3, 0},   {BLOCKS_IID, 0, 1},
                 {BLOCKS_DUP, 5, 2}, {BLOCKS_IID, 64, 32}, {BLOCKS_IID, 4096, 2}};

    for (size_t i = 0; i < N_OF(cases); i++) {
        struct blocks b;
        struct err e;

        assert_int_equal(blocks_init(&b, cases[i].assignment, cases[i].n, cases[i].r, &e), ERR_CONFIG);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(iid_lists_all_subsets_in_lexicographic_order),
        cmocka_unit_test(dup_assigns_one_block_to_each_group_of_workers),
        cmocka_unit_test(a_ratio_gives_workers_consecutive_blocks),
        cmocka_unit_test(a_ratio_of_other_than_whole_numbers_for_each_worker_is_refused),
        cmocka_unit_test(every_worker_holds_the_same_number_of_blocks),
        cmocka_unit_test(workers_that_share_mini_batches_have_all_samples),
        cmocka_unit_test(invalid_block_assignments_are_refused),
        cmocka_unit_test(each_block_has_its_own_random_stream_in_each_step),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
